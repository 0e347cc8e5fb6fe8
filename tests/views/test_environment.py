from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from xdplab import records
from xdplab.kernel.disturbances import disturbances
from xdplab.kernel.host import environment
from xdplab.kernel.mitigations import call_mitigations
from xdplab.records import Document, Estimate, Result, RunInfo
from xdplab.views.environment import lines, machine_lines

_FACTS: dict[str, Any] = {
    "cpu": {"model": "Xeon E5", "logical": 12, "allowed": 2, "pinned": 1},
    "clock": {"measured_ghz": 3.5123, "now_mhz": 1200.0},
    "smt": {"active": True},
    "turbo": {"on": False},
    "governor": ["performance"],
    "virtualisation": {"active": False, "hypervisor": None},
    "kernel": {"system": "Linux", "release": "6.18.1", "machine": "x86_64"},
    "jit": {"enable": 1, "harden": 0},
    "mitigations": {
        "spectre_v2": "Mitigation: Retpolines; IBPB: conditional",
        "retbleed": "Vulnerable",
        "mds": "Mitigation: Clear CPU buffers",
    },
    "libbpf": "1.5",
    "compiler": "clang 22",
}


def _result(
    resolution: float | None, n: int, metric: str = "cost_ns", method: str = "operation"
) -> Result:
    return Result(
        suite="s",
        engine="kernel",
        variant="v",
        baseline="b",
        parameters={},
        metric=metric,
        method=method,
        estimate=Estimate(1.0, 0.9, 1.1, 0.95, n),
        resolution=resolution,
        verdict="resolved",
    )


def _document(**changes: Any) -> Document:
    command = ("xdplab", "run", "--json", "my run.json")
    complete = changes.pop("done", True)
    run = RunInfo("id", "2025-01-01T00:00:00Z", 75.0, command, "0.1.0", complete=complete)
    parts = {"environment": _FACTS, "results": (_result(0.0021, 5), _result(0.0102, 9))}
    return Document(run, **{**parts, **changes})


def test_three_lines_and_one_for_each_warning() -> None:
    warning = records.Warning("smt", "SMT is\nactive", "switch it off")
    assert lines(_document(warnings=(warning,))) == [
        "CPU: Xeon E5, 12 CPUs (2 for us), 3.51 GHz measured, SMT on, turbo off, "
        "governor performance, no virtual machine",
        "Kernel: Linux 6.18.1, x86_64, JIT on, "
        "call mitigations: retpolines, IBPB conditional; vulnerable: retbleed, libbpf 1.5, "
        "xdplab's programs built by clang 22",
        "Run: xdplab 0.1.0, 2025-01-01T00:00:00Z, xdplab run --json 'my run.json', "
        "engine kernel on CPU 1, operation method (resolution 0.01 ns), 5 to 9 loads, "
        "95 % intervals, 1 min 15 s",
        "Warning [smt]: SMT is active -> switch it off",
    ]


def test_the_fields_of_a_document_are_told_not_its_texts() -> None:
    fields = call_mitigations({"spectre_v2": "Mitigation: Enhanced / Automatic IBRS"})
    told = {**_FACTS, "call_mitigations": fields}
    assert "call mitigations: Enhanced / Automatic IBRS, libbpf" in machine_lines(told)[1]
    none = {**_FACTS, "call_mitigations": call_mitigations({"spectre_v2": "Not affected"})}
    assert "call mitigations: none, libbpf" in machine_lines(none)[1]


def test_an_interrupted_run_says_so() -> None:
    assert lines(_document(done=False))[2].endswith(", 1 min 15 s, interrupted before its end")
    assert "interrupted" not in lines(_document())[2]


def test_a_run_that_measured_nothing_names_no_engine_and_no_cpu() -> None:
    missing = replace(_result(None, 5), estimate=None, verdict=records.NOT_SUPPORTED)
    for results in ((), (missing,)):
        assert lines(_document(done=False, results=results))[2] == (
            "Run: xdplab 0.1.0, 2025-01-01T00:00:00Z, xdplab run --json 'my run.json', "
            "nothing was measured, 1 min 15 s, interrupted before its end"
        )


@pytest.mark.parametrize(("pinned", "says"), [(0, "engine kernel on CPU 0,"), (None, "kernel,")])
def test_the_cpu_is_named_where_the_run_was_pinned_to_one(pinned: int | None, says: str) -> None:
    facts = {**_FACTS, "cpu": {**_FACTS["cpu"], "pinned": pinned}}
    run = lines(_document(environment=facts))[2]
    assert says in run
    assert ("CPU" in run) == (pinned is not None)


def test_intervals_are_named_where_there_are_any() -> None:
    few = replace(_result(None, 2), estimate=Estimate(1.0, -math.inf, math.inf, 0.95, 2))
    run = lines(_document(results=(few,)))[2]
    assert run.endswith("operation method, 2 loads, 1 min 15 s")
    run = lines(_document(results=(few, _result(None, 5))))[2]
    assert run.endswith("operation method, 2 to 5 loads, 95 % intervals, 1 min 15 s")


def test_each_method_has_the_resolution_of_its_own() -> None:
    results = (
        _result(0.0021, 5),
        _result(0.3, 5, method="packet"),
        _result(0.0102, 5),
        _result(0.2, 5, method="packet"),
    )
    run = lines(_document(results=results))[2]
    assert "operation method (resolution 0.01 ns), packet method (resolution 0.3 ns)," in run
    # Without a twin nobody knows it.
    run = lines(_document(results=(_result(None, 5),)))[2]
    assert "operation method, 5 loads" in run


def test_a_clock_that_moved_shows_how_far() -> None:
    clock = {"measured_ghz": 3.5, "measured_ghz_min": 2.9, "measured_ghz_max": 3.61}
    facts = {**_FACTS, "clock": clock}
    assert "3.50 GHz measured (2.90 to 3.61)" in machine_lines(facts)[0]


def test_resolutions_of_different_units_stay_apart() -> None:
    mixed = (_result(0.002, 5), _result(3e4, 5, "rate_pps"), _result(None, 5))
    assert (
        "resolution 0.002 ns and resolution 3e+04 packets/s" in lines(_document(results=mixed))[2]
    )


@pytest.mark.parametrize("facts", [{}, dict.fromkeys(_FACTS)])
def test_what_is_unknown_is_called_so(facts: dict[str, Any]) -> None:
    cpu, kernel = machine_lines(facts)
    assert cpu == (
        "CPU: unknown model, unknown number of CPUs, unknown clock, SMT unknown, turbo unknown, "
        "governor unknown, virtual or not unknown"
    )
    assert kernel == "Kernel: unknown, unknown machine, JIT unknown, mitigations unknown"


def test_this_machine_and_one_that_tells_nothing(tmp_path: Path) -> None:
    for facts in (environment(), environment(tmp_path)):
        document = _document(environment=facts, warnings=disturbances(facts))
        for line in lines(document):
            assert line.isprintable()
