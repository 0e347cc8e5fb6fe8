"""An engine that follows a script: the seam's twin for tests of everything above it.

No clock, no kernel: a subject's calls take the nanoseconds that the script gives. Results of
this engine are named `scripted` and are no measurements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType

from xdplab.engines.base import Method, Outcome, Subject

Script = Callable[[str, int], int]
"""(subject key, number of the call in this session from 0) -> whole nanoseconds of that call."""

Counts = Callable[[str], Mapping[str, int]]
"""subject key -> what a timer of it says that it counted."""

Clock = Callable[[], float | None]
"""What the core's clock is said to be whenever it is asked: GHz, or None where it is not known."""


class _Timer:
    interrupted = 0

    def __init__(self, session: ScriptedSession, key: str, operations: int, factor: int) -> None:
        self._session = session
        self._key = key
        self._factor = factor
        self.operations_per_call = operations
        self.duration_ns: int | None = None
        self.counts = session.counts(key)

    def __call__(self) -> int:
        # A doubled call makes twice the runs: what one run takes stays the same.
        self.duration_ns = self._session.next_ns(self._key)
        return self._factor * self.duration_ns


class ScriptedSession:
    """A session of the scripted engine; records what was placed in `placed`."""

    def __init__(self, engine: ScriptedEngine, subjects: Sequence[Subject]) -> None:
        self._engine = engine
        self._subjects = {subject.key: subject for subject in subjects}
        self._calls = 0
        self.missing = {key: why for key, why in engine.missing.items() if key in self._subjects}
        self.capacity = engine.capacity
        self.placed: list[tuple[str, ...]] = []

    def next_ns(self, key: str) -> int:
        """What the next call takes."""
        call = self._calls
        self._calls += 1
        return self._engine.script(key, call)

    def counts(self, key: str) -> Mapping[str, int]:
        """What a timer of that subject says that it counted."""
        return self._engine.counts(key)

    def place(self, keys: Sequence[str]) -> None:
        programs = {self._subjects[key].load_key for key in keys}
        if self.capacity is not None and len(programs) > self.capacity:
            raise ValueError(f"{len(programs)} programs do not fit into {self.capacity} places")
        self.placed.append(tuple(keys))

    def placement(self, key: str) -> int:
        if key not in self.placed[-1]:
            raise KeyError(key)
        return 8

    def timer(self, key: str, doubled: bool = False) -> _Timer:
        self.placement(key)
        return _Timer(self, key, self._subjects[key].operations, 2 if doubled else 1)

    def run(self, key: str) -> Outcome:
        return Outcome(self._subjects[key].action or 0, self._subjects[key].frame.data)

    def read_global(self, key: str, name: str) -> int | float | bytes:
        return self._engine.globals[name]

    def clock_ghz(self) -> float | None:
        return self._engine.clock()

    def close(self) -> None:
        self._engine.open_sessions -= 1

    def __enter__(self) -> ScriptedSession:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


@dataclass
class ScriptedEngine:
    """An engine whose timings come from `script`. `missing`: subject key -> reason."""

    script: Script
    missing: Mapping[str, str] = field(default_factory=dict)
    globals: Mapping[str, int | bytes] = field(default_factory=dict)
    capacity: int | None = None
    name: str = "scripted"
    cpu: int | None = None
    datapath: Mapping[str, Sequence[str]] = field(default_factory=dict)
    chosen: Mapping[str, str] = field(default_factory=dict)
    mitigations: Sequence[str] = ()
    clock: Clock = lambda: None
    counts: Counts = lambda _key: {}
    open_sessions: int = 0
    sessions: list[ScriptedSession] = field(default_factory=list)

    def open(self, subjects: Sequence[Subject], method: Method) -> ScriptedSession:
        session = ScriptedSession(self, subjects)
        self.open_sessions += 1
        self.sessions.append(session)
        return session
