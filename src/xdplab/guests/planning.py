"""What a suite's plan may ask of a guest: nothing yet before it has booted, its answers behind.

A plan asks its engine what the kernel can do. A guest answers by the same boot that measures: first
the questions are written down and become rows of the bundle, then the plan is made again from what
came back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType

from xdplab.engines.base import Method, Outcome, Session, Subject, Timer
from xdplab.guests.console import GuestReport
from xdplab.kernel.mitigations import call_mitigations, in_force

Question = tuple[str, str]
"""A subject's key and a global of its object, whose value behind one run is asked for."""


class GuestEngine:
    """The engine that a plan is made for; it measures nothing itself (qemu.py does).

    `asked` holds the subjects of questions and `wanted` which global of each, as the plan asked.
    """

    name = "guest"
    cpu: int | None = None
    # A kernel is as it is: what is chosen is which one boots.
    datapath: Mapping[str, Sequence[str]] = {}
    chosen: Mapping[str, str] = {}

    def __init__(
        self, report: GuestReport | None = None, answers: Mapping[Question, bytes] | None = None
    ) -> None:
        self._report = report
        self.answers = answers or {}
        self.asked: dict[str, Subject] = {}
        self.wanted: dict[str, str] = {}

    @property
    def mitigations(self) -> Sequence[str]:
        """What is in force around calls in the guest; nothing is known before its boot."""
        return () if self._report is None else report_mitigations(self._report)

    def open(self, subjects: Sequence[Subject], method: Method) -> Session:
        """A session that answers from the boot, or writes down what is asked."""
        return _Session(self, subjects)


def report_mitigations(report: GuestReport) -> tuple[str, ...]:
    """What calls of that kernel pay for, in a few words each."""
    return in_force(call_mitigations(report.mitigations) or {})


class _Session:
    capacity: int | None = None

    def __init__(self, engine: GuestEngine, subjects: Sequence[Subject]) -> None:
        self._engine = engine
        self._subjects = {subject.key: subject for subject in subjects}
        # What a guest cannot do its row says, in the place where its figure would be.
        self.missing: Mapping[str, str] = {}

    def run(self, key: str) -> Outcome:
        subject = self._subjects[key]
        return Outcome(subject.action or 0, subject.frame.data)

    def read_global(self, key: str, name: str) -> int | float | bytes:
        subject = self._subjects[key]
        self._engine.asked[key] = subject
        self._engine.wanted[key] = name
        variable = subject.bpf_object.globals[name]
        return variable.decode(self._engine.answers.get((key, name), bytes(variable.size_bytes)))

    def place(self, keys: Sequence[str]) -> None:
        raise TypeError("a guest's rows are placed when it boots, all at once")

    def placement(self, key: str) -> int:
        return -1

    def timer(self, key: str, doubled: bool = False) -> Timer:
        raise TypeError("a guest's rows are timed in the guest, all in one boot")

    def clock_ghz(self) -> float | None:
        return None

    def close(self) -> None:
        pass

    def __enter__(self) -> _Session:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
