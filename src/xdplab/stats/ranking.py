"""An order of figures that runs agree on: what cannot be told apart stays as it was listed.

Sorting by points alone would swap neighbours from run to run. "Cheaper beyond doubt" is a strict
partial order (an intersection of interval orders; Fishburn, "Interval Orders and Interval
Graphs", 1985); of its linear extensions the one nearest to the list is taken.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdplab.records import Estimate

LEAST_NS = 0.1
LEAST_PART = 0.05
"""How far apart two figures must be, in ns and as a part of the greater one, to be told apart:
what a figure may differ by from run to run."""


def is_below(one: Estimate, other: Estimate) -> bool:
    """Whether `one` is less than `other` beyond doubt: by both margins, intervals apart."""
    return (
        one.high < other.low
        and one.point + LEAST_NS < other.point
        and one.point < (1 - LEAST_PART) * other.point
    )


def ranked(figures: Sequence[Estimate]) -> list[int]:
    """Places in `figures`, least first.

    A figure stands before every one that it is below; among those free to come next, the one
    listed first comes. So an order that was listed right stays as it is while no figure strays by
    half a margin.
    """
    left = list(range(len(figures)))
    order = []
    while left:
        following = next(
            place
            for place in left
            if not any(is_below(figures[other], figures[place]) for other in left)
        )
        left.remove(following)
        order.append(following)
    return order
