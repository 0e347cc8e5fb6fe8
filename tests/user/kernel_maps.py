"""The kernel's maps by bpf(2), for tests that hold the user-space engine's against them.

`KernelMap` has the methods of `UserMap` that such a test uses, with the same arguments.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterator
from types import TracebackType

from xdplab.kernel.bpf import syscall, syscall_number
from xdplab.program import MapSpec

_CREATE, _LOOKUP, _UPDATE, _DELETE, _NEXT_KEY, _LOOKUP_AND_DELETE = 0, 1, 2, 3, 4, 21

PERCPU_TYPES = frozenset({5, 6, 10})


class _CreateAttr(ctypes.Structure):
    """union bpf_attr for BPF_MAP_CREATE, as far as it is used."""

    _fields_ = (
        ("map_type", ctypes.c_uint32),
        ("key_size", ctypes.c_uint32),
        ("value_size", ctypes.c_uint32),
        ("max_entries", ctypes.c_uint32),
        ("map_flags", ctypes.c_uint32),
        ("inner_map_fd", ctypes.c_uint32),
        ("numa_node", ctypes.c_uint32),
        ("map_name", ctypes.c_char * 16),
        ("rest", ctypes.c_uint32 * 5),
        ("map_extra", ctypes.c_uint64),
    )


class _ElemAttr(ctypes.Structure):
    """union bpf_attr for commands on elements."""

    _fields_ = (
        ("map_fd", ctypes.c_uint32),
        ("pad", ctypes.c_uint32),
        ("key", ctypes.c_uint64),
        ("value", ctypes.c_uint64),
        ("flags", ctypes.c_uint64),
    )


def _bpf(command: int, attr: ctypes.Structure) -> int:
    while True:
        result: int = syscall(
            syscall_number(), command, ctypes.addressof(attr), ctypes.sizeof(attr)
        )
        if result >= 0:
            return result
        number = ctypes.get_errno()
        if number != errno.EINTR:
            raise OSError(number, os.strerror(number))


def possible_cpus() -> int:
    """How many values per-CPU maps have: the kernel's num_possible_cpus()."""
    with open("/sys/devices/system/cpu/possible") as file:  # noqa: PTH123 (one read of sysfs)
        last = file.read().strip().rpartition("-")[2].rpartition(",")[2]
    return int(last) + 1


class KernelMap:
    """One map in the kernel; `close` gives it up."""

    def __init__(self, spec: MapSpec, inner: KernelMap | None = None) -> None:
        self.spec = spec
        self.copies = possible_cpus() if spec.type in PERCPU_TYPES else 1
        attr = _CreateAttr(
            map_type=spec.type,
            key_size=spec.key_size,
            value_size=spec.value_size,
            max_entries=spec.max_entries,
            map_flags=spec.flags,
            inner_map_fd=inner.fd if inner else 0,
            map_name=b"xdplab_test",
            map_extra=spec.extra,
        )
        self.fd: int = _bpf(_CREATE, attr)
        stride = -(-spec.value_size // 8) * 8 if self.copies > 1 else spec.value_size
        self._stride = stride
        self._room = ctypes.create_string_buffer(max(1, stride * self.copies))

    def _element(self, command: int, key: bytes | None, flags: int = 0) -> None:
        buffer = ctypes.create_string_buffer(key, max(1, len(key))) if key is not None else None
        attr = _ElemAttr(
            map_fd=self.fd,
            key=ctypes.addressof(buffer) if buffer is not None and key else 0,
            value=ctypes.addressof(self._room),
            flags=flags,
        )
        _bpf(command, attr)

    def lookup(self, key: bytes) -> bytes | None:
        """The value, or all CPUs' values in one piece without padding."""
        try:
            self._element(_LOOKUP, key)
        except FileNotFoundError:
            return None
        size = self.spec.value_size
        return b"".join(
            self._room.raw[start : start + size]
            for start in range(0, self._stride * self.copies, self._stride)
        )

    def update(self, key: bytes, value: bytes, flags: int = 0) -> None:
        padded = value.ljust(self._stride, b"\0") * self.copies
        ctypes.memmove(self._room, padded, len(padded))
        self._element(_UPDATE, key, flags)

    def delete(self, key: bytes) -> None:
        attr_key = ctypes.create_string_buffer(key, max(1, len(key)))
        _bpf(_DELETE, _ElemAttr(map_fd=self.fd, key=ctypes.addressof(attr_key)))

    def keys(self) -> Iterator[bytes]:
        room = ctypes.create_string_buffer(max(1, self.spec.key_size))
        following = ctypes.create_string_buffer(max(1, self.spec.key_size))
        first = True
        while True:
            attr = _ElemAttr(
                map_fd=self.fd,
                key=0 if first else ctypes.addressof(room),
                value=ctypes.addressof(following),
            )
            try:
                _bpf(_NEXT_KEY, attr)
            except FileNotFoundError:
                return
            first = False
            ctypes.memmove(room, following, self.spec.key_size)
            yield following.raw[: self.spec.key_size]

    def push(self, value: bytes, flags: int = 0) -> None:
        ctypes.memmove(self._room, value, len(value))
        self._element(_UPDATE, b"", flags)

    def pop(self) -> bytes | None:
        return self._next(_LOOKUP_AND_DELETE)

    def peek(self) -> bytes | None:
        return self._next(_LOOKUP)

    def _next(self, command: int) -> bytes | None:
        try:
            self._element(command, b"")
        except FileNotFoundError:
            return None
        return self._room.raw[: self.spec.value_size]

    def might_contain(self, value: bytes) -> bool:
        ctypes.memmove(self._room, value, len(value))
        try:
            self._element(_LOOKUP, b"")
        except FileNotFoundError:
            return False
        return True

    def close(self) -> None:
        os.close(self.fd)

    def __enter__(self) -> KernelMap:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
