"""Student's t against scipy's, and what must hold of any."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from xdplab.stats.student import quantile, two_sided

FREEDOM = st.floats(1, 1e5)


@given(st.floats(0, 1e6), FREEDOM)
def test_chances_are_those_of_scipy(t: float, freedom: float) -> None:
    expected = float(2 * special.stdtr(freedom, -t))
    assert two_sided(t, freedom) == pytest.approx(expected, rel=1e-6, abs=1e-290)
    assert two_sided(-t, freedom) == two_sided(t, freedom)


@given(FREEDOM, st.floats(0.5, 0.9999))
def test_quantiles_are_those_of_scipy(freedom: float, level: float) -> None:
    expected = float(special.stdtrit(freedom, 0.5 + level / 2))
    assert quantile(freedom, level) == pytest.approx(expected, rel=1e-7)


@given(FREEDOM, st.floats(0.5, 0.9999))
def test_a_quantile_has_its_level_beyond_it(freedom: float, level: float) -> None:
    assert two_sided(quantile(freedom, level), freedom) == pytest.approx(1 - level, rel=1e-6)


def test_without_end_of_freedom_it_is_the_normal_distribution() -> None:
    assert quantile(math.inf, 0.95) == pytest.approx(1.959963984540054)
    assert two_sided(1.959963984540054, math.inf) == pytest.approx(0.05)


def test_what_is_no_number_of_this_world_has_no_chance_and_nothing_has_all() -> None:
    assert two_sided(math.inf, 3) == 0.0
    assert two_sided(1e200, 3) == 0.0
    assert two_sided(0.0, 3) == 1.0
