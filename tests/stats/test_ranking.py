"""The order of a list whose figures cannot all be told apart, as properties."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xdplab.records import Estimate
from xdplab.stats.ranking import LEAST_NS, LEAST_PART, is_below, ranked


def made(point: float, half: float = 0.0) -> Estimate:
    """A figure with an interval of twice `half`."""
    return Estimate(point, point - half, point + half, 0.95, 20)


FIGURES = st.lists(
    st.builds(made, st.floats(-1, 120), st.floats(0, 3) | st.just(float("inf"))), max_size=25
)
COSTS = st.lists(st.floats(0.01, 100), min_size=2, max_size=25)


@given(FIGURES)
def test_every_figure_has_one_place(figures: list[Estimate]) -> None:
    assert sorted(ranked(figures)) == list(range(len(figures)))


@given(FIGURES)
def test_what_is_less_beyond_doubt_stands_before(figures: list[Estimate]) -> None:
    order = ranked(figures)
    for position, place in enumerate(order):
        for later in order[position + 1 :]:
            assert not is_below(figures[later], figures[place])


@given(FIGURES)
def test_being_below_is_a_strict_partial_order(figures: list[Estimate]) -> None:
    for one in figures:
        assert not is_below(one, one)
        for other in figures:
            assert not (is_below(one, other) and is_below(other, one))
            for third in figures:
                if is_below(one, other) and is_below(other, third):
                    assert is_below(one, third)


@given(FIGURES)
def test_an_order_that_it_made_stays_as_it_is(figures: list[Estimate]) -> None:
    once = [figures[place] for place in ranked(figures)]
    assert ranked(once) == list(range(len(once)))


@given(COSTS, st.randoms(use_true_random=False))
def test_a_list_in_its_right_order_keeps_it_in_every_run(
    costs: list[float], chance: random.Random
) -> None:
    """As long as no figure strays from its cost by half of what tells two apart."""

    def strayed(cost: float) -> Estimate:
        half = max(LEAST_NS, LEAST_PART * cost) / 2
        return made(cost + chance.uniform(-0.99, 0.99) * half * (1 - LEAST_PART))

    listed = sorted(costs)
    assert ranked([strayed(cost) for cost in listed]) == list(range(len(listed)))


@given(st.integers(1, 25), st.randoms(use_true_random=False))
def test_far_apart_figures_are_sorted_however_they_were_listed(
    count: int, chance: random.Random
) -> None:
    ladder = [1.2**step for step in range(count)]
    shuffled = chance.sample(ladder, len(ladder))
    order = ranked([made(cost, half=0.01 * cost) for cost in shuffled])
    assert [shuffled[place] for place in order] == ladder


@pytest.mark.parametrize(
    ("one", "other", "below"),
    [
        (made(1.0), made(1.2), True),
        # Less than a tenth of a nanosecond, or than a twentieth.
        (made(1.0), made(1.09), False),
        (made(100.0), made(104.0), False),
        (made(100.0), made(106.0), True),
        # Intervals that meet, and figures that have none.
        (made(1.0, 0.1), made(1.2, 0.1), False),
        (made(1.0, float("inf")), made(9.0), False),
    ],
)
def test_both_margins_and_the_intervals_decide(one: Estimate, other: Estimate, below: bool) -> None:
    assert is_below(one, other) is below
    assert ranked([other, one]) == ([1, 0] if below else [0, 1])
