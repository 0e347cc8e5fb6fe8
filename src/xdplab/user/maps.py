"""Maps of the user-space engine as Python sees them: what bpf(2) is to the kernel's maps.

The C runtime has the maps' logic; here are their memory and the commands on it. Every refusal
is an `OSError` with the errno that bpf(2) would give.
"""

from __future__ import annotations

import ctypes
import errno
import itertools
import mmap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType

from xdplab.program import MapSpec
from xdplab.user.abi import UserMapStruct
from xdplab.user.map_commands import checked, command

ANY, NOEXIST, EXIST = 0, 1, 2
"""Flags of an update: BPF_ANY, BPF_NOEXIST, BPF_EXIST (linux/bpf.h)."""

PERCPU_TYPES = frozenset({5, 6, 10})
"""enum bpf_map_type: percpu_hash, percpu_array, lru_percpu_hash; a value for each CPU."""

PROG_ARRAY, PERF_EVENT_ARRAY, ARRAY_OF_MAPS, HASH_OF_MAPS, XSKMAP, RINGBUF = 3, 4, 12, 13, 17, 27
"""enum bpf_map_type of those whose entries are not bytes."""

_RDONLY, _WRONLY = 1 << 3, 1 << 4  # BPF_F_RDONLY, BPF_F_WRONLY
_MAPS_OF_MAPS = frozenset({ARRAY_OF_MAPS, HASH_OF_MAPS})

_ids = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Record:
    """One record of a ring buffer or perf event array; `cpu` is 0 for ring buffers."""

    data: bytes
    cpu: int = 0


class UserMap:
    """One map, alive until `close` (or until nobody holds it).

    `nr_cpus` is how many values a per-CPU map keeps of each entry. Programs get `address`, that
    of the struct user_map. OSError(EINVAL, E2BIG, ...) where the kernel would refuse to create
    such a map, ENOMEM where there is no memory, EINVAL for a type that the engine does not have.
    """

    def __init__(self, spec: MapSpec, *, nr_cpus: int = 1) -> None:
        self.spec = spec
        self.nr_cpus = nr_cpus
        wanted = UserMapStruct(
            type=spec.type,
            key_bytes=spec.key_size,
            value_bytes=spec.value_size,
            max_entries=spec.max_entries,
            flags=spec.flags,
            id=next(_ids),
            nr_cpus=nr_cpus,
            extra=spec.extra,
        )
        room = ctypes.sizeof(UserMapStruct)
        # Entries start on a cache line of their own.
        start = -(-room // 64) * 64
        size = start + checked(command("user_map_memory")(ctypes.addressof(wanted)))
        self._memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self._struct = UserMapStruct.from_buffer(self._memory)
        ctypes.memmove(ctypes.addressof(self._struct), ctypes.addressof(wanted), room)
        self.address = ctypes.addressof(self._struct)
        command("user_map_create")(self.address, self.address + start)
        # Inner maps live as long as the map that programs reach them by.
        self._inner: dict[bytes, UserMap] = {}

    @property
    def struct(self) -> UserMapStruct:
        """The map's struct user_map, shared with running programs."""
        return self._struct

    @property
    def is_percpu(self) -> bool:
        """Whether entries have a value for each CPU."""
        return self.spec.type in PERCPU_TYPES

    def _key(self, key: bytes) -> bytes:
        if len(key) != self.spec.key_size:
            raise OSError(errno.EINVAL, f"a key of {len(key)} bytes, not {self.spec.key_size}")
        return key

    def _may(self, forbidden: int, what: str) -> None:
        if self.spec.flags & forbidden:
            raise OSError(errno.EPERM, f"the map's flags forbid {what} from outside programs")

    def lookup(self, key: bytes, *, cpu: int = 0) -> bytes | None:
        """The value (of a per-CPU map: of one CPU), None where the key is not there.

        Of a map of maps the inner map's id, as in the kernel.
        """
        self._may(_WRONLY, "reading")
        address = command("user_map_find")(self.address, self._key(key))
        if not address:
            return None
        if not 0 <= cpu < (self.nr_cpus if self.is_percpu else 1):
            raise OSError(errno.EINVAL, f"CPU {cpu} of {self.nr_cpus}")
        if self.spec.type in _MAPS_OF_MAPS:
            return int(self._inner[key].struct.id).to_bytes(4, "little")
        return ctypes.string_at(address + cpu * self._struct.cpu_stride, self.spec.value_size)

    def lookup_percpu(self, key: bytes) -> tuple[bytes, ...] | None:
        """Every CPU's value, None where the key is not there."""
        values = tuple(self.lookup(key, cpu=cpu) for cpu in range(self.nr_cpus))
        return None if None in values else tuple(value for value in values if value is not None)

    def update(self, key: bytes, value: bytes | Sequence[bytes], flags: int = ANY) -> None:
        """Add or replace an entry; a per-CPU map takes a value for each CPU, or one for all."""
        values = [value] * self.nr_cpus if isinstance(value, bytes) else list(value)
        if not self.is_percpu:
            values = values[:1]
        stride = -(-self.spec.value_size // 8) * 8
        if len(values) != (self.nr_cpus if self.is_percpu else 1) or any(
            len(one) != self.spec.value_size for one in values
        ):
            raise OSError(errno.EINVAL, f"values must have {self.spec.value_size} bytes each")
        data = b"".join(one.ljust(stride, b"\0") for one in values)
        if self.spec.type in _MAPS_OF_MAPS or self.spec.type == PROG_ARRAY:
            raise OSError(errno.EBADF, "an address is wanted: use set_map or set_program")
        self._update(key, data, flags)

    def _update(self, key: bytes, data: bytes, flags: int) -> None:
        self._may(_RDONLY, "writing")
        checked(command("user_map_update")(self.address, self._key(key), data, flags))

    def set_program(self, index: int, address: int) -> None:
        """Put a native program, `u64 (*)(struct user_frame *)`, into a slot of a prog array."""
        if self.spec.type != PROG_ARRAY:
            raise OSError(errno.EINVAL, f"{self.spec.type_name} holds no programs")
        self._update(index.to_bytes(4, "little"), address.to_bytes(8, "little"), ANY)

    def set_map(self, key: bytes, inner: UserMap, flags: int = ANY) -> None:
        """Put `inner` into a map of maps, which keeps it alive until the entry goes."""
        if self.spec.type not in _MAPS_OF_MAPS:
            raise OSError(errno.EINVAL, f"{self.spec.type_name} holds no maps")
        self._update(key, inner.address.to_bytes(8, "little"), flags)
        self._inner[key] = inner

    def inner(self, key: bytes) -> UserMap | None:
        """The map at `key` of a map of maps, None where there is none."""
        return self._inner.get(self._key(key))

    def delete(self, key: bytes) -> None:
        """Remove an entry; ENOENT where the key is not there."""
        self._may(_RDONLY, "writing")
        checked(command("user_map_delete")(self.address, self._key(key)))
        self._inner.pop(key, None)

    def keys(self) -> Iterator[bytes]:
        """Keys in the kernel's order. Entries that come or go meanwhile may be missed."""
        self._may(_WRONLY, "reading")
        key = None
        room = ctypes.create_string_buffer(max(1, self.spec.key_size))
        while True:
            result = command("user_map_next_key")(self.address, key, ctypes.addressof(room))
            if result == -errno.ENOENT:
                return
            checked(result)
            key = room.raw[: self.spec.key_size]
            yield key

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Keys and values (of a per-CPU map: CPU 0's) in the order of `keys`."""
        for key in self.keys():
            value = self.lookup(key)
            if value is not None:
                yield key, value

    def push(self, value: bytes, flags: int = ANY) -> None:
        """Add to a queue, stack or Bloom filter; E2BIG where it is full and flags is not EXIST."""
        self._may(_RDONLY, "writing")
        if len(value) != self.spec.value_size:
            raise OSError(errno.EINVAL, f"values must have {self.spec.value_size} bytes")
        checked(command("user_map_push")(self.address, value, flags))

    def pop(self) -> bytes | None:
        """Take the next value of a queue or stack, None where it is empty."""
        return self._next("user_map_pop")

    def peek(self) -> bytes | None:
        """The next value of a queue or stack, which stays; None where it is empty."""
        return self._next("user_map_peek")

    def _next(self, name: str) -> bytes | None:
        room = ctypes.create_string_buffer(self.spec.value_size)
        result = command(name)(self.address, ctypes.addressof(room))
        if result == -errno.ENOENT:
            return None
        checked(result)
        return room.raw

    def might_contain(self, value: bytes) -> bool:
        """What a Bloom filter says of `value`: False is certain, True is not."""
        room = ctypes.create_string_buffer(value, self.spec.value_size)
        result = command("user_map_peek")(self.address, ctypes.addressof(room))
        if result == -errno.ENOENT:
            return False
        checked(result)
        return True

    def listen(self) -> None:
        """Take records from a perf event array; before, programs that write get ENOENT."""
        for index in range(min(self.spec.max_entries, self.nr_cpus)):
            self._update(index.to_bytes(4, "little"), (1).to_bytes(8, "little"), ANY)

    def drain(self) -> list[Record]:
        """Take all records of a ring buffer or perf event array, oldest first."""
        if self.spec.type not in (RINGBUF, PERF_EVENT_ARRAY):
            raise OSError(errno.EINVAL, f"{self.spec.type_name} holds no records")
        size, cpu = ctypes.c_uint32(), ctypes.c_uint32()
        records = []
        while address := command("user_map_take")(
            self.address, ctypes.addressof(size), ctypes.addressof(cpu)
        ):
            data = ctypes.string_at(address, size.value)
            records.append(Record(data, cpu.value if self.spec.type != RINGBUF else 0))
        return records

    def skip(self) -> None:
        """Give up all records of a ring buffer or perf event array, unread."""
        if self.spec.type not in (RINGBUF, PERF_EVENT_ARRAY):
            raise OSError(errno.EINVAL, f"{self.spec.type_name} holds no records")
        command("user_map_skip")(self.address)

    @property
    def lost_count(self) -> int:
        """Records of a perf event array that found no room."""
        return int(command("user_map_lost")(self.address))

    def close(self) -> None:
        """Give the memory back. No program may use the map any more."""
        # Whoever still holds `struct` keeps the mapping until that goes: never close() it.
        self.address = 0
        self.__dict__.pop("_struct", None)
        self.__dict__.pop("_memory", None)
        self._inner.clear()

    def __enter__(self) -> UserMap:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
