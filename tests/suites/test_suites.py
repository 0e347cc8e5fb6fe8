"""Suites are found by being there, and results by what they are."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import xdplab.suites
from xdplab.engines.base import Method
from xdplab.errors import UsageError
from xdplab.records import RESOLVED, Result
from xdplab.suites.base import Measure, Results, choose_suites, find_suites
from xdplab.suites.table import Column, Row, Table

_NEW = """
from xdplab.suites.base import Plan, Suite

SUITE = Suite("found-by-itself", "a title", (), lambda v, e: Plan(()), lambda r, n: ())
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """One more folder of the package xdplab.suites."""
    monkeypatch.setattr(xdplab.suites, "__path__", [*xdplab.suites.__path__, str(tmp_path)])
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("xdplab.suites.zz_")]:
        del sys.modules[name]


def _write(path: Path, text: str) -> None:
    path.write_text(text)
    # The import system remembers a folder's names for as long as its time stamp stands.
    importlib.invalidate_caches()


def test_the_laboratorys_own_suites_are_found() -> None:
    found = find_suites()
    assert {"adjust-head", "packet-access"} <= found.keys()
    assert all(name == suite.name for name, suite in found.items())
    assert all(suite.title for suite in found.values())


def test_a_module_with_a_suite_is_found_with_no_other_edit(folder: Path) -> None:
    before = find_suites()
    _write(folder / "zz_new.py", _NEW)
    assert list(find_suites()) == [*before, "found-by-itself"]
    assert choose_suites(["found-by-itself"])[0].title == "a title"


def test_what_is_no_suite_is_passed_over(folder: Path) -> None:
    before = find_suites()
    _write(folder / "zz_other.py", "SUITE = 'not one'\n")
    _write(folder / "zz_none.py", "")
    assert find_suites() == before


def test_without_a_name_all_are_chosen() -> None:
    assert choose_suites([]) == list(find_suites().values())


def test_named_suites_come_in_the_order_of_their_names_and_once() -> None:
    names = ["packet-access", "adjust-head", "packet-access"]
    assert [suite.name for suite in choose_suites(names)] == names[:2]


def test_an_unknown_suite_is_named_and_so_are_the_known() -> None:
    known = ", ".join(find_suites())
    with pytest.raises(UsageError) as caught:
        choose_suites(["adjust-head", "adjust_head", "x"])
    assert str(caught.value) == f"there is no suite 'adjust_head'. The suites are: {known}"


def test_option_names_are_no_two_suites() -> None:
    names = [option.name for suite in find_suites().values() for option in suite.options]
    assert len(names) == len(set(names))


# --- results


def _result(variant: str, baseline: str | None, method: Method, **parameters: int | str) -> Result:
    return Result(
        suite="made",
        engine="scripted",
        variant=variant,
        baseline=baseline,
        parameters=parameters,
        metric=Measure(variant, variant, parameters, baseline, baseline).metric,
        method=method.value,
        estimate=None,
        resolution=None,
        verdict=RESOLVED,
    )


_RESULTS = [
    _result("a", None, Method.OPERATION),
    _result("a", None, Method.PACKET),
    _result("a", "empty", Method.OPERATION, size_bytes=20),
    _result("a", "b", Method.OPERATION, size_bytes=20),
    _result("a", "empty", Method.OPERATION, size_bytes=6),
    _result("c", "empty", Method.OPERATION, size_bytes=6, packet="ipv4"),
]


def test_results_are_found_by_all_that_tells_them_apart() -> None:
    results = Results(_RESULTS)
    methods = (Method.OPERATION, Method.PACKET)
    gross = [results.find("a", {}, metric="gross_ns", method=method) for method in methods]
    assert gross == _RESULTS[:2]
    assert results.find("a", {}, metric="gross_ns", method=Method.LIVE) is None
    assert results.find("a", {"size_bytes": 20}) is _RESULTS[2]
    assert results.find("a", {"size_bytes": 20}, baseline="b") is _RESULTS[3]
    assert results.find("a", {"size_bytes": 6}, baseline="empty") is _RESULTS[4]
    # Just these parameters: a row that has more is another row.
    assert results.find("c", {"size_bytes": 6}) is None
    assert results.find("c", {"size_bytes": 6, "packet": "ipv4"}) is _RESULTS[5]
    assert results.find("a", {"size_bytes": 6}, baseline="b") is None
    assert results.find("a", {"size_bytes": 6}, metric="gross_ns") is None
    assert results.find("a", {"size_bytes": 6}, method=Method.PACKET) is None


def test_values_of_a_parameter_come_in_order_and_once() -> None:
    results = Results(_RESULTS)
    assert results.values_of("size_bytes") == [20, 6]
    assert results.values_of("packet") == []
    assert results.all() == tuple(_RESULTS)


def test_a_row_with_other_cells_than_columns_is_refused() -> None:
    columns = (Column("a"), Column("b"))
    Table("fits", columns, [Row(("x", None))])
    with pytest.raises(ValueError, match="a row of 'too long' has 3 cells"):
        Table("too long", columns, [Row(("x", None)), Row(("x", None, 1))])
