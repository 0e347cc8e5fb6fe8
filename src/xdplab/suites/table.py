"""A suite's table as data: what stands in it, not how it looks. views/ turns it into text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdplab.records import RESOLVED, Estimate, Result


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured figure in a cell.

    `digits` are those after the point. `resolved` False marks a difference that this run
    cannot tell from nothing. `signed` shows a plus. `bare` leaves the interval out: for
    what another column has with its interval, in another unit.
    """

    estimate: Estimate
    digits: int = 2
    signed: bool = False
    resolved: bool = True
    bare: bool = False

    @classmethod
    def of(cls, result: Result, digits: int = 2, signed: bool = False) -> Figure | None:
        """The cell of a result; None where it has no figure (its note says why)."""
        if result.estimate is None:
            return None
        return cls(result.estimate, digits, signed, result.verdict == RESOLVED)

    @classmethod
    def cycles_of(cls, result: Result) -> Figure | None:
        """The result in cycles, bare; None where the clock is not known."""
        return None if result.cycles is None else cls(result.cycles, digits=1, bare=True)


@dataclass(frozen=True, slots=True)
class Published:
    """A figure that somebody else published, as they printed it; always labelled as such."""

    text: str


Cell = Figure | Published | str | int | None
"""Text, a whole number, a figure, or None for a cell that has nothing to say."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column's heading and its unit ("" where there is none)."""

    heading: str
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One row; `note` replaces the figures where it could not be measured."""

    cells: Sequence[Cell]
    note: str = ""
    begins_section: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A titled table with what must be known to read it (`notes`, one sentence each)."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    notes: Sequence[str] = field(default=())

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row.cells) != len(self.columns):
                raise ValueError(f"a row of {self.title!r} has {len(row.cells)} cells")
