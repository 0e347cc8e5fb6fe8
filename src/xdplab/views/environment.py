"""The environment beside every figure: three lines, then what disturbed the run."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from xdplab import records
from xdplab.kernel.mitigations import call_mitigations, in_force
from xdplab.stats import rates
from xdplab.views.format import duration, one_line, unit_of

_UNIT_NAMES = {"ns": "ns", "pps": "packets/s", "insns": "instructions"}


def lines(document: records.Document) -> list[str]:
    """Three lines on machine, kernel and run, then one line a warning.

    What was counted is the same on every machine and has none: then the run's line alone.
    """
    return [
        *(machine_lines(document.environment) if document.environment else ()),
        f"Run: {_run(document)}",
        *(warning_line(warning) for warning in document.warnings),
    ]


def machine_lines(environment: Mapping[str, Any]) -> list[str]:
    """Two lines, on the CPU and on the kernel; what is not known says so."""
    if "guest" in environment:
        return _guest_lines(environment)
    cpu, kernel = _part(environment, "cpu"), _part(environment, "kernel")
    machine = [
        str(cpu.get("model") or "unknown model"),
        _cpus(cpu),
        _clock(_part(environment, "clock")),
        f"SMT {_on_off(_part(environment, 'smt').get('active'))}",
        f"turbo {_on_off(_part(environment, 'turbo').get('on'))}",
        f"governor {'/'.join(environment.get('governor') or ['unknown'])}",
        _virtual(_part(environment, "virtualisation")),
    ]
    jit = _part(environment, "jit")
    enabled = jit.get("enable")
    hardened = ", hardened" if jit.get("harden") == 2 else ""
    software = [
        f"{kernel.get('system', 'unknown')} {kernel.get('release', '')}".strip(),
        str(kernel.get("machine", "unknown machine")),
        f"JIT {_on_off(None if enabled is None else bool(enabled))}{hardened}",
        _mitigations(environment),
    ]
    named = (
        ("libbpf", environment.get("libbpf")),
        ("xdplab's programs built by", environment.get("compiler")),
    )
    software += [f"{name} {value}" for name, value in named if value]
    return [one_line(f"CPU: {', '.join(machine)}"), one_line(f"Kernel: {', '.join(software)}")]


def _guest_lines(environment: Mapping[str, Any]) -> list[str]:
    """Two lines, on what was emulated and on the kernel in it: the machine around is not in it."""
    guest, kernel = _part(environment, "guest"), _part(environment, "kernel")
    counted = guest.get("counts_instructions")
    machine = [
        str(guest.get("qemu", "QEMU")),
        "instructions counted" if counted else "KVM",
        f"CPU model {guest.get('cpu') or ('qemu64' if counted else 'host')}",
        f"{guest.get('boots')} boots",
        f"command line: {guest.get('command_line')}",
    ]
    software = [
        f"{kernel.get('system')} {kernel.get('release')}",
        str(kernel.get("version")),
        str(guest.get("kernel_file")),
        f"JIT {_on_off(bool(_part(environment, 'jit').get('enable')))}",
        _mitigations(environment),
    ]
    return [
        one_line(f"Guest {guest.get('label', '')}: {', '.join(machine)}"),
        one_line(f"Kernel {guest.get('label', '')}: {', '.join(software)}"),
    ]


def warning_line(warning: records.Warning) -> str:
    """Code, message and remedy on one line."""
    remedy = f" -> {warning.remedy}" if warning.remedy else ""
    return one_line(f"Warning [{warning.code}]: {warning.message}{remedy}")


def _part(environment: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = environment.get(name)
    return part if isinstance(part, Mapping) else {}


def _on_off(state: bool | None) -> str:
    return "unknown" if state is None else "on" if state else "off"


def _cpus(cpu: Mapping[str, Any]) -> str:
    logical, allowed = cpu.get("logical"), cpu.get("allowed")
    if logical is None:
        return "unknown number of CPUs"
    count = f"{logical} CPU{'s' * (logical != 1)}"
    return count if allowed in {None, logical} else f"{count} ({allowed} for us)"


def _clock(clock: Mapping[str, Any]) -> str:
    measured_ghz = clock.get("measured_ghz")
    if isinstance(measured_ghz, int | float):
        ends = [f"{clock.get(f'measured_ghz_{end}', measured_ghz):.2f}" for end in ("min", "max")]
        moved = f" ({ends[0]} to {ends[1]})" if ends[0] != ends[1] else ""
        return f"{measured_ghz:.2f} GHz measured{moved}"
    for name, label in (("now_mhz", "now"), ("max_mhz", "at most")):
        if isinstance(clock.get(name), int | float):
            return f"{clock[name] / 1000:.2f} GHz {label}"
    return "unknown clock"


def _virtual(virtualisation: Mapping[str, Any]) -> str:
    active = virtualisation.get("active")
    if active is None:
        return "virtual or not unknown"
    if not active:
        return "no virtual machine"
    name = virtualisation.get("hypervisor")
    return f"virtual machine ({name})" if name else "virtual machine"


def _mitigations(environment: Mapping[str, Any]) -> str:
    """Of those that change what a call, a return or an indirect jump costs."""
    fields, texts = environment.get("call_mitigations"), environment.get("mitigations")
    if not isinstance(fields, Mapping):
        # Documents that are older than the field.
        fields = call_mitigations(texts) if isinstance(texts, Mapping) else None
    if fields is None:
        return "mitigations unknown"
    parts = [f"call mitigations: {', '.join(in_force(fields)) or 'none'}"]
    vulnerable = fields.get("vulnerable")
    if isinstance(vulnerable, list) and vulnerable:
        parts.append(f"vulnerable: {', '.join(map(str, vulnerable))}")
    return "; ".join(parts)


def _run(document: records.Document) -> str:
    run = document.run
    measured = [result for result in document.results if result.estimate is not None]
    pinned = _part(document.environment, "cpu").get("pinned")
    engine = _listed("engine", [result.engine for result in measured])
    if engine and pinned is not None:
        engine += f" on CPU {pinned}"
    # What was counted comes from no loads, and with certainty.
    timed = [r for r in measured if r.method not in _COUNTED and r.metric != "insns"]
    parts = [
        f"xdplab {run.xdplab_version}",
        run.started_at,
        shlex.join(run.command),
        engine or "nothing was measured",
        *_methods(timed),
        _loads([result.estimate.n for result in timed if result.estimate]),
        _levels([result.estimate for result in timed if result.estimate]),
        duration(run.duration_s) if run.duration_s else "",
        "" if run.complete else "interrupted before its end",
    ]
    return one_line(", ".join(part for part in parts if part))


_COUNTED = frozenset({"counted", rates.METHOD})


def _methods(results: Sequence[records.Result]) -> list[str]:
    """Each method with what it can tell apart: no difference below that means anything."""
    texts = []
    for method in _unique(result.method for result in results):
        worst = _resolution([result for result in results if result.method == method])
        texts.append(f"{method} method" + (f" ({worst})" if worst else ""))
    return texts


def _unique(values: Any) -> list[str]:
    return list(dict.fromkeys(str(value) for value in values))


def _listed(name: str, values: Sequence[str]) -> str:
    return f"{name} {' and '.join(_unique(values))}" if values else ""


def _loads(counts: Sequence[int]) -> str:
    if not counts:
        return ""
    low, high = min(counts), max(counts)
    return f"{low} loads" if low == high else f"{low} to {high} loads"


def _levels(estimates: Sequence[records.Estimate]) -> str:
    # A figure from too few loads has a level and no interval to hold it.
    levels = [estimate.level for estimate in estimates if math.isfinite(estimate.half_width)]
    return " and ".join(f"{level:.4g} %" for level in dict.fromkeys(x * 100 for x in levels)) + (
        " intervals" if levels else ""
    )


def _resolution(results: Sequence[records.Result]) -> str:
    worst: dict[str, float] = {}
    for result in results:
        if result.resolution is not None:
            unit = unit_of(result.metric)
            unit = _UNIT_NAMES.get(unit, unit)
            worst[unit] = max(worst.get(unit, 0.0), result.resolution)
    return " and ".join(f"resolution {value:.2g} {unit}" for unit, value in worst.items())
