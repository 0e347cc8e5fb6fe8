"""Pictures as data: tables become bars, whatever stands in them."""

from __future__ import annotations

import pytest

from tests.suites.measured import defaults, engine, measure
from xdplab.records import Estimate
from xdplab.suites.base import find_suites
from xdplab.suites.picture import Bars, Curves, bars, has_figures
from xdplab.suites.table import Column, Figure, Published, Row, Table


def figure(point: float, *, bare: bool = False, resolved: bool = True) -> Figure:
    estimate = Estimate(point, point - 1, point + 1, 0.95, 9)
    return Figure(estimate, digits=1, bare=bare, resolved=resolved)


GROUPED = Table(
    "a title",
    (
        Column("size", "B"),
        Column("program"),
        Column("cycles"),
        Column("cost", "ns"),
        Column("before", "ns"),
        Column("theirs", "ns"),
    ),
    (
        Row((6, "one", figure(9, bare=True), figure(3), figure(7), Published("5.7"))),
        Row((None, "two", None, figure(4, resolved=False), None, None)),
        Row((20, "one", None, None, None, Published("~6")), note="no such helper"),
    ),
)


def test_the_first_column_with_intervals_is_drawn_and_grouped() -> None:
    drawn = bars(GROUPED)
    assert (drawn.title, drawn.unit) == ("a title: cost", "ns")
    assert [group.heading for group in drawn.groups] == ["6 B", "20 B"]
    six, twenty = drawn.groups
    assert [bar.label for bar in six.bars] == ["one", "two"]
    assert [bar.estimate.point for bar in six.bars if bar.estimate] == [3, 4]
    assert [bar.resolved for bar in six.bars] == [True, False]
    assert [bar.digits for bar in six.bars] == [1, 1]
    assert [(bar.estimate, bar.note) for bar in twenty.bars] == [(None, "no such helper")]


def test_another_column_and_published_figures() -> None:
    drawn = bars(GROUPED, "before", "theirs")
    assert drawn.title == "a title: before"
    found = [(bar.estimate, bar.published) for group in drawn.groups for bar in group.bars]
    assert found == [(Estimate(7, 6, 8, 0.95, 9), 5.7), (None, None), (None, 6.0)]


def test_figures_to_the_left_name_nothing() -> None:
    one = Table(
        "t",
        (Column("program"), Column("whole", "ns"), Column("over", "ns")),
        (Row(("a", figure(1), figure(2))),),
    )
    (group,) = bars(one, "over").groups
    assert (group.heading, group.bars[0].label) == ("", "a")


def test_rows_that_all_have_names_of_their_own_are_not_grouped() -> None:
    one = Table(
        "t",
        (Column("operation"), Column("kind"), Column("cost", "ns")),
        (Row(("lookup", "map", figure(1))), Row(("add", "atomic", figure(2)))),
    )
    (group,) = bars(one).groups
    assert [bar.label for bar in group.bars] == ["lookup, map", "add, atomic"]


def test_what_is_not_there_cannot_be_drawn() -> None:
    with pytest.raises(ValueError, match="no column 'speed'"):
        bars(GROUPED, "speed")
    empty = Table("t", (Column("a"), Column("b")), (Row(("x", figure(1, bare=True))),))
    assert not has_figures(empty)
    with pytest.raises(ValueError, match="of figures"):
        bars(empty)


@pytest.mark.parametrize("name", list(find_suites()))
def test_every_suite_has_a_picture_on_each_of_its_engines(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    suite = find_suites()[name]
    for of_engine in suite.engines:
        on = engine(clock_ghz=2.5, name=of_engine)
        measured = measure(monkeypatch, suite, defaults(suite), on)
        pictures = suite.pictures(measured.results, measured.tables)
        assert pictures
        for picture in pictures:
            assert picture.title
            if isinstance(picture, Bars):
                assert any(bar.estimate for group in picture.groups for bar in group.bars)
            else:
                assert isinstance(picture, Curves)
                assert all(series.points for series in picture.series)
