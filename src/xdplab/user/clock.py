"""The core's clock as it is at this moment, from a chain of multiplications (runtime/clock.c)."""

from __future__ import annotations

import ctypes
import functools
import time
from typing import Any

from xdplab.user import runtime

_TURNS = 100
"""Turns of the runtime's chain for one look at the clock: 100 multiplications of three cycles each
a turn, 7 us in all."""


@functools.cache
def _chain() -> Any:
    return runtime.library().function(
        "user_multiply_chain", ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int32
    )


def core_clock_ghz() -> float | None:
    """GHz, measured; None where a multiplication's cycles are not known (not x86)."""
    best_ns = min(_chain()(_TURNS, time.CLOCK_MONOTONIC) for _ in range(5))
    return _TURNS * 100 * 3 / best_ns if best_ns else None
