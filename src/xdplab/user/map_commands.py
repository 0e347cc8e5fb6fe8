"""The runtime's commands on maps as ctypes functions: bpf(2)'s, with its error numbers."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import Any

from xdplab.user.runtime import library


@cache
def command(name: str) -> Any:
    """The C function `name` (runtime/maps.c and its parts) with its argument types.

    NotPossibleError where the engine does not run on this machine.
    """
    pointer = ctypes.c_void_p
    types: dict[str, tuple[Any, ...]] = {
        "user_map_memory": (ctypes.c_int64, pointer),
        "user_map_create": (None, pointer, pointer),
        "user_map_find": (pointer, pointer, ctypes.c_char_p),
        "user_map_update": (
            *(ctypes.c_int64, pointer),
            *(ctypes.c_char_p, ctypes.c_char_p, ctypes.c_uint64),
        ),
        "user_map_delete": (ctypes.c_int64, pointer, ctypes.c_char_p),
        "user_map_next_key": (ctypes.c_int64, pointer, ctypes.c_char_p, pointer),
        "user_map_push": (ctypes.c_int64, pointer, ctypes.c_char_p, ctypes.c_uint64),
        "user_map_pop": (ctypes.c_int64, pointer, pointer),
        "user_map_peek": (ctypes.c_int64, pointer, pointer),
        "user_map_take": (pointer, pointer, pointer, pointer),
        "user_map_skip": (None, pointer),
        "user_map_lost": (ctypes.c_uint64, pointer),
    }
    return library().function(name, *types[name])


def checked(result: int) -> int:
    """`result`, or the OSError that a negative errno stands for."""
    if result < 0:
        raise OSError(-result, os.strerror(-result))
    return result
