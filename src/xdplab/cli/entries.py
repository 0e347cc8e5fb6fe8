"""What maps hold at first, from a TOML or JSON file: map name -> key -> value."""

from __future__ import annotations

import ipaddress
import json
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from xdplab.engines.base import Entries
from xdplab.errors import UsageError
from xdplab.program import MapSpec, ObjectSpec

_BYTES = re.compile(r"hex:((?:[0-9a-f]{2})*)", re.IGNORECASE)
_MOST_BYTES = 64 << 20
INTERFACE = "if:"
"""What the name of an interface begins with, where its number is meant."""

_HOLDING = {"prog_array": "program", "array_of_maps": "map", "hash_of_maps": "map"}
"""Types of maps whose entries are named: what each holds."""

_NEVER = {
    "xskmap": "it holds AF_XDP sockets, which a program that is measured has none of "
    "(xdplab xsk-drop measures those)",
    "ringbuf": "programs write into it",
    "perf_event_array": "it holds perf events, and the measured programs have none",
    "queue": "it has no keys",
    "stack": "it has no keys",
    "bloom_filter": "it has no keys",
}
"""Types of maps that nothing can be put into by key, and why."""

Tables = Mapping[str, Mapping[str, Any]]

Interfaces = Callable[[str], int]
"""The number of an interface where programs will run. UsageError for one that is not there."""


def read_entries(path: Path) -> Tables:
    """The file's tables. UsageError where it cannot be read or is none."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise UsageError(f"{path} has more than {_MOST_BYTES >> 20} MiB; map entries take less")
        raw = path.read_bytes()
        text = raw.decode()
        data = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}. Give another file") from None
    except (ValueError, RecursionError) as error:
        kind = "JSON" if path.suffix == ".json" else "TOML (JSON ends in .json)"
        raise UsageError(f"{path} is no {kind}: {error}") from None
    if not isinstance(data, dict) or not all(isinstance(table, dict) for table in data.values()):
        raise UsageError(
            f'{path} must have a table for each map, of keys and values: {{"map": {{"0": 1}}}}'
        )
    return data


def placed(
    tables: Tables, spec: ObjectSpec, path: Path | None, interfaces: Interfaces
) -> tuple[ObjectSpec, dict[str, Entries]]:
    """The tables in those maps that the object has: the object with what its maps of programs and
    of maps hold besides, and the entries of all others.

    UsageError where something does not fit its map.
    """
    found: dict[str, Entries] = {}
    maps = dict(spec.maps)
    for name, table in tables.items():
        if name not in maps:
            continue
        of_map = maps[name]
        if of_map.type_name in _HOLDING:
            maps[name] = _holding(table, of_map, spec, path)
            continue
        if of_map.type_name in _NEVER:
            raise UsageError(
                f"{path}: the map {name} ({of_map.type_name}) takes no entries from a file: "
                f"{_NEVER[of_map.type_name]}"
            )
        is_by_interface = of_map.type_name.startswith("devmap")
        found[name] = [
            (
                _bytes(key, of_map.key_size, f"{path}: a key of {name}"),
                _bytes(
                    _numbered(value, interfaces) if is_by_interface else value,
                    of_map.value_size,
                    f"{path}: the value of {name} at {key}",
                ),
            )
            for key, value in table.items()
        ]
        _check_count(found[name], of_map, path)
    return replace(spec, maps=maps), found


def _numbered(value: object, interfaces: Interfaces) -> object:
    if isinstance(value, str) and value.startswith(INTERFACE):
        return interfaces(value.removeprefix(INTERFACE))
    return value


def _holding(
    table: Mapping[str, Any], of_map: MapSpec, spec: ObjectSpec, path: Path | None
) -> MapSpec:
    """A map of programs or of maps with what the table puts there, by the names of the object."""
    what = _HOLDING[of_map.type_name]
    known: Mapping[str, object] = spec.programs if what == "program" else spec.maps
    held = dict(of_map.values or {})
    for key, value in table.items():
        if not isinstance(value, str) or value not in known or value == of_map.name:
            there = ", ".join(sorted(name for name in known if name != of_map.name)) or "none"
            raise UsageError(
                f"{path}: the value of {of_map.name} at {key} is {value!r}; a {of_map.type_name} "
                f"holds each {what} by its name in this object. There are: {there}"
            )
        raw = _bytes(key, of_map.key_size, f"{path}: a key of {of_map.name}")
        slot = int.from_bytes(raw, "little")
        if of_map.type_name != "hash_of_maps" and slot >= of_map.max_entries:
            raise UsageError(
                f"{path}: {of_map.name} has no slot {key}; it has 0 to {of_map.max_entries - 1}"
            )
        held[slot] = value
    if len(held) > of_map.max_entries:
        raise UsageError(
            f"{path} has {len(held)} entries for {of_map.name}, which holds {of_map.max_entries}"
        )
    return replace(of_map, values=held)


def _check_count(entries: Entries, of_map: MapSpec, path: Path | None) -> None:
    if len(entries) > of_map.max_entries:
        raise UsageError(
            f"{path} has {len(entries)} entries for {of_map.name}, which holds {of_map.max_entries}"
        )


def _bytes(value: object, size_bytes: int, where: str) -> bytes:
    """A number (little-endian, as the program's own would be), an address, bytes as hex:..., or
    a list of them one behind the other, in just `size_bytes` bytes."""
    if isinstance(value, list):
        raw = b"".join(_part(part, where) for part in value)
    elif isinstance(value, int) and not isinstance(value, bool):
        return _number(value, size_bytes, where)
    elif isinstance(value, str) and re.fullmatch(r"-?(0x[0-9a-fA-F]+|[0-9]+)", value):
        return _number(int(value, 0), size_bytes, where)
    else:
        raw = _part(value, where)
    if len(raw) != size_bytes:
        raise UsageError(f"{where} has {len(raw)} bytes; there it must have {size_bytes}")
    return raw


def _number(value: int, size_bytes: int, where: str) -> bytes:
    try:
        return value.to_bytes(size_bytes, "little", signed=value < 0)
    except OverflowError:
        raise UsageError(f"{where} is {value}, which does not fit {size_bytes} bytes") from None


def _part(value: object, where: str) -> bytes:
    if isinstance(value, str):
        if found := _BYTES.fullmatch(value):
            return bytes.fromhex(found[1])
        try:
            # As it stands in a packet, and so in most keys.
            return ipaddress.ip_address(value).packed
        except ValueError:
            pass
        if re.fullmatch(r"([0-9a-f]{2}:){5}[0-9a-f]{2}", value, re.IGNORECASE):
            return bytes.fromhex(value.replace(":", ""))
        width = re.fullmatch(r"(u8|u16|u32|u64|be16|be32):(\d+)", value)
        if width:
            size = int(width[1].lstrip("ube")) // 8
            order = "big" if width[1].startswith("be") else "little"
            try:
                return int(width[2]).to_bytes(size, order)  # type: ignore[arg-type]
            except OverflowError:
                raise UsageError(f"{where}: {value} does not fit {size} bytes") from None
    raise UsageError(
        f"{where} is {value!r}: give a number, an address, hex:00ff..., or a list of these and of "
        "u8:N, u16:N, u32:N, u64:N, be16:N, be32:N"
    )
