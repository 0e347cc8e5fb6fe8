"""Crossings: found where there is one, and nothing said where intervals do not tell."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from xdplab.records import Estimate
from xdplab.stats.crossings import Crossing, compare

FIRST, SECOND = 0, 1


def costs(half_width: float = 0.1, **points: float) -> dict[int, Estimate]:
    """Estimates by size: `_16=1.0` is a cost of 1 at 16 bytes."""
    return {
        int(name[1:]): Estimate(point, point - half_width, point + half_width, 0.95, 9)
        for name, point in points.items()
    }


def test_one_crossing_lies_between_the_sizes_that_are_decided() -> None:
    found = compare(costs(_16=1, _32=2, _64=4, _128=8), costs(_16=3, _32=3, _64=4, _128=5), None)
    assert (found.first, found.second, found.undecided) == ((16, 32), (128,), (64,))
    assert found.crossings == [Crossing(FIRST, 32, 128)]


def test_there_and_back() -> None:
    found = compare(costs(_1=1, _2=5, _3=1), costs(_1=2, _2=2, _3=2), None)
    assert found.crossings == [Crossing(FIRST, 1, 2), Crossing(SECOND, 2, 3)]


def test_overlapping_intervals_decide_nothing() -> None:
    found = compare(costs(2.0, _16=1, _32=9), costs(2.0, _16=3, _32=6), None)
    assert found.undecided == (16, 32)
    assert found.crossings == []


def test_what_lies_below_the_resolution_decides_nothing() -> None:
    one, other = costs(0.01, _16=1.0), costs(0.01, _16=1.1)
    assert compare(one, other, 0.05).first == (16,)
    assert compare(one, other, 0.2).undecided == (16,)


def test_too_few_loads_decide_nothing() -> None:
    unknown = {16: Estimate(1.0, -float("inf"), float("inf"), 0.95, 3)}
    assert compare(unknown, costs(_16=50), None).undecided == (16,)


def test_sizes_that_only_one_has_are_left_out() -> None:
    found = compare(costs(_16=1, _17=1), costs(_16=3, _18=3), None)
    assert found.first == (16,)
    assert not found.second
    assert not found.undecided


_COSTS = st.dictionaries(
    st.integers(1, 30),
    st.tuples(st.floats(0, 100), st.floats(0, 5)).map(
        lambda it: Estimate(it[0], it[0] - it[1], it[0] + it[1], 0.95, 9)
    ),
)


@given(_COSTS, _COSTS, st.none() | st.floats(0, 10))
def test_every_size_is_somewhere_once_and_names_do_not_matter(
    one: dict[int, Estimate], other: dict[int, Estimate], resolution: float | None
) -> None:
    found = compare(one, other, resolution)
    all_sizes = [*found.first, *found.second, *found.undecided]
    assert sorted(all_sizes) == sorted(one.keys() & other.keys())
    turned = compare(other, one, resolution)
    assert (turned.first, turned.second) == (found.second, found.first)
    assert turned.undecided == found.undecided
    for crossing in found.crossings:
        sides = (found.first, found.second)
        assert crossing.after in sides[crossing.cheaper_before]
        assert crossing.before in sides[1 - crossing.cheaper_before]
        between = range(crossing.after + 1, crossing.before)
        assert not any(size in found.first or size in found.second for size in between)
