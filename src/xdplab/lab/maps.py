"""Maps of a loaded program as mappings of bytes to bytes, on whichever engine they are."""

from __future__ import annotations

import errno
from collections.abc import Iterator, MutableMapping
from typing import Protocol

from xdplab.errors import UsageError
from xdplab.program import MapSpec
from xdplab.user.maps import PERCPU_TYPES, UserMap


def as_bytes(value: bytes | int, size_bytes: int) -> bytes:
    """A key or a value: bytes as they are, a number little-endian in `size_bytes`."""
    if isinstance(value, int):
        try:
            return value.to_bytes(size_bytes, "little", signed=value < 0)
        except OverflowError:
            raise UsageError(f"{value:d} does not fit into {size_bytes} bytes") from None
    if len(value) != size_bytes:
        raise UsageError(f"{value!r} has {len(value)} bytes; the map's have {size_bytes}")
    return value


class EngineMap(Protocol):
    """A map on an engine; every refusal is an OSError as bpf(2) has it."""

    spec: MapSpec

    def values(self, key: bytes) -> tuple[bytes, ...] | None: ...

    def put(self, key: bytes, value: bytes) -> None: ...

    def delete(self, key: bytes) -> None: ...

    def keys(self) -> Iterator[bytes]: ...


class BpfMap(MutableMapping["bytes | int", "bytes | int"]):
    """A map's entries: `counts[3]`, `counts[b"..."] = value`, `dict(counts)`.

    Keys and values are bytes of the map's sizes; a number stands for itself, little-endian. What
    is read is bytes; `number` reads a number. Of a per-CPU map a value is that of the first CPU
    that has other than zeros, `number` the sum over all CPUs, and what is set every CPU gets.
    """

    def __init__(self, entries: EngineMap) -> None:
        self._entries = entries
        self.spec = entries.spec

    def _key(self, key: bytes | int) -> bytes:
        return as_bytes(key, self.spec.key_size)

    def per_cpu(self, key: bytes | int) -> tuple[bytes, ...]:
        """The value on each CPU, one of a map that is not per CPU. KeyError where none is there."""
        try:
            values = self._entries.values(self._key(key))
        except OSError as error:
            raise self._refused("reading", error) from None
        if values is None:
            raise KeyError(key)
        return values

    def __getitem__(self, key: bytes | int) -> bytes:
        values = self.per_cpu(key)
        return next((value for value in values if any(value)), values[0])

    def number(self, key: bytes | int) -> int:
        """The value as an unsigned little-endian number, summed over CPUs; 0 where none is there:
        what a program counts begins with the first packet."""
        try:
            return sum(int.from_bytes(value, "little") for value in self.per_cpu(key))
        except KeyError:
            return 0

    def __setitem__(self, key: bytes | int, value: bytes | int) -> None:
        try:
            self._entries.put(self._key(key), as_bytes(value, self.spec.value_size))
        except OSError as error:
            raise self._refused("setting an entry of", error) from None

    def __delitem__(self, key: bytes | int) -> None:
        try:
            self._entries.delete(self._key(key))
        except OSError as error:
            if error.errno == errno.ENOENT:
                raise KeyError(key) from None
            raise self._refused("removing an entry of", error) from None

    def __iter__(self) -> Iterator[bytes]:
        try:
            yield from list(self._entries.keys())
        except OSError as error:
            raise self._refused("listing", error) from None

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _refused(self, tried: str, error: OSError) -> UsageError:
        return UsageError(
            f"{tried} map {self.spec.name} ({self.spec.type_name}) failed: {error.strerror}. "
            "Does a map of this type take that?"
        )


class UserEntries:
    """A map of the user-space engine."""

    def __init__(self, one: UserMap) -> None:
        self._map = one
        self.spec = one.spec

    def values(self, key: bytes) -> tuple[bytes, ...] | None:
        if self._map.is_percpu:
            return self._map.lookup_percpu(key)
        value = self._map.lookup(key)
        return None if value is None else (value,)

    def put(self, key: bytes, value: bytes) -> None:
        self._map.update(key, value)

    def delete(self, key: bytes) -> None:
        self._map.delete(key)

    def keys(self) -> Iterator[bytes]:
        return self._map.keys()


class KernelEntries:
    """A map in the kernel; the fd stays its owner's."""

    def __init__(self, fd: int, spec: MapSpec) -> None:
        self._fd = fd
        self.spec = spec

    def values(self, key: bytes) -> tuple[bytes, ...] | None:
        from xdplab.kernel import bpf

        if self.spec.type in PERCPU_TYPES:
            try:
                return tuple(bpf.map_lookup_by_cpu(self._fd, key, self.spec.value_size))
            except FileNotFoundError:
                return None
        value = bpf.map_lookup(self._fd, key, self.spec.value_size)
        return None if value is None else (value,)

    def put(self, key: bytes, value: bytes) -> None:
        from xdplab.kernel.maps import fill

        fill(self._fd, self.spec, [(key, value)])

    def delete(self, key: bytes) -> None:
        from xdplab.kernel import bpf

        bpf.map_delete(self._fd, key)

    def keys(self) -> Iterator[bytes]:
        from xdplab.kernel import bpf

        return bpf.map_keys(self._fd, self.spec.key_size)
