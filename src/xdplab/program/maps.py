"""Map definitions: section .maps as BTF describes it.

libbpf's __uint(NAME, N) is a pointer to an array of N, __type(NAME, T) a pointer to T,
__ulong(NAME, N) an enum of the value N, __array(NAME, T) an array of pointers to T. Each
definition is a variable of a structure with such members.
"""

from __future__ import annotations

import bisect
import sys
from dataclasses import replace

from xdplab.errors import ObjectError
from xdplab.program import btf as kinds
from xdplab.program.btf import Btf, BtfType, Variable
from xdplab.program.spec import MapSpec

# enum bpf_map_type of the kernel's include/uapi/linux/bpf.h, in its order.
MAP_TYPE_NAMES = (
    "unspec",
    "hash",
    "array",
    "prog_array",
    "perf_event_array",
    "percpu_hash",
    "percpu_array",
    "stack_trace",
    "cgroup_array",
    "lru_hash",
    "lru_percpu_hash",
    "lpm_trie",
    "array_of_maps",
    "hash_of_maps",
    "devmap",
    "sockmap",
    "cpumap",
    "xskmap",
    "sockhash",
    "cgroup_storage",
    "reuseport_sockarray",
    "percpu_cgroup_storage",
    "queue",
    "stack",
    "sk_storage",
    "devmap_hash",
    "struct_ops",
    "ringbuf",
    "inode_storage",
    "task_storage",
    "bloom_filter",
    "user_ringbuf",
    "cgrp_storage",
    "arena",
    "insn_array",
)

_MAX_MEMBERS = 64
_NUMBERS = {
    "type": "type",
    "key_size": "key_size",
    "value_size": "value_size",
    "max_entries": "max_entries",
    "map_flags": "flags",
    "pinning": "pinning",
    "map_extra": "extra",
}


def read_maps(
    btf: Btf, variables: list[Variable], slots: list[tuple[int, str]]
) -> dict[str, MapSpec]:
    """The maps of data section .maps by name.

    `slots` are pairs of a byte offset of the section and the symbol that the source puts
    there.
    """
    slots = sorted(slots)
    found = {}
    # The slots of a map follow its definition, up to the next one: sizeof does not count
    # them, for `values` is a flexible array.
    starts = sorted(variable.offset_bytes for variable in variables)
    for variable in variables:
        definition = btf.resolve(variable.type)
        if definition is None or definition.kind != kinds.STRUCT:
            raise ObjectError(f"map {variable.name} is not defined by a structure")
        if definition.member_count > _MAX_MEMBERS:
            raise ObjectError(f"map {variable.name} has {definition.member_count} members")
        spec = _read(btf, variable.name, definition, allow_inner=True)
        following = bisect.bisect_right(starts, variable.offset_bytes)
        end = starts[following] if following < len(starts) else sys.maxsize
        values = _slot_values(btf, definition, slots, variable.offset_bytes, end)
        found[variable.name] = replace(spec, values=values) if values else spec
    return found


def _read(btf: Btf, name: str, definition: BtfType, *, allow_inner: bool) -> MapSpec:
    numbers: dict[str, int] = {}
    inner = None
    for member in btf.members(definition):
        if member.name in _NUMBERS:
            numbers[_NUMBERS[member.name]] = _number(btf, name, member.name, member.type)
        elif member.name in ("key", "value"):
            pointer = btf.resolve(member.type)
            if pointer is None or pointer.kind != kinds.PTR:
                raise ObjectError(f"map {name}: its {member.name} is not given by a pointer")
            numbers[f"{member.name}_size"] = btf.size_bytes(pointer.target)
        elif member.name == "values":
            inner = _inner(btf, name, member.type) if allow_inner else None
        else:
            raise ObjectError(f"map {name}: its definition has the unknown member {member.name!r}")
    number = numbers.get("type")
    if number is None:
        raise ObjectError(f"map {name}: its definition has no type")
    known = number < len(MAP_TYPE_NAMES)
    # An inner map's file descriptor and a program's are what such slots hold.
    if inner is not None or "values" in (member.name for member in btf.members(definition)):
        numbers.setdefault("key_size", 4)
        numbers.setdefault("value_size", 4)
    return MapSpec(
        name=name,
        type=number,
        type_name=MAP_TYPE_NAMES[number] if known else str(number),
        key_size=numbers.get("key_size", 0),
        value_size=numbers.get("value_size", 0),
        max_entries=numbers.get("max_entries", 0),
        flags=numbers.get("flags", 0),
        pinning=numbers.get("pinning", 0),
        extra=numbers.get("extra", 0),
        inner=inner,
    )


def _number(btf: Btf, name: str, member: str, number: int) -> int:
    found = btf.resolve(number)
    if found is not None and found.kind in (kinds.ENUM, kinds.ENUM64):
        return btf.enum_value(found)
    if found is not None and found.kind == kinds.PTR:
        array = btf.resolve(found.target)
        if array is not None and array.kind == kinds.ARRAY:
            return btf.array(array)[2]
    raise ObjectError(f"map {name}: its {member} is not a constant")


def _inner(btf: Btf, name: str, number: int) -> MapSpec | None:
    array = btf.resolve(number)
    pointer = btf.resolve(btf.array(array)[0]) if array and array.kind == kinds.ARRAY else None
    if pointer is None or pointer.kind != kinds.PTR:
        raise ObjectError(f"map {name}: its values are not an array of pointers")
    definition = btf.resolve(pointer.target)
    # An array of programs has pointers to functions instead.
    if definition is None or definition.kind != kinds.STRUCT:
        return None
    return _read(btf, f"{name}.inner", definition, allow_inner=False)


def _slot_values(
    btf: Btf, definition: BtfType, slots: list[tuple[int, str]], start: int, end: int
) -> dict[int, str]:
    first = next((m.offset_bytes for m in btf.members(definition) if m.name == "values"), None)
    if first is None:
        return {}
    first += start
    low = bisect.bisect_left(slots, first, key=lambda slot: slot[0])
    high = bisect.bisect_left(slots, end, key=lambda slot: slot[0])
    return {(offset - first) // 8: symbol for offset, symbol in slots[low:high]}
