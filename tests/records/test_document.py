"""The result document: JSON and back, and what of a foreign document is wrong."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.records.strategies import DOCUMENTS, JSON
from xdplab.documents import document_from_json, documents_from_text
from xdplab.errors import UsageError
from xdplab.records import (
    RESOLVED,
    SCHEMA,
    Document,
    Estimate,
    Finding,
    Json,
    Result,
    RunInfo,
    Trial,
    Warning,
)

_ESTIMATE = Estimate(2.5, 2.4, 2.7, 0.95, 5)
_EXAMPLE = Document(
    run=RunInfo("1", "2026-01-01T00:00:00+00:00", 1.5, ("xdplab", "run"), "0.1.0"),
    environment={"kernel": {"release": "6.18"}},
    results=(
        Result(
            suite="made",
            engine="scripted",
            variant="a",
            baseline="empty",
            parameters={"size_bytes": 6},
            metric="cost_ns",
            method="operation",
            estimate=_ESTIMATE,
            resolution=0.01,
            verdict=RESOLVED,
            operations_per_call=1000,
            trials=(Trial((1, 2), (3, 4), (8, 12), 1, 9, 4.0),),
            cycles=Estimate(10.0, 9.6, 10.8, 0.95, 5),
        ),
    ),
    warnings=(Warning("doubling", "it does not", "read it so"),),
    findings=(Finding("made", "scripted", "it clears"),),
)


def _example() -> Json:
    data: Json = json.loads(json.dumps(_EXAMPLE.to_json()))
    return data


@settings(deadline=None)
@given(DOCUMENTS)
def test_a_document_comes_back_from_json_as_it_was(document: Document) -> None:
    # allow_nan=False: what other JSON readers cannot read must not be written.
    text = json.dumps(document.to_json(), allow_nan=False)
    assert document_from_json(json.loads(text)) == document


def test_an_interval_that_is_not_known_is_null() -> None:
    data = _example()
    data["results"][0] |= {"point": 1.0, "low": None, "high": None, "n": 2}
    document = document_from_json(data)
    assert document.results[0].estimate == Estimate(1.0, -math.inf, math.inf, 0.95, 2)
    written = document.to_json()["results"][0]
    assert (written["point"], written["low"], written["high"]) == (1.0, None, None)


def test_a_row_without_a_figure_has_null_and_its_note() -> None:
    data = _example()
    data["results"][0] |= {"point": None, "level": None, "n": 0, "note": "no such kfunc"}
    result = document_from_json(data).results[0]
    assert result.estimate is None
    written = result.to_json()
    assert [written[key] for key in ("point", "low", "high", "level")] == [None] * 4
    assert (written["n"], written["note"]) == (0, "no such kfunc")


def test_cycles_without_an_interval_are_a_point_and_null() -> None:
    data = _example()
    data["results"][0]["cycles"] |= {"low": None, "high": None, "n": 2}
    document = document_from_json(data)
    assert document.results[0].cycles == Estimate(10.0, -math.inf, math.inf, 0.95, 2)
    written = document.to_json()["results"][0]["cycles"]
    assert (written["point"], written["low"], written["high"]) == (10.0, None, None)


def test_a_clock_that_is_not_known_is_null() -> None:
    data = _example()
    data["results"][0]["cycles"] = None
    data["results"][0]["samples"]["trials"][0]["clock_ghz"] = None
    (result,) = document_from_json(data).results
    assert (result.cycles, result.trials[0].clock_ghz) == (None, None)
    written = result.to_json()
    assert written["cycles"] is None
    assert written["samples"]["trials"][0]["clock_ghz"] is None


def test_the_keys_of_schema_1() -> None:
    """A change here is a change of the schema: raise SCHEMA, and let old documents load."""
    data = _example()
    assert data["schema"] == SCHEMA == 1
    assert set(data) == {"schema", "run", "environment", "results", "warnings", "findings"}
    assert set(data["run"]) == {
        "id",
        "started_at",
        "duration_s",
        "command",
        "xdplab_version",
        "complete",
        "tags",
        "note",
    }
    (finding,) = data["findings"]
    assert set(finding) == {"suite", "engine", "text"}
    (result,) = data["results"]
    assert set(result) == {
        *("suite", "engine", "variant", "baseline", "parameters", "metric", "method"),
        *("point", "low", "high", "level", "n", "resolution", "verdict", "note"),
        *("cycles", "kernel_duration_ns", "samples"),
    }
    assert set(result["cycles"]) == {"point", "low", "high", "level", "n"}
    assert set(result["samples"]) == {"operations_per_call", "trials"}
    assert set(result["samples"]["trials"][0]) == {
        *("baseline_ns", "variant_ns", "placement", "interrupted", "duration_ns"),
        *("clock_ghz", "counts"),
        "preempted",
        "clock_ghz",
    }


def test_the_kernels_own_figure_is_a_whole_number_that_it_gave() -> None:
    def result(*durations_ns: int | None) -> Result:
        trials = tuple(Trial((1, 1), (1, 1), (8, 8), 0, d) for d in durations_ns)
        return document_from_json(
            _EXAMPLE.to_json()
            | {"results": [_EXAMPLE.results[0].to_json() | {"samples": _samples(trials)}]}
        ).results[0]

    def _samples(trials: tuple[Trial, ...]) -> Json:
        return {"operations_per_call": 1, "trials": [trial.to_json() for trial in trials]}

    assert result(7, 9, 8).kernel_duration_ns == 8
    # No mean of two: 8.5 is nothing that the kernel said.
    assert result(8, 9).kernel_duration_ns == 8
    assert result(None, 9, None).kernel_duration_ns == 9
    assert result(None).kernel_duration_ns is None
    assert result().kernel_duration_ns is None


@pytest.mark.parametrize("point", [0.9, 2.1, math.nan])
def test_a_point_outside_its_interval_is_no_estimate(point: float) -> None:
    with pytest.raises(ValueError, match="lies outside"):
        Estimate(point, 1.0, 2.0, 0.95, 8)


# --- documents of others


def _without(*path: str | int) -> Callable[[Json], None]:
    def change(data: Any) -> None:
        for step in path[:-1]:
            data = data[step]
        del data[path[-1]]

    return change


def _with(value: object, *path: str | int) -> Callable[[Json], None]:
    def change(data: Any) -> None:
        for step in path[:-1]:
            data = data[step]
        data[path[-1]] = value

    return change


_DAMAGED = [
    (_with(2, "schema"), "schema 2; this xdplab reads 1"),
    (_with("1", "schema"), "schema '1'"),
    (_without("schema"), "it has no 'schema'"),
    (_with([], "run"), "run is list"),
    (_without("run"), "it has no 'run'"),
    (_with(7, "environment"), "environment is int"),
    (_without("environment"), "it has no 'environment'"),
    (_with("a", "results", 0), r"results[0] is str"),
    (_without("results"), "'results'"),
    (_with(None, "results"), "NoneType"),
    (_without("warnings"), "'warnings'"),
    (_with(["text"], "warnings"), "str"),
    (_without("run", "id"), "'id'"),
    (_with("soon", "run", "duration_s"), "run.duration_s is str"),
    (_with(None, "run", "command"), "NoneType"),
    (_without("results", 0, "point"), "'point'"),
    (_with("wide", "results", 0, "low"), "results[0].low is str"),
    (_with(9.0, "results", 0, "low"), "lies outside"),
    (_without("results", 0, "samples"), "'samples'"),
    (_with([], "results", 0, "samples"), "results[0].samples is list"),
    (
        _with([8], "results", 0, "samples", "trials", 0, "placement"),
        "placement is list, where a pair",
    ),
    (_with(math.inf, "results", 0, "n"), "results[0].n is float, where a finite"),
    (_with(10**400, "results", 0, "point"), "results[0].point is int, where a finite"),
    (_with(None, "results", 0, "samples", "trials", 0, "baseline_ns"), "NoneType"),
    (_without("results", 0, "samples", "trials", 0, "duration_ns"), "'duration_ns'"),
    (_with(7, "results", 0, "suite"), "results[0].suite is int, where text"),
    (_with(["x"], "results", 0, "samples", "trials", 0, "variant_ns"), "variant_ns[0] is str"),
    (_with(2.5, "results", 0, "n"), "results[0].n is float, where a whole number"),
    (_with(True, "run", "duration_s"), "run.duration_s is bool"),
    (_with(13.1, "results", 0, "cycles"), "results[0].cycles is float, where an object"),
    (_without("results", 0, "cycles", "point"), "results[0].cycles has no 'point'"),
    (_with(None, "results", 0, "cycles", "point"), "results[0].cycles.point is NoneType"),
    (_with(11.0, "results", 0, "cycles", "low"), "results[0].cycles.point: an estimate's point"),
    (_with("before", "run", "tags"), "run.tags is str"),
    (_with([7], "run", "tags"), "run.tags[0] is int"),
    (_with(["clears"], "findings"), "findings[0] is str"),
    (_with("fast", "results", 0, "samples", "trials", 0, "clock_ghz"), "clock_ghz is str"),
]


@pytest.mark.parametrize(("damage", "named"), _DAMAGED, ids=[named for _, named in _DAMAGED])
def test_a_damaged_document_says_what_is_wrong(damage: Callable[[Json], None], named: str) -> None:
    data = _example()
    damage(data)
    with pytest.raises(UsageError) as caught:
        document_from_json(data)
    assert named in str(caught.value)
    assert "result document" in str(caught.value) or "schema" in str(caught.value)
    assert caught.value.exit_code == 2


@given(JSON)
def test_foreign_json_is_a_usage_error(data: object) -> None:
    with pytest.raises(UsageError):
        document_from_json(data)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_whatever_one_part_becomes_it_loads_or_is_a_usage_error(data: st.DataObject) -> None:
    document = _example()
    place: Any = document
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        inner = place[key]
        if not isinstance(inner, dict | list) or not inner or data.draw(st.booleans()):
            break
        place = inner
    place[key] = data.draw(JSON)
    try:
        document_from_json(document)
    except UsageError:
        return


def test_what_schema_1_did_not_always_have_may_be_absent() -> None:
    data = _example()
    del data["run"]["complete"]
    del data["results"][0]["note"]
    del data["warnings"][0]["remedy"]
    # As written before runs were stored.
    del data["run"]["tags"]
    del data["run"]["note"]
    del data["findings"]
    # As written before figures stood in cycles.
    del data["results"][0]["cycles"]
    del data["results"][0]["samples"]["trials"][0]["clock_ghz"]
    document = document_from_json(data)
    assert document.run.complete
    assert document.results[0].note == ""
    assert document.warnings[0].remedy == ""
    assert document.results[0].cycles is None
    assert document.results[0].trials[0].clock_ghz is None
    assert document.results[0].estimate == _ESTIMATE
    assert (document.run.tags, document.run.note, document.findings) == ((), "", ())


def test_a_text_may_hold_several_documents() -> None:
    text = json.dumps([_example(), _example() | {"environment": {}}])
    first, second = documents_from_text(text, "a.json")
    assert first == _EXAMPLE
    assert second == replace(_EXAMPLE, environment={})
    assert documents_from_text(json.dumps(_example()).encode(), "a.json") == [_EXAMPLE]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no JSON"),
        ('{"schema": 1', "no JSON"),
        ("[" * 100_000, "no JSON"),
        (b"\xff\xfe\xfa", "no JSON"),
        ("{}", "it has no 'schema'"),
        ('[{"schema": 2}]', "schema 2"),
        ("7", "it is int"),
    ],
)
def test_a_text_that_is_none_says_which_file(text: str | bytes, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        documents_from_text(text, "some.json")
    assert str(caught.value).startswith("some.json")
    assert words in str(caught.value)
