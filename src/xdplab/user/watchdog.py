"""An end to packets that take too long although few instructions are executed.

The instruction budget bounds what a program does itself, not what helpers do for it: ten million
calls that each walk over a large map would take minutes.
"""

from __future__ import annotations

import os
import threading
import time

from xdplab.user.abi import UserState

LIMIT_S = 1.0
"""How long a packet may take in checked and counted mode."""

_TICK_S = 0.02
_IDLE_TICKS = 50


class _Watchdog:
    """Spends the budget of whoever is over the limit; its thread sleeps while nobody runs."""

    def __init__(self) -> None:
        self._running: dict[int, tuple[UserState, float]] = {}
        self._lock = threading.Lock()
        self._awake = threading.Event()
        self._has_thread = False

    def start(self, state: UserState) -> None:
        """A packet of this thread starts."""
        with self._lock:
            self._running[threading.get_ident()] = (state, time.monotonic() + LIMIT_S)
            if not self._has_thread:
                self._has_thread = True
                threading.Thread(target=self._watch, name="xdplab-watchdog", daemon=True).start()
        if not self._awake.is_set():
            self._awake.set()

    def stop(self) -> None:
        """The packet is done."""
        with self._lock:
            self._running.pop(threading.get_ident(), None)

    def _watch(self) -> None:
        idle = 0
        while True:
            self._awake.wait()
            time.sleep(_TICK_S)
            with self._lock:
                now = time.monotonic()
                for state, deadline in self._running.values():
                    # The program may write back what it read before, so once is not enough.
                    if now > deadline:
                        state.budget = 0
                idle = 0 if self._running else idle + 1
                if idle > _IDLE_TICKS:
                    idle = 0
                    self._awake.clear()


WATCHDOG = _Watchdog()
"""The process's."""


def _renew() -> None:
    # Threads do not outlive a fork, and a lock may have been held.
    WATCHDOG.__init__()  # type: ignore[misc]


os.register_at_fork(after_in_child=_renew)
