"""The C library of this process, as native functions are compared with its own."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform


def libc_function(name: str) -> int:
    """Address of one of the C library's functions in this process, as its own dispatch chose it."""
    return ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p).value or 0


def libc_name() -> str:
    """Which C library that is, such as "glibc 2.36"; "the C library" where it does not say."""
    with contextlib.suppress(AttributeError, ValueError, OSError):
        # What glibc alone has (confstr(3)).
        return os.confstr("CS_GNU_LIBC_VERSION") or "the C library"
    return f"{platform.system()}'s C library"
