"""The pictures of the suite memset: cost over size for each way, and where two of them cross."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from xdplab.records import Estimate
from xdplab.stats.crossings import Crossing
from xdplab.suites.base import Results
from xdplab.suites.memset_families import CONSTANT_SIZES, FAMILIES, PLACES
from xdplab.suites.memset_tables import (
    STORES,
    STOSQ,
    comparisons,
    costs_by_size,
    in_place,
    name_of,
)
from xdplab.suites.picture import Curves, Mark, Picture, Series
from xdplab.suites.table import Column, Table

_DRAWN = (STORES, STOSQ, *(f.variant for f in FAMILIES if not f.variant.startswith("constant")))


def pictures(results: Results, tables: Sequence[Table]) -> list[Picture]:
    """One of cost over size: by way natively, by place in BPF."""
    series = [Series(name_of(family), _points(costs_by_size(results, family))) for family in _DRAWN]
    series += [Series(place, _points(_costs_in(results, place))) for place in PLACES]
    shown = [one for one in series if one.points]
    if not shown:
        return []
    marks = tuple(_marks(results))
    return [Curves(tables[0].title, Column("size", "B"), Column("cost", "ns"), shown, marks)]


def _points(costs: Mapping[int, Estimate]) -> list[tuple[float, Estimate]]:
    return [(float(size), estimate) for size, estimate in costs.items()]


def _costs_in(results: Results, place: str) -> dict[int, Estimate]:
    found = {size: in_place(results, place, size) for size in CONSTANT_SIZES}
    return {size: one.estimate for size, one in found.items() if one and one.estimate}


def _marks(results: Results) -> Iterator[Mark]:
    for pair, comparison in comparisons(results).items():
        costs = [costs_by_size(results, family) for family in pair]
        for crossing in comparison.crossings:
            before, behind = crossing.cheaper_before, 1 - crossing.cheaper_before
            place = _where_lines_cross(costs[before], costs[behind], crossing)
            if place is not None:
                text = (
                    f"{name_of(pair[before])} up to {crossing.after} B, {name_of(pair[behind])} "
                    f"from {crossing.before} B on"
                )
                yield Mark(*place, float(crossing.after), float(crossing.before), text)


def _where_lines_cross(
    cheaper: Mapping[int, Estimate], other: Mapping[int, Estimate], crossing: Crossing
) -> tuple[float, float] | None:
    """Where straight lines between the two decided sizes meet on logarithmic scales."""
    ends = [costs[size].point for costs in (cheaper, other) for size in _ends(crossing)]
    if min(ends) <= 0:
        return None
    one, one_later, two, two_later = map(math.log, ends)
    share = (two - one) / ((two - one) + (one_later - two_later))
    first, last = map(math.log, _ends(crossing))
    return math.exp(first + share * (last - first)), math.exp(one + share * (one_later - one))


def _ends(crossing: Crossing) -> tuple[int, int]:
    return crossing.after, crossing.before
