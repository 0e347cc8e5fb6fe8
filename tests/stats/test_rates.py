"""Rates of intervals: the mean of all, the slowest and the fastest, whatever is left over."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xdplab.records import Trial
from xdplab.stats.rates import rate


def interval(packets: int, elapsed_ns: int) -> Trial:
    return Trial((), (), (-1, -1), counts={"packets": packets, "elapsed_ns": elapsed_ns})


def test_all_packets_over_all_time() -> None:
    found = rate([interval(100, 10**9), interval(400, 2 * 10**9)])
    assert found is not None
    assert (found.low, found.high) == (100, 200)
    assert found.point == pytest.approx(500 / 3)
    assert (found.level, found.n) == (1.0, 2)


def test_a_moment_at_the_end_is_no_fastest_interval() -> None:
    found = rate([interval(100, 10**9), interval(100, 10**9), interval(50, 10**6)])
    assert found is not None
    assert found.low == 100
    assert found.high == found.point == pytest.approx(250 / 2.001)
    assert found.n == 2


def test_without_time_there_is_no_rate() -> None:
    assert rate([]) is None
    assert rate([interval(5, 0)]) is None


@given(st.lists(st.tuples(st.integers(0, 10**12), st.integers(1, 10**12)), min_size=1, max_size=9))
def test_the_mean_lies_between_whatever_the_numbers(numbers: list[tuple[int, int]]) -> None:
    found = rate([interval(packets, elapsed) for packets, elapsed in numbers])
    assert found is not None
    assert found.low <= found.point <= found.high
