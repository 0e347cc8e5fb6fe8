"""Where a kernel's instructions go: a boot of its own, profiled, as results by function.

Other boots' counts are not touched by it. What a function has is of one run (packet method) or of
one operation with its loop (operation method).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from xdplab.before_after.plan import Planned
from xdplab.before_after.results import ENGINE, ROUNDING
from xdplab.errors import NotPossibleError
from xdplab.guests import profile
from xdplab.guests.console import GuestError, GuestReport, read_console
from xdplab.guests.qemu import Machine, boot, qemu_version
from xdplab.records import FUNCTION_INSNS, RESOLVED, Estimate, Result

FUNCTION = "function"
"""Parameter of a result: whose instructions it has."""

WINDOWS = 3
"""Pairs of windows a row: of three, one at the most has a timer's tick."""

_KEPT = 0.05
"""Least instructions of a run that are kept of a function: less is a tick's share."""

Progress = Callable[[str, float], None]


class Boot(Protocol):
    """Boots once, with further arguments of QEMU's (guests.qemu.boot)."""

    def __call__(
        self,
        kernel: Path,
        bundle: bytes,
        machine: Machine,
        asked_to_stop: Callable[[], bool],
        extra: Sequence[str],
    ) -> str: ...


def check(machine: Machine) -> None:
    """NotPossibleError where no boot can be profiled: asked before anything is booted."""
    if not machine.counts:
        raise NotPossibleError(
            "--why counts instructions, and these guests are measured in time under KVM. Add "
            "--unit insns, or leave --why out"
        )
    profile.plugin()


def function_results(
    kernel: Path,
    planned: Planned,
    machine: Machine,
    asked_to_stop: Callable[[], bool],
    boot_once: Boot = boot,
) -> list[Result]:
    """Boot a kernel once under the profiler; its functions' instructions, row by row.

    GuestError where the boot fails, NotPossibleError where this QEMU takes no plugin,
    KeyboardInterrupt when asked to stop.
    """
    bundle = planned.bundle.encode(WINDOWS)
    with profile.scratch_file() as output:

        def booted(interface: int) -> str:
            extra = profile.arguments(profile.plugin(interface), output)
            return boot_once(kernel, bundle, machine, asked_to_stop, extra)

        try:
            said = booted(profile.OLDEST_INTERFACE)
        except GuestError as error:
            wanted = profile.interface_wanted(error)
            if wanted is None and "plugin" not in str(error):
                raise
            if wanted is None:
                raise NotPossibleError(
                    f"--why needs a QEMU that takes plugins, and {qemu_version()} does not. Use "
                    f"one that was configured with --enable-plugins. It said: {error}"
                ) from None
            said = booted(wanted)
        windows = profile.read_windows(output.read_text())
    return list(_results(planned, read_console(said, str(kernel)), windows))


def _results(
    planned: Planned, report: GuestReport, windows: Sequence[profile.Window]
) -> Iterator[Result]:
    functions = profile.Functions.of(report.functions)
    by_row: dict[int, Mapping[str, float]] = {}
    # Rows are run, and their windows come, in the order of their numbers.
    begin = 0
    for row in sorted(planned.bundle.rows.values(), key=lambda one: one.number):
        said = report.rows.get(row.number)
        if said is not None and said.windows:
            end = begin + 2 * said.windows
            by_row[row.number] = profile.per_run(windows[begin:end], row.repeat, functions)
            begin = end
    if begin != len(windows):
        raise GuestError(
            f"the guest tells of {begin} profiled windows, and QEMU's plugin of {len(windows)}. "
            "Was it another QEMU's?"
        )
    for group in planned.groups:
        told: set[str] = set()
        for measure in group.group.measures:
            place = planned.bundle.rows.get((group.place, measure.subject))
            if place is None or measure.subject in told or place.number not in by_row:
                continue
            told.add(measure.subject)
            operations = place.subject.operations
            for name, count in sorted(by_row[place.number].items()):
                insns = count / operations
                if abs(insns) < _KEPT:
                    continue
                yield Result(
                    suite=group.suite,
                    engine=ENGINE,
                    variant=measure.variant,
                    baseline=None,
                    parameters={**measure.parameters, FUNCTION: name},
                    metric=FUNCTION_INSNS,
                    method=group.group.method.value,
                    estimate=Estimate(insns, insns, insns, 1.0, 1),
                    resolution=ROUNDING / operations,
                    verdict=RESOLVED,
                    operations_per_call=operations,
                )
