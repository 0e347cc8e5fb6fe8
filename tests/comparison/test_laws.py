"""What holds of every comparison, whatever was measured."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.records.strategies import DOCUMENTS
from tests.store.made import document, result
from xdplab.comparison import Comparison, Difference, Side, compare, in_columns, worse_than
from xdplab.records import RESOLVED, TOO_FEW_LOADS, WITHIN_NOISE, Document, Estimate, Result
from xdplab.views.comparison import (
    COMMIT_COLUMNS,
    commit_text,
    comparison_csv,
    comparison_json,
    comparison_tables,
    row_digits,
)
from xdplab.views.json_document import dumps
from xdplab.views.layout import arrange
from xdplab.views.text import markdown

_FIGURES = st.lists(st.tuples(st.floats(-50, 500), st.floats(0, 20)), min_size=1, max_size=6)


def row(variant: str, ns: float, half_ns: float = 0.02, clock_ghz: float = 4.0) -> Result:
    figures = [
        Estimate(scale * ns, scale * (ns - half_ns), scale * (ns + half_ns), 0.95, 30)
        for scale in (1.0, clock_ghz)
    ]
    return replace(result(variant, ns), estimate=figures[0], cycles=figures[1])


def run(figures: Sequence[tuple[float, float]]) -> Document:
    return document(results=[row(str(at), ns, half) for at, (ns, half) in enumerate(figures)])


def between(old: Document | Sequence[Document], new: Document | Sequence[Document]) -> Comparison:
    olds, news = ([one] if isinstance(one, Document) else list(one) for one in (old, new))
    return compare(Side("a", olds), Side("b", news))


def only(comparison: Comparison) -> Difference:
    (found,) = comparison.rows
    return found


@given(_FIGURES)
def test_a_run_does_not_differ_from_itself(figures: Sequence[tuple[float, float]]) -> None:
    rows = between(run(figures), run(figures)).rows
    assert len(rows) == len(figures)
    assert {one.verdict for one in rows} == {WITHIN_NOISE}
    assert {one.change.point for one in rows} == {0.0}


@given(_FIGURES, _FIGURES)
def test_turned_round_signs_change_and_verdicts_do_not(
    one: Sequence[tuple[float, float]], other: Sequence[tuple[float, float]]
) -> None:
    there, back = between(run(one), run(other)), between(run(other), run(one))
    turned = {found.result.variant: found for found in back.rows}
    for found in there.rows:
        mirror = turned[found.result.variant]
        assert mirror.change.point == -found.change.point
        assert mirror.change.low == pytest.approx(-found.change.high)
        assert mirror.verdict == found.verdict
        if found.change.point:
            assert mirror.is_worse != found.is_worse


@given(_FIGURES, st.randoms(use_true_random=False))
def test_the_order_of_rows_decides_nothing(
    figures: Sequence[tuple[float, float]], chance: random.Random
) -> None:
    first = run(figures)
    second = run([(9.0, half) for _, half in figures])
    shuffled = list(second.results)
    chance.shuffle(shuffled)
    mixed = between(first, replace(second, results=tuple(shuffled)))
    assert between(first, second).rows == mixed.rows


@given(_FIGURES, st.floats(0.5, 2))
def test_another_clock_alone_is_never_a_difference(
    figures: Sequence[tuple[float, float]], factor: float
) -> None:
    slow = [
        row(str(at), ns * factor, half * factor, 4.0 / factor)
        for at, (ns, half) in enumerate(figures)
    ]
    assert not any(
        one.verdict == RESOLVED for one in between(run(figures), document(results=slow)).rows
    )


def test_one_run_does_not_show_what_moves_between_runs_and_several_do() -> None:
    assert only(between(run([(100.0, 0.02)]), run([(101.0, 0.02)]))).verdict == WITHIN_NOISE
    before = [run([(ns, 0.02)]) for ns in (100.0, 100.02, 99.98, 100.01)]
    after = [run([(ns, 0.02)]) for ns in (101.0, 101.02, 100.98, 101.01)]
    assert only(between(before, after)).verdict == RESOLVED
    scattered = [run([(ns, 0.02)]) for ns in (90.0, 112.0, 95.0, 107.0)]
    assert only(between(before, scattered)).verdict == WITHIN_NOISE
    # One run beside them has their spread.
    assert only(between(before, run([(101.0, 0.02)]))).verdict == RESOLVED
    assert only(between(scattered, run([(101.0, 0.02)]))).verdict == WITHIN_NOISE


def test_runs_that_agree_by_chance_have_their_own_intervals_still() -> None:
    before, after = ([run([(ns, 0.5)])] * 3 for ns in (3.0, 3.1))
    assert only(between(before, after)).verdict == WITHIN_NOISE


def test_too_few_loads_are_not_judged() -> None:
    few = replace(row("0", 3.0), estimate=Estimate(3.0, -math.inf, math.inf, 0.95, 2), cycles=None)
    assert only(between(document(results=[few]), run([(9.0, 0.02)]))).verdict == TOO_FEW_LOADS


def test_objects_of_one_count_stay_apart_and_are_judged_on_any_machine() -> None:
    def counted(insns: int, name: str) -> Result:
        exact = Estimate(insns, insns, insns, 1.0, 9)
        return replace(result(object=name), suite="count", metric="insns", estimate=exact)

    old = document(results=[counted(40, "a.o"), counted(50, "b.o")])
    new = document(results=[counted(40, "a.o"), counted(51, "b.o")])
    found = between(old, replace(new, environment={"cpu": {"model": "other"}}))
    assert [(one.change.point, one.verdict) for one in found.rows] == [(0, "equal"), (1, RESOLVED)]
    assert found.is_judged


@settings(max_examples=40, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.lists(DOCUMENTS, min_size=1, max_size=3), st.lists(DOCUMENTS, min_size=1, max_size=2))
def test_whatever_documents_hold_a_comparison_can_be_written_in_every_format(
    one: list[Document], other: list[Document]
) -> None:
    # The same rows on both sides, and others: what strangers wrote is of any size and sort.
    for cycles in (False, True):
        comparison = compare(
            Side("a", one), Side("b", [*other, one[0]]), across=True, cycles=cycles
        )
        for table in comparison_tables(comparison, 10.0):
            assert markdown(table)
            assert list(arrange(table, 72))
        assert max(map(len, commit_text(comparison).splitlines()), default=0) <= COMMIT_COLUMNS
        assert dumps(comparison_json(comparison))
        assert comparison_csv(comparison)
        assert in_columns([Side("a", one)], cycles) is not None
        worse_than(comparison, 0, "%")


@given(
    st.text(st.characters(codec="utf-8"), max_size=200),
    st.dictionaries(st.text(max_size=40), st.text(max_size=90), max_size=3),
    st.floats(0, 1e40),
    st.floats(0, 1e40),
)
def test_a_patchs_message_fits_and_no_figure_in_it_is_cut(
    variant: str, parameters: dict[str, str], old: float, new: float
) -> None:
    def side(ns: float) -> Document:
        one = replace(row(variant, ns), parameters=parameters)
        return document(results=[one])

    comparison = between(side(old), side(new))
    text = commit_text(comparison)
    assert max(map(len, text.splitlines()), default=0) <= COMMIT_COLUMNS
    for one in comparison.rows:
        digits = row_digits(one)
        for figure in (one.before.point, one.after.point):
            assert f"{figure:.{digits}f}" in text
