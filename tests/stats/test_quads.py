"""Laws of the paired differences. Samples are whole numbers, so that sums are exact."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xdplab.records import Trial
from xdplab.stats.quads import doubling_ratio, quad_differences, trial_point

_ns = st.integers(0, 2**32 - 1)


@st.composite
def _samples(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Baseline and variant samples of one to twelve quads."""
    count = 2 * draw(st.integers(1, 12))
    calls = st.lists(_ns, min_size=count, max_size=count)
    return draw(calls), draw(calls)


def _trial(baseline: list[int], variant: list[int]) -> Trial:
    return Trial(tuple(baseline), tuple(variant), placement=(8, 8))


def test_a_quad_is_half_of_b_plus_b_less_a_less_a() -> None:
    # Two quads A B B A: 10 13 15 12, then 20 20 21 20.
    found = quad_differences([10, 12, 20, 20], [13, 15, 20, 21])
    assert found.tolist() == [3.0, 0.5]


@given(
    st.lists(st.tuples(_ns, st.integers(-(10**6), 10**6)), min_size=1, max_size=12),
    st.integers(-(10**6), 10**6),
)
def test_a_drift_that_is_linear_over_a_quad_falls_out(
    quads: list[tuple[int, int]], difference: int
) -> None:
    baseline, variant = [], []
    for start, slope in quads:
        # Calls 0 and 3 are the baseline's, 1 and 2 the variant's; every quad drifts as it likes.
        baseline += [start, start + 3 * slope]
        variant += [start + slope + difference, start + 2 * slope + difference]
    assert quad_differences(baseline, variant).tolist() == [difference] * len(quads)


@given(_samples())
def test_swapping_the_two_flips_the_sign(samples: tuple[list[int], list[int]]) -> None:
    baseline, variant = samples
    swapped = quad_differences(variant, baseline)
    assert (swapped == -quad_differences(baseline, variant)).all()
    there, back = _trial(baseline, variant), _trial(variant, baseline)
    assert trial_point(back, 1000) == -trial_point(there, 1000)


@given(_samples(), st.integers(-(2**31), 2**31))
def test_what_all_calls_share_changes_nothing(
    samples: tuple[list[int], list[int]], shared: int
) -> None:
    baseline, variant = samples
    shifted = quad_differences([x + shared for x in baseline], [x + shared for x in variant])
    assert (shifted == quad_differences(baseline, variant)).all()


@given(_samples(), st.integers(0, 1000))
def test_scaling_the_samples_scales_the_differences(
    samples: tuple[list[int], list[int]], factor: int
) -> None:
    baseline, variant = samples
    scaled = quad_differences([x * factor for x in baseline], [x * factor for x in variant])
    assert (scaled == factor * quad_differences(baseline, variant)).all()


@given(_samples(), st.integers(1, 10**6))
def test_a_trials_point_is_per_operation(
    samples: tuple[list[int], list[int]], operations: int
) -> None:
    trial = _trial(*samples)
    assert trial_point(trial, operations) == trial_point(trial, 1) / operations


def test_an_interrupt_in_less_than_half_of_the_quads_does_not_show() -> None:
    baseline, variant = [100] * 10, [107] * 10
    variant[0] += 1_000_000
    baseline[5] += 1_000_000
    assert trial_point(_trial(baseline, variant), 1) == 7.0


@pytest.mark.parametrize(
    ("baseline", "variant"),
    [
        ([1, 2, 3], [1, 2, 3]),
        ([1, 2], [1, 2, 3, 4]),
        ([[1, 2], [3, 4]], [[1, 2], [3, 4]]),
    ],
    ids=["odd", "unequal", "two dimensions"],
)
def test_what_makes_no_quads_is_refused(baseline: list[int], variant: list[int]) -> None:
    with pytest.raises(ValueError, match="quads need equal, even counts"):
        quad_differences(baseline, variant)


@given(st.integers(1, 10**6), st.integers(1, 10**6))
def test_doubling_ratio_is_time_of_twice_over_time_of_once(once: int, twice: int) -> None:
    # One call in five is hit by an interrupt; the medians bear it.
    baseline = [once] * 8 + [10**9] * 2
    variant = [10**9] * 2 + [twice] * 8
    assert doubling_ratio(_trial(baseline, variant)) == twice / once


def test_samples_that_do_not_fit_a_float32_keep_their_last_nanosecond() -> None:
    # duration * 1000 loops reach 2**24 ns easily, where a float32 starts to count by twos.
    big = 2**31
    assert quad_differences([big, big], [big + 1, big]).tolist() == [0.5]
    assert quad_differences(np.array([big, big]), np.array([big + 1, big + 1])).tolist() == [1.0]
