"""The same entries in the maps of both engines, and whether they are the same behind a run."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from benchmarks.traffic import Traffic

from xdplab.kernel.libbpf import LoadedObject, library
from xdplab.program import MapSpec
from xdplab.user.link import LinkedProgram
from xdplab.user.machine import UserObject

COMPARED_ENTRIES = 200_000
"""Arrays with more entries are not compared."""

_ARRAYS, _PERCPU = frozenset({2, 6}), frozenset({5, 6, 10})
_COMPARED = frozenset({1, 2, 5, 6, 9, 10, 11})
"""enum bpf_map_type of maps of hashes, arrays and tries, which are compared."""


class KernelMaps:
    """Entries of a loaded object's maps by libbpf; methods raise OSError as bpf(2) says."""

    def __init__(self, loaded: LoadedObject) -> None:
        self._loaded = loaded
        self._bpf = library()
        with open("/sys/devices/system/cpu/possible") as file:  # noqa: PTH123 (one read of sysfs)
            self._cpus = int(file.read().strip().rpartition("-")[2]) + 1

    def update(self, spec: MapSpec, key: bytes, value: bytes) -> None:
        """Set an entry, on every CPU."""
        if spec.type in _PERCPU:
            value = value.ljust(-(-len(value) // 8) * 8, b"\0") * self._cpus
        result = self._bpf.bpf_map_update_elem(
            self._loaded.maps[spec.name], key, value, ctypes.c_uint64(0)
        )
        if result < 0:
            raise OSError(-result, os.strerror(-result))

    def accepted(
        self, spec: MapSpec, entries: list[tuple[bytes, bytes]]
    ) -> list[tuple[bytes, bytes]]:
        """Set entries; return those that the kernel took, with the values that it then has.

        It takes none into a map that user space may only read, and no locks and timers in values.
        """
        found = []
        for key, value in entries:
            try:
                self.update(spec, key, value)
            except OSError:
                continue
            found.append((key, self.lookup(spec, key) if spec.type in _COMPARED else value))
        return found

    def lookup(self, spec: MapSpec, key: bytes) -> bytes:
        """The value of an entry that is there, of a per-CPU map the first CPU's."""
        room = ctypes.create_string_buffer(-(-spec.value_size // 8) * 8 * self._cpus)
        result = self._bpf.bpf_map_lookup_elem(self._loaded.maps[spec.name], key, room)
        if result < 0:
            raise OSError(-result, os.strerror(-result))
        return room.raw[: spec.value_size]

    def section(self, name: str) -> bytes:
        """A data section as it is now: the one value of an array that libbpf names after it."""
        found = next(one for one in self._loaded.maps if one == name or one.endswith(name[:15]))
        size = len(self._loaded.spec.sections[name])
        return self.lookup(MapSpec(found, 2, "array", 4, size, 1), bytes(4))

    def update_fd(self, spec: MapSpec, key: bytes, fd: int) -> None:
        """Put a program or a map into a slot."""
        self.update(spec, key, fd.to_bytes(4, "little"))

    def items(self, spec: MapSpec) -> Iterator[tuple[bytes, bytes]]:
        """Keys and values, of per-CPU maps the first CPU's."""
        fd = self._loaded.maps[spec.name]
        key = ctypes.create_string_buffer(spec.key_size)
        stride = -(-spec.value_size // 8) * 8
        value = ctypes.create_string_buffer(stride * self._cpus)
        following: Callable[..., int] = self._bpf.bpf_map_get_next_key
        result = following(fd, None, key)
        while result == 0:
            if self._bpf.bpf_map_lookup_elem(fd, key, value) == 0:
                yield key.raw, value.raw[: spec.value_size]
            result = following(fd, key, key)


def fill(
    user: UserObject,
    kernel: LoadedObject | None,
    traffic: Traffic,
    setup: Mapping[str, Any],
) -> None:
    """Give both sides' maps the same entries: the setup's, else random ones."""
    kernel_maps = KernelMaps(kernel) if kernel is not None else None
    given = setup.get("maps", {})
    for name, spec in user.spec.maps.items():
        if name not in user.maps:
            continue
        entries = [] if name in given else traffic.entries(spec)
        if kernel_maps is not None:
            entries = kernel_maps.accepted(spec, entries)
        for key, value in entries:
            user.maps[name].update(key, value)
        for text, value in given.get(name, {}).items():
            key = bytes.fromhex(text) or bytes(spec.key_size)
            if value.startswith("@"):
                user.set_program(name, int.from_bytes(key, "little"), value[1:])
                if kernel is not None and kernel_maps is not None:
                    kernel_maps.update_fd(spec, key, kernel.prog_fd(value[1:]))
            elif value.startswith("#"):
                user.set_map(name, key, value[1:])
                if kernel is not None and kernel_maps is not None:
                    kernel_maps.update_fd(spec, key, kernel.maps[value[1:]])
            else:
                user.maps[name].update(key, bytes.fromhex(value))
                if kernel_maps is not None:
                    kernel_maps.update(spec, key, bytes.fromhex(value))


def state_differences(
    user: UserObject, kernel: LoadedObject, linked: LinkedProgram
) -> tuple[int, list[str]]:
    """How many maps and data sections are the same, and those that are not.

    Data sections are the program's own, maps are all of the object.
    """
    kernel_maps = KernelMaps(kernel)
    compared = 0
    wrong = []
    for name, spec in user.spec.maps.items():
        if spec.type in _ARRAYS and spec.max_entries > COMPARED_ENTRIES:
            continue
        if spec.type in _COMPARED and name in user.maps:
            compared += 1
            if dict(user.maps[name].items()) != dict(kernel_maps.items(spec)):
                wrong.append(f"{name} ({spec.type_name})")
    for section in linked.sections:
        if section.startswith((".data", ".bss")):
            compared += 1
            if user.section(section).raw != kernel_maps.section(section):
                wrong.append(section)
    return compared - len(wrong), wrong
