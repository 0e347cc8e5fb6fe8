"""Boots the kernels of a comparison, in turn, and keeps what each said."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from xdplab.before_after.plan import Planned
from xdplab.before_after.results import check_equal
from xdplab.guests.console import GuestReport, read_console
from xdplab.guests.qemu import Machine, boot
from xdplab.records import Result

COUNTED_BOOTS = 2
"""Boots of each kernel where instructions are counted: the second proves the first."""

TIMED_BOOTS = 10
"""Boots of each kernel where time is measured: an interval is over boots."""

Progress = Callable[[str, float], None]
Boot = Callable[[Path, bytes, Machine, Callable[[], bool]], str]


@dataclass(slots=True)
class KernelRun:
    """A kernel and what its boots said so far; `label` is A or B. `functions` are where its
    instructions go, if that was asked for (why.py)."""

    label: str
    path: Path
    reports: list[GuestReport] = field(default_factory=list)
    functions: Sequence[Result] = ()


def run(
    kernels: Sequence[Path],
    planned: Planned,
    machine: Machine,
    boots: int,
    asked_to_stop: Callable[[], bool],
    progress: Progress,
    boot_once: Boot = boot,
) -> list[KernelRun]:
    """Boot A, B, A, B and so on, so that what drifts drifts under both alike.

    Asked to stop, it gives what whole rounds there were: none is an empty list of reports.
    GuestError where a boot fails, or where two that counted do not agree.
    """
    runs = [KernelRun("AB"[number], path) for number, path in enumerate(kernels)]
    bundle = planned.bundle.encode()
    done = 0
    for _ in range(boots):
        texts = []
        for one in runs:
            progress(
                f"boots of {len(runs)} kernel{'s' * (len(runs) > 1)}", done / (boots * len(runs))
            )
            try:
                texts.append(boot_once(one.path, bundle, machine, asked_to_stop))
            except KeyboardInterrupt:
                if not asked_to_stop():
                    raise
                return runs
            done += 1
        for one, text in zip(runs, texts, strict=True):
            one.reports.append(read_console(text, str(one.path)))
            if machine.counts:
                check_equal(one.reports, planned, str(one.path))
    return runs
