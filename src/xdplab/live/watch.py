"""Watching a session: a reading every so often, until its end is reached or asked for."""

from __future__ import annotations

import queue
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from types import FrameType
from typing import Any

from xdplab.live.readings import Reading
from xdplab.live.session import Session

_LOOK_S = 0.01
"""How often a session that ends after a number of packets is looked at: what comes in until
then is counted, too."""

_ROUND_S = 0.25
"""How long it may take to notice that an interface was removed."""

_SIGNALS_THAT_END = 2


class Why(Enum):
    """Why watching ended."""

    DURATION = "duration"
    PACKETS = "packets"
    ASKED = "signal"
    GONE = "interface removed"


class Signals:
    """Signals as a queue to wait at: whoever waits wakes up at once.

    `asked` turns true with SIGINT, SIGTERM or SIGHUP; `on_quit` is called for SIGQUIT (Ctrl-\\).
    """

    def __init__(self, on_quit: Callable[[], None]) -> None:
        self.asked = False
        self._count = 0
        self._on_quit = on_quit
        # put() may be called by a handler in the middle of get(), which an Event's set() may not.
        self._woken: queue.SimpleQueue[int] = queue.SimpleQueue()

    @contextmanager
    def handled(self) -> Iterator[Signals]:
        """Have signals come here. Those that the caller had ignored (nohup) stay so.

        A second one while the first is answered raises KeyboardInterrupt: output may be
        blocked by a reader that does not read.
        """
        previous: dict[signal.Signals, Any] = {}
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            if signal.getsignal(number) is not signal.SIG_IGN:
                previous[number] = signal.signal(number, self._came)
        try:
            yield self
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def _came(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGQUIT:
            self._on_quit()
            return
        self.asked = True
        self._count += 1
        self._woken.put(number)
        if self._count >= _SIGNALS_THAT_END:
            raise KeyboardInterrupt

    def wait(self, seconds: float) -> None:
        """Sleep, or wake up when a signal asks to end."""
        if self.asked:
            return
        try:
            self._woken.get(timeout=max(0.0, seconds))
        except queue.Empty:
            return


@dataclass(frozen=True, slots=True)
class Ending:
    """When watching ends by itself: after `duration_s`, or once `packets` came in."""

    duration_s: float | None = None
    packets: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether only a signal ends it."""
        return self.duration_s is None and self.packets is None


def watch(
    session: Session,
    ending: Ending,
    interval_s: float,
    signals: Signals,
    on_interval: Callable[[Reading, Reading], None],
) -> tuple[Why, Reading]:
    """Call `on_interval` with the interval's and the total reading; return the last total.

    Deadlines are kept: an interval that was late does not delay the next. The rest that is left
    at the end is reported as well, unless it is a moment in which nothing came in.
    """
    first = session.read()
    # Nothing, at the moment of attaching: packets have come in since.
    before = first.since(first)
    due_s = interval_s
    why: Why | None = None
    while why is None:
        now = session.read()
        why = _why(session, ending, signals, now)
        if why is None and now.seconds >= due_s:
            on_interval(now.since(before), now)
            before = now
            due_s += interval_s * (1 + (now.seconds - due_s) // interval_s)
            continue
        if why is None:
            _rest(session, signals, _pause_s(ending, due_s - now.seconds, now.seconds))
    total = session.detach()
    last = total.since(before)
    if last.packets or last.seconds > interval_s / 2:
        on_interval(last, total)
    return why, total


def _rest(session: Session, signals: Signals, pause_s: float) -> None:
    """Wait for the next reading, but no longer than until a signal comes or an interface goes."""
    until = time.monotonic() + pause_s
    while not signals.asked and not session.gone:
        left_s = until - time.monotonic()
        if left_s <= 0:
            return
        signals.wait(min(left_s, _ROUND_S))


def _why(session: Session, ending: Ending, signals: Signals, now: Reading) -> Why | None:
    if signals.asked:
        return Why.ASKED
    if session.is_gone:
        return Why.GONE
    if ending.packets is not None and now.packets >= ending.packets:
        return Why.PACKETS
    if ending.duration_s is not None and now.seconds >= ending.duration_s:
        return Why.DURATION
    return None


def _pause_s(ending: Ending, until_due_s: float, now_s: float) -> float:
    pause_s = until_due_s
    if ending.duration_s is not None:
        pause_s = min(pause_s, ending.duration_s - now_s)
    if ending.packets is not None:
        pause_s = min(pause_s, _LOOK_S)
    return pause_s
