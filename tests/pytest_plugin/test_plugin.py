"""The pytest plugin, in pytest runs of its own within this process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import WHY_NO_KERNEL

pytest_plugins = ["pytester"]

ROOT = Path(__file__).parents[2]
FILTER = ROOT / "examples" / "pytest-project" / "src" / "ports.bpf.c"

HEAD = f"""
import pytest
from xdplab.packets.frame import udp_frame
PACKET = udp_frame("ipv4", 64)
FILTER = {str(FILTER)!r}
"""


def test_importing_it_imports_nothing_slow() -> None:
    """Everybody who has xdplab installed imports it with each pytest run."""
    code = (
        "import pytest, sys; before = set(sys.modules); import xdplab.pytest_plugin; "
        "print(sorted(set(sys.modules) - before))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "['xdplab', 'xdplab.pytest_plugin']"


def test_a_program_is_run_with_its_maps(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        HEAD
        + """
def test_maps(xdp):
    assert xdp.run(FILTER, PACKET).action == "XDP_PASS"
    xdp.maps(FILTER)["blocked"][0x0900] = 0
    ran = xdp.run(FILTER, PACKET)
    assert (ran.action, ran.data) == ("XDP_DROP", PACKET.data)
    assert ran.instructions > 10
    assert xdp.maps(FILTER)["blocked"].number(0x0900) == 1

def test_another_test_has_maps_of_its_own(xdp):
    assert xdp.run(FILTER, PACKET).action == "XDP_PASS"
"""
    )
    pytester.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(passed=2)


def test_engines_are_parameters_and_markers_go_first(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        HEAD
        + """
def test_each(xdp): pass

@pytest.mark.xdp_engine("user")
def test_marked(xdp): assert xdp.engine == "user"

@pytest.mark.xdp_engine("auto")
def test_auto(xdp): assert xdp.engine in ("user", "kernel")

def test_without(): pass
"""
    )
    result = pytester.runpytest_inprocess("-v", "-rs", "--xdplab-engines", "user,kernel")
    lines = result.stdout
    lines.fnmatch_lines(["*test_each?user? PASSED*", "*test_each?kernel? *", "*test_marked?user?*"])
    if WHY_NO_KERNEL:
        result.assert_outcomes(passed=4, skipped=1)
        lines.fnmatch_lines([f"SKIPPED*{WHY_NO_KERNEL}"])
    else:
        result.assert_outcomes(passed=5)


@pytest.mark.parametrize(
    ("arguments", "source"),
    [
        (["--xdplab-engines", "moon"], ""),
        ([], '@pytest.mark.xdp_engine("moon")\n'),
        ([], "@pytest.mark.xdp_engine()\n"),
    ],
)
def test_unknown_engines_are_refused(
    pytester: pytest.Pytester, arguments: list[str], source: str
) -> None:
    pytester.makepyfile(f"import pytest\n{source}def test_one(xdp): pass")
    result = pytester.runpytest_inprocess(*arguments)
    assert result.ret != pytest.ExitCode.OK
    said = result.stdout.str() + result.stderr.str()
    assert "Give some of user, kernel, auto" in said
    assert "Traceback" not in said


COUNTS = (
    HEAD
    + """
def test_counts(xdp):
    xdp.check_instructions({program!r}, [PACKET, PACKET.data[:20]])
"""
)


def _counted(pytester: pytest.Pytester, program: str, *arguments: str) -> pytest.RunResult:
    pytester.makepyfile(test_counts=COUNTS.replace("{program!r}", repr(program)))
    return pytester.runpytest_inprocess("-rs", *arguments)


def test_more_instructions_than_the_baseline_fail(pytester: pytest.Pytester) -> None:
    program = pytester.path / "own.bpf.c"
    program.write_text(FILTER.read_text())
    first = _counted(pytester, str(program))
    first.assert_outcomes(skipped=1)
    first.stdout.fnmatch_lines(["*there is no baseline*Make it: pytest --xdplab-update*"])
    _counted(pytester, str(program), "--xdplab-update").assert_outcomes(passed=1)
    _counted(pytester, str(program)).assert_outcomes(passed=1)
    (baseline,) = (pytester.path / "xdplab-baselines").iterdir()
    cheaper = program.read_text()
    program.write_text(
        cheaper.replace("if (ip->ihl != 5)", "if (ip->ihl != 5 || ip->ttl == 99 || ip->tos == 3)")
    )
    dearer = _counted(pytester, str(program))
    dearer.assert_outcomes(failed=1)
    dearer.stdout.fnmatch_lines(["*filter (packet 1) * -> * insns*If that is meant*"])
    assert "packet 2" not in dearer.stdout.str()
    # The other way about it is better, which passes.
    _counted(pytester, str(program), "--xdplab-update").assert_outcomes(passed=1)
    program.write_text(cheaper)
    _counted(pytester, str(program)).assert_outcomes(passed=1)
    document = json.loads(baseline.read_text())
    document["environment"]["compiler"] = "another compiler"
    baseline.write_text(json.dumps(document))
    other = _counted(pytester, str(program))
    other.assert_outcomes(skipped=1)
    other.stdout.fnmatch_lines(["*of another environment: programs built by (another compiler*"])


TIMES = (
    HEAD
    + """
def test_time(xdp):
    xdp.check_time(FILTER, packet=PACKET, percent=20, time_s=1)
"""
)


def test_a_time_is_judged_against_the_baseline_where_machines_are_alike(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(test_time=TIMES)
    pytester.runpytest_inprocess("--xdplab-update").assert_outcomes(passed=1)
    (baseline,) = (pytester.path / "xdplab-baselines").iterdir()
    document = json.loads(baseline.read_text())

    def judged() -> pytest.RunResult:
        baseline.write_text(json.dumps(document))
        return pytester.runpytest_inprocess("-rs")

    # As if it had been a tenth of what it is: trial by trial, and in cycles, too.
    for result in document["results"]:
        if result["variant"] == "filter":
            for figure in (result, result["cycles"] or {}):
                for name in ("point", "low", "high"):
                    if figure.get(name) is not None:
                        figure[name] /= 10
    slower = judged()
    slower.assert_outcomes(failed=1)
    slower.stdout.fnmatch_lines(["*worse than its baseline by more than 20 %: filter *ns*"])
    document["environment"]["cpu"]["model"] = "A processor of another kind"
    unlike = judged()
    unlike.assert_outcomes(skipped=1)
    unlike.stdout.fnmatch_lines(["*another environment: CPU (A processor of another kind*"])


def test_only_a_resolved_difference_beyond_the_limit_fails(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        HEAD
        + """
from dataclasses import replace
from xdplab.records import WITHIN_NOISE, RESOLVED, Estimate

def test_gate(xdp):
    measured = xdp.bench(FILTER, FILTER, packet=PACKET, time_s=0.05)
    def given(verdict, point, low, high):
        estimate = Estimate(point, low, high, 0.95, 20)
        return replace(measured, difference=replace(
            measured.difference, verdict=verdict, estimate=estimate))
    xdp.assert_not_slower(given(WITHIN_NOISE, 5, 4, 6))
    xdp.assert_not_slower(given(RESOLVED, 5, 4, 6), ns=4.5)
    xdp.assert_not_slower(given(RESOLVED, -5, -6, -4))
    with pytest.raises(pytest.fail.Exception, match="filter is slower than filter .baseline."):
        xdp.assert_not_slower(given(RESOLVED, 5, 4, 6), ns=3)
    with pytest.raises(ValueError):
        xdp.assert_not_slower(xdp.bench(FILTER, packet=PACKET, time_s=0.05))
"""
    )
    pytester.runpytest_inprocess().assert_outcomes(passed=1)


def test_workers_of_xdist_write_baselines_at_once(pytester: pytest.Pytester) -> None:
    source = HEAD + "@pytest.mark.parametrize('n', range(4))\ndef test_n(xdp, n):\n"
    pytester.makepyfile(source + "    xdp.check_instructions(FILTER, [PACKET])\n")
    pytester.runpytest_subprocess("-n", "2", "--xdplab-update").assert_outcomes(passed=4)
    names = [path.name for path in (pytester.path / "xdplab-baselines").iterdir()]
    assert len(names) == 4
    assert all(name.endswith(".json") for name in names)
