"""Where the nanoseconds go: what stands on what."""

from __future__ import annotations

from dataclasses import replace

from tests.store.made import result, row
from xdplab.records import WITHIN_NOISE
from xdplab.suites.waterfall import Step, waterfall


def test_each_bar_begins_where_what_it_adds_to_ends() -> None:
    noise = replace(result(ns=1.0), verdict=WITHIN_NOISE)
    steps = [
        Step("ground", "no touch", 7.0, result(ns=7.0)),
        Step("read", "read", 8.5, result(ns=1.5), "ground"),
        Step("call", "one call", 9.5, noise, "read"),
        Step("other", "another way", 10.0, result(ns=3.0), "ground"),
    ]
    picture = waterfall("where", steps)
    assert picture is not None
    bars = picture.groups[0].bars
    assert [bar.begins for bar in bars] == [0.0, 7.0, 8.5, 7.0]
    assert [bar.resolved for bar in bars] == [True, True, False, True]
    assert bars[2].label == "one call, over: read"


def test_what_was_not_measured_and_what_stands_on_nothing_is_left_out() -> None:
    steps = [Step("a", "a", 7.0, row()), Step("b", "b", 8.0, result(), "gone")]
    assert waterfall("where", steps) is None
