from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from xdplab.kernel.disturbances import disturbances
from xdplab.kernel.host import environment

_PSTATE = "/sys/devices/system/cpu/intel_pstate/no_turbo"
_BOOST = "/sys/devices/system/cpu/cpufreq/boost"

_CASES: list[tuple[str, dict[str, Any], str]] = [
    ("governor", {"governor": ["performance", "powersave"]}, "cpupower"),
    ("turbo", {"turbo": {"on": True, "control": _PSTATE}}, f"echo 1 > {_PSTATE}"),
    ("turbo", {"turbo": {"on": True, "control": _BOOST}}, f"echo 0 > {_BOOST}"),
    ("smt", {"smt": {"active": True}}, "smt/control"),
    ("virtual-machine", {"virtualisation": {"active": True, "hypervisor": "KVM"}}, "bare metal"),
    ("virtual-machine", {"virtualisation": {"active": True}}, "or runs in cycles"),
    ("bpf-stats", {"bpf_stats_enabled": True}, "sysctl kernel.bpf_stats_enabled=0"),
    ("jit-off", {"jit": {"enable": 0}}, "net.core.bpf_jit_enable=1"),
    ("jit-hardened", {"jit": {"enable": 1, "harden": 2}}, "net.core.bpf_jit_harden=0"),
    ("clocksource", {"clocksource": "hpet"}, "clocksource=tsc"),
    ("load", {"load": {"avg1": 1.5}, "cpu": {"logical": 2}}, "ps "),
    ("single-cpu", {"cpu": {"logical": 8, "allowed": 1}}, "two CPUs"),
    ("single-cpu", {"cpu": {"logical": 1}}, "two CPUs"),
]
_QUIET: dict[str, Any] = {
    "cpu": {"logical": 8, "allowed": 8},
    "governor": ["performance"],
    "turbo": {"on": False, "control": _BOOST},
    "smt": {"active": False},
    "virtualisation": {"active": False, "hypervisor": None},
    "bpf_stats_enabled": False,
    "jit": {"enable": 1, "harden": 1},
    "clocksource": "tsc",
    "load": {"avg1": 1.2},
}


@pytest.mark.parametrize(("code", "environment", "remedy"), _CASES)
def test_each_state_gives_its_warning_alone(
    code: str, environment: dict[str, Any], remedy: str
) -> None:
    (warning,) = disturbances(environment)
    assert warning.code == code
    assert remedy in warning.remedy
    assert len(warning.message) > 20


def test_a_quiet_machine_has_none() -> None:
    assert disturbances(_QUIET) == ()


def test_a_disturbed_machine_has_every_one_once() -> None:
    everything: dict[str, Any] = {}
    for _, state, _ in reversed(_CASES):
        for name, part in state.items():
            known = everything.get(name)
            everything[name] = {**known, **part} if isinstance(known, dict) else part
    everything |= {"jit": {"enable": 0, "harden": 2}, "cpu": {"logical": 1, "allowed": 1}}
    codes = [warning.code for warning in disturbances(everything)]
    assert codes == list(dict.fromkeys(code for code, _, _ in _CASES))


def test_the_unknown_gives_no_warning(tmp_path: Path) -> None:
    assert disturbances({}) == ()
    assert disturbances(dict.fromkeys(_QUIET)) == ()
    unknown = environment(tmp_path)
    unknown["cpu"]["logical"] = None
    assert disturbances(unknown) == ()
