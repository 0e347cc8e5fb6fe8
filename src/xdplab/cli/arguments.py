"""Types of what stands on the command line, read strictly: what could be a slip is refused.

Python's own conversions take more than people write: int() reads 1_0 as 10 and the digits of every
script, float() blanks and "infinity", and an empty path is the working directory.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import click

_WHOLE = re.compile("[0-9]{1,18}")
"""No more digits than 64 bits hold; int() itself refuses more than 4300."""
_DECIMAL = re.compile(r"([0-9]+(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?", re.IGNORECASE)


def whole_number(text: str) -> int | None:
    """The number that `text` is in decimal digits, None where it is something else."""
    return int(text) if _WHOLE.fullmatch(text) else None


class WholeNumber(click.ParamType[int]):
    """A whole number between two others."""

    name = "N"

    def __init__(self, least: int, most: int = (1 << 63) - 1) -> None:
        self._least = least
        self._most = most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        number = whole_number(str(value))
        if number is None or not self._least <= number <= self._most:
            wanted = f"from {self._least} to {self._most}" if self._most >> 62 == 0 else ""
            self.fail(
                f"{value!r} is no whole number {wanted or f'of {self._least} or more'}", param, ctx
            )
        return number


class WholeNumbers(click.ParamType[tuple[int, ...]]):
    """A comma-separated list of whole numbers."""

    name = "N,N,..."

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        numbers = [whole_number(word) for word in str(value).split(",")]
        known = tuple(number for number in numbers if number is not None)
        if len(known) < len(numbers):
            self.fail(f"{value!r} is no list of whole numbers such as 6,20,40", param, ctx)
        return known


class Decimal(click.ParamType[float]):
    """A number between two others; click's own range lets nan through.

    `what` and `unit` word the refusal.
    """

    name = "NUMBER"

    def __init__(self, least: float, most: float, what: str, unit: str) -> None:
        self._least = least
        self._most = most
        self._what = what
        self._unit = unit

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number = float(value) if _DECIMAL.fullmatch(str(value)) else math.nan
        if not self._least <= number <= self._most:
            self.fail(
                f"{value!r} is no {self._what} from {self._least} to {self._most:.0f} {self._unit}",
                param,
                ctx,
            )
        return number


class Seconds(Decimal):
    """A time between two others."""

    name = "SECONDS"

    def __init__(self, least_s: float, most_s: float) -> None:
        super().__init__(least_s, most_s, "time", "seconds")


class FilePath(click.Path):
    """The path of a file; whether it is there is found out where it is opened."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        # An empty one is what a shell makes of a variable that is not set.
        if not str(value):
            self.fail("an empty name is no file. Give a file's path", param, ctx)
        return super().convert(value, param, ctx)
