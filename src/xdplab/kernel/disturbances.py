"""What disturbs measuring on a machine, worded in this one place.

Each warning says what the state does to figures and which command, run as root, cures it.
What the environment does not tell (None) gives no warning: it is unknown, not wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xdplab import records

# These are read in user space through the vDSO, in tens of nanoseconds; reading any other is a
# system call and a device access.
_FAST_CLOCKSOURCES = frozenset(
    [
        "tsc",
        "kvm-clock",
        "xen",
        "hyperv_clocksource_tsc_page",
        "arch_sys_counter",
        "riscv_clocksource",
        "timebase",
        "tod",
    ]
)
# A run keeps one CPU busy itself; two runs in a row must not warn on two CPUs.
_LOAD_PER_CPU = 0.7


def disturbances(environment: Mapping[str, Any]) -> tuple[records.Warning, ...]:
    """The warnings that an environment (kernel.host) calls for, in a fixed order.

    Codes are stable: governor, turbo, smt, virtual-machine, bpf-stats, jit-off, jit-hardened,
    clocksource, load, single-cpu. Parts that are missing are taken for unknown.
    """
    found = (
        _governor(environment.get("governor")),
        _turbo(_part(environment, "turbo")),
        _smt(_part(environment, "smt")),
        _virtual(_part(environment, "virtualisation")),
        _bpf_stats(environment.get("bpf_stats_enabled")),
        *_jit(_part(environment, "jit")),
        _clocksource(environment.get("clocksource")),
        _load(_part(environment, "load"), _part(environment, "cpu")),
        _single_cpu(_part(environment, "cpu")),
    )
    return tuple(warning for warning in found if warning is not None)


def _part(environment: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = environment.get(name)
    return part if isinstance(part, Mapping) else {}


def _governor(names: Any) -> records.Warning | None:
    others = [name for name in names or () if name != "performance"]
    if not others:
        return None
    return records.Warning(
        "governor",
        f"the CPU governor is {', '.join(others)}: the clock follows the load, "
        "so a figure depends on what ran before it",
        "cpupower frequency-set -g performance",
    )


def _turbo(turbo: Mapping[str, Any]) -> records.Warning | None:
    if not turbo.get("on"):
        return None
    control = str(turbo.get("control"))
    value = 1 if control.endswith("no_turbo") else 0
    return records.Warning(
        "turbo",
        "turbo is on: the clock falls with heat and with busy neighbour cores, so figures drift",
        f"echo {value} > {control}",
    )


def _smt(smt: Mapping[str, Any]) -> records.Warning | None:
    if not smt.get("active"):
        return None
    return records.Warning(
        "smt",
        "SMT is active: work on the sibling thread takes half a core from the measured program",
        "echo off > /sys/devices/system/cpu/smt/control",
    )


def _virtual(virtualisation: Mapping[str, Any]) -> records.Warning | None:
    if not virtualisation.get("active"):
        return None
    name = virtualisation.get("hypervisor")
    return records.Warning(
        "virtual-machine",
        f"this is a virtual machine{f' ({name})' if name else ''}: neighbours steal time unseen, "
        "and hardware counters are mostly missing",
        "measure on bare metal; here, compare within one run, or runs in cycles",
    )


def _bpf_stats(enabled: Any) -> records.Warning | None:
    if not enabled:
        return None
    # 57 ns was measured on Linux 6.18 in a virtual machine: two clock readings and the counters.
    return records.Warning(
        "bpf-stats",
        "BPF statistics are on: they add about 57 ns to every packet",
        "sysctl kernel.bpf_stats_enabled=0",
    )


def _jit(jit: Mapping[str, Any]) -> tuple[records.Warning | None, ...]:
    off = hardened = None
    if jit.get("enable") == 0:
        off = records.Warning(
            "jit-off",
            "the BPF JIT is off: programs are interpreted, ten times slower and more",
            "sysctl net.core.bpf_jit_enable=1",
        )
    # 1 hardens only what unprivileged users load (bpf_jit_blinding_enabled in linux/filter.h).
    if jit.get("harden") == 2:
        hardened = records.Warning(
            "jit-hardened",
            "JIT hardening is on: every constant is blinded, which adds instructions",
            "sysctl net.core.bpf_jit_harden=0",
        )
    return off, hardened


def _clocksource(name: Any) -> records.Warning | None:
    if name is None or name in _FAST_CLOCKSOURCES:
        return None
    return records.Warning(
        "clocksource",
        f"the clocksource is {name}: reading the clock takes a system call, hundreds of ns or more",
        "boot with clocksource=tsc (and tsc=reliable where the kernel distrusts it)",
    )


def _load(load: Mapping[str, Any], cpu: Mapping[str, Any]) -> records.Warning | None:
    average, cpus = load.get("avg1"), cpu.get("logical")
    if average is None or not cpus or average <= _LOAD_PER_CPU * cpus:
        return None
    return records.Warning(
        "load",
        f"the load average is {average:.1f} on {cpus} CPU{'s' * (cpus != 1)}: other work "
        "takes the CPU and the caches from the measured program",
        "stop other work; ps -eo pcpu,comm --sort=-pcpu | head shows it",
    )


def _single_cpu(cpu: Mapping[str, Any]) -> records.Warning | None:
    counts = [count for count in (cpu.get("logical"), cpu.get("allowed")) if count is not None]
    if not counts or min(counts) >= 2:
        return None
    return records.Warning(
        "single-cpu",
        "only one CPU may be used: every other task interrupts the measured program",
        "give the machine or container two CPUs or more",
    )
