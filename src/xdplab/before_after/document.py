"""A kernel's boots as a result document: the environment beside its figures is the guest's."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from xdplab.before_after.plan import Planned
from xdplab.before_after.results import ENGINE, results_of
from xdplab.before_after.run import KernelRun
from xdplab.guests.console import GuestReport
from xdplab.guests.qemu import Machine
from xdplab.kernel.mitigations import call_mitigations
from xdplab.records import Document, Finding, RunInfo


def document(
    run: RunInfo,
    kernel: KernelRun,
    planned: Planned,
    machine: Machine,
    qemu_version: str,
) -> Document:
    """The document of one kernel; `kernel` has one report or more."""
    report = kernel.reports[0]
    findings = [
        Finding(suite.name, ENGINE, note)
        for suite, values in planned.suites
        for note in planned.notes(suite, values, report)
    ]
    return Document(
        run=run,
        environment=_environment(kernel, report, machine, qemu_version),
        results=(*results_of(planned, kernel.reports, machine.counts), *kernel.functions),
        findings=tuple(findings),
    )


def _environment(
    kernel: KernelRun, report: GuestReport, machine: Machine, qemu_version: str
) -> dict[str, Any]:
    return {
        "guest": {
            "label": kernel.label,
            "kernel_file": str(kernel.path),
            "sha256": _sha256(kernel.path),
            "qemu": qemu_version,
            "counts_instructions": machine.counts,
            "cpu": machine.cpu,
            "command_line": machine.command_line,
            "boots": len(kernel.reports),
        },
        "kernel": {
            "system": "Linux",
            "release": report.release,
            "version": report.version,
            "machine": report.machine,
        },
        "jit": {"enable": _number(report.facts.get("jit")), "harden": None},
        "mitigations": dict(report.mitigations),
        "call_mitigations": call_mitigations(report.mitigations),
        "clocksource": report.facts.get("clocksource"),
    }


def _number(text: object) -> int | None:
    return int(text) if isinstance(text, str) and text.isdigit() else None


def _sha256(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None
