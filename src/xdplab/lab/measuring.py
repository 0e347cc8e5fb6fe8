"""Measure one's own program, alone or against another, and what came of it.

What is measured, and how, is suite bench's (suites/own.py), as of the command of that name.
"""

from __future__ import annotations

import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from xdplab.engines.base import Engine
from xdplab.errors import NotPossibleError, UsageError
from xdplab.experiment import Stop
from xdplab.lab.columns import Columns, figures
from xdplab.lab.running import Entries, Packet, chosen_of, entries_of, frame_of, why_not
from xdplab.program.chosen import Chosen
from xdplab.program.uses import uses
from xdplab.records import TWIN, Document, Result
from xdplab.run import Run
from xdplab.suites.own import FrameClass, Own, own_plan, own_suite
from xdplab.suites.own_tables import EMPTY
from xdplab.user.options import Mode

if TYPE_CHECKING:
    from xdplab.store.recorder import Recorder


@dataclass(frozen=True, slots=True)
class Measured:
    """What was measured. `cost` is the program net of the empty one, `difference` the program over
    its baseline, None where it had none; `document` has all of it, with samples and environment.
    """

    cost: Result
    difference: Result | None
    document: Document

    def figures(self) -> Columns:
        """The figures as columns; see `lab.figures`."""
        return figures([self.document])


class Interrupted(KeyboardInterrupt):
    """Ctrl-C ended a measurement. `measured` is what it had until then, None where it had not
    begun; figures of few loads have no interval yet."""

    def __init__(self, measured: Measured | None) -> None:
        super().__init__("measuring was ended by Ctrl-C; see .measured for what it has")
        self.measured = measured


def measure(
    program: str | Path | Chosen,
    baseline: str | Path | Chosen | None = None,
    *,
    packet: Packet,
    engine: str = "user",
    time_s: float = 2.0,
    maps: Entries | None = None,
    store: Path | None = None,
    tags: Sequence[str] = (),
) -> Measured:
    """Measure what a program takes for a packet, in nanoseconds, interleaved with a baseline's.

    `maps` are entries that both programs find; each has maps of its own. The figures are those of
    docs/method.md's packet method; about `time_s` seconds are spent. On the user-space engine
    programs run as the JIT made them, after every access to this packet was checked. With a
    `store`, a file as of `xdplab run --store`, the run is kept there as it is measured, under
    these `tags`.

    UsageError for what is named wrongly; NotPossibleError where a program cannot be measured, as
    one that changes its packet or its maps so that it does something else when it meets the packet
    again; StoreError where the store is of no use; Interrupted at Ctrl-C; errors of `load`.
    """
    reason = why_not(engine)
    if reason:
        raise NotPossibleError(reason)
    if time_s <= 0:
        raise UsageError(f"a time of {time_s:g} s measures nothing. Give more than 0")
    frame, entries = frame_of(packet), maps or {}
    chosen = [chosen_of(one) for one in (baseline, program) if one is not None]
    known = {name for one in chosen for name in one.spec.maps}
    for name in entries:
        if name not in known:
            raise UsageError(f"no program has a map {name!r}. Maps: {', '.join(sorted(known))}")
    names = [one.program.name for one in chosen]
    if len(set(names)) < len(names):
        names[0] += " (baseline)"
    names = [f"{name} (program)" if name == EMPTY else name for name in names]
    own = [
        _own(name, one, entries_of(one, entries)) for name, one in zip(names, chosen, strict=True)
    ]
    classes = [FrameClass(f"{len(frame.data)} bytes", frame)]
    on, guard = _engines(engine)
    plan = own_plan(own, classes, None, guard)
    planned = {measure.variant for group in plan.groups for measure in group.measures}
    if not planned.issuperset(names):
        raise NotPossibleError(f"nothing was measured: {' '.join(plan.notes)}")
    suite = replace(own_suite(own, classes, None), plan=lambda _values, _engine: plan)
    stop = Stop()
    with _asked_by_ctrl_c(stop):
        run = Run([suite], {}, [on], time_s, stop, command=tuple(sys.argv))
        with _kept(run, store, tags) as recorder:
            for _ in run.measured(recorder):
                pass
        document = _named(run.document(), tags)
    if stop.asked:
        raise Interrupted(_measured(document, has_baseline=baseline is not None))
    measured = _measured(document, has_baseline=baseline is not None)
    if measured is None:
        notes = " ".join(dict.fromkeys(one.note for one in document.results if one.note))
        raise NotPossibleError(f"nothing was measured on the {engine} engine: {notes}")
    return measured


def _own(name: str, chosen: Chosen, entries: dict[str, list[tuple[bytes, bytes]]]) -> Own:
    # A program is loaded with its own maps alone.
    _, used = uses(chosen.spec, (chosen.program.name,))
    mine = {of_map: content for of_map, content in entries.items() if of_map in used}
    return Own(name, chosen.spec, chosen.program.name, entries=mine)


def _engines(name: str) -> tuple[Engine, Engine]:
    """Where programs are measured, and where they are looked at before."""
    if name == "kernel":
        from xdplab.engines.kernel import KernelEngine

        return KernelEngine(), KernelEngine()
    from xdplab.engines.user import UserEngine

    return UserEngine(), UserEngine(mode=Mode.CHECKED)


def _asked_by_ctrl_c(stop: Stop) -> AbstractContextManager[object]:
    """Have Ctrl-C ask, where it would raise KeyboardInterrupt in this thread: whoever minds
    signals in another way goes on to."""
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        return stop.on_signals((signal.SIGINT,))
    return nullcontext()


@contextmanager
def _kept(run: Run, store: Path | None, tags: Sequence[str]) -> Iterator[Recorder | None]:
    if store is None:
        yield None
        return
    from xdplab.store.recorder import Recorder
    from xdplab.store.store import check_tag

    for tag in tags:
        check_tag(tag)
    recorder = Recorder(Path(store), _named(run.document(), tags))
    try:
        yield recorder
    finally:
        if not recorder.finish(_named(run.document(), tags)) and recorder.failure is not None:
            # What was measured must not be lost for that.
            warnings.warn(f"not kept, or not all of it: {recorder.failure}", stacklevel=3)


def _named(document: Document, tags: Sequence[str]) -> Document:
    return replace(document, run=replace(document.run, tags=tuple(dict.fromkeys(tags))))


def _measured(document: Document, *, has_baseline: bool) -> Measured | None:
    """None where one of the figures is not there."""
    own = [one for one in document.results if one.variant != TWIN]
    if not own or any(one.estimate is None for one in own):
        return None
    # Of two programs: the baseline's cost, the program's, and their difference.
    return Measured(own[1], own[2], document) if has_baseline else Measured(own[0], None, document)
