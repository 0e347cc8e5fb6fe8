"""Where one way of doing something becomes cheaper than another as the work grows.

Two figures are told apart where their intervals do not overlap and their points differ by more than
the run's resolution. Comparing intervals instead of differences errs on the side of silence:
what they cannot tell apart is undecided, and no crossing is placed more closely than between the
sizes to either side that were decided (Schenker and Gentleman, "On Judging the Significance of
Differences by Examining the Overlap Between Confidence Intervals", 2001).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdplab.records import Estimate


@dataclass(frozen=True, slots=True)
class Crossing:
    """`cheaper_before` (0 for the first, 1 for the second) is cheaper at `after`, the other at
    `before`; both are sizes that were measured, and all between them are undecided.
    """

    cheaper_before: int
    after: int
    before: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two ways compared size by size: at which the first is cheaper, the second, neither."""

    first: tuple[int, ...]
    second: tuple[int, ...]
    undecided: tuple[int, ...]

    @property
    def crossings(self) -> list[Crossing]:
        """Every change from one to the other, in order of size."""
        decided = sorted([(size, 0) for size in self.first] + [(size, 1) for size in self.second])
        return [
            Crossing(cheaper, size, following)
            for (size, cheaper), (following, other) in itertools.pairwise(decided)
            if cheaper != other
        ]


def compare(
    first: Mapping[int, Estimate], second: Mapping[int, Estimate], resolution: float | None
) -> Comparison:
    """Compare at the sizes that both have; estimates of costs in one unit, as `resolution` is."""
    cheaper: Sequence[list[int]] = ([], [], [])
    for size in sorted(first.keys() & second.keys()):
        one, other = first[size], second[size]
        beyond = resolution is None or abs(one.point - other.point) > resolution
        which = 2
        if beyond and one.high < other.low:
            which = 0
        elif beyond and other.high < one.low:
            which = 1
        cheaper[which].append(size)
    return Comparison(*(tuple(sizes) for sizes in cheaper))
