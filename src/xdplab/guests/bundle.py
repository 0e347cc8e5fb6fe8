"""What a guest is given: programs, maps, frames and rows, as the records that runner.c reads.

All numbers are little-endian u32, all parts padded to 8 bytes. A map, a program or a BTF is known
by its number among those of its kind; rows come last.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from xdplab.engines.base import Entries, LoadKey, Method, Subject
from xdplab.errors import NotPossibleError, ObjectError
from xdplab.guests.relocate import FixupKind, RelocatedProgram, relocate
from xdplab.program import MapSpec, ObjectSpec
from xdplab.program.uses import uses

CALLS = 5
"""Timed calls of a row. Under instruction counting all are equal but those that a tick falls into,
every four million instructions; a row's calls together are shorter."""

REPEAT = 1000
"""Runs of a call by the packet method: what begins and ends a call is then a thousandth."""

_MAP, _BTF, _PROG, _ROW, _SYMBOLS = 1, 2, 3, 4, 5
_BYTES, _MAPS, _PROGS = 0, 1, 2
_NONE = 0xFFFFFFFF
_PROG_ARRAY = 3
_ARRAY = 2
_RDONLY_PROG = 1 << 7
_XDP_HAS_FRAGS = 1 << 5

_RECORD = struct.Struct("<II")
_MAP_RECORD = struct.Struct("<10I16s")
_PROG_RECORD = struct.Struct("<6I16s")
_FIXUP = struct.Struct("<4I64s")
_FUNC = struct.Struct("<II")
_ROW_RECORD = struct.Struct("<14I")
_WINDOWS_AT = 12 * 4
_POKE = struct.Struct("<4I")


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a bundle: `number` is what the runner calls it, `prog` its program there."""

    number: int
    subject: Subject
    method: Method
    repeat: int
    prog: int


@dataclass(slots=True)
class Bundle:
    """Subjects made ready for any guest; those that cannot be are in `missing`, with the reason.

    Subjects of one group share a method. A subject's key is unique within its group, and `group`
    keeps those of several apart. `reports` names a global of the subject whose value is asked for
    behind its run.
    """

    rows: dict[tuple[str, str], Row] = field(default_factory=dict)
    missing: dict[tuple[str, str], str] = field(default_factory=dict)
    map_names: list[str] = field(default_factory=list)
    _records: list[bytes] = field(default_factory=list)
    _row_records: list[bytes] = field(default_factory=list)
    _progs: dict[tuple[str, LoadKey], int] = field(default_factory=dict)
    _prog_maps: dict[int, Mapping[str, int]] = field(default_factory=dict)
    _btfs: dict[bytes, int] = field(default_factory=dict)
    _prog_count: int = 0

    def add(
        self,
        group: str,
        subjects: Iterable[Subject],
        method: Method,
        reports: Mapping[str, str] | None = None,
    ) -> None:
        """Add a group's subjects."""
        for subject in subjects:
            place = (group, subject.key)
            if place in self.rows or place in self.missing:
                continue
            try:
                prog = self._prog(group, subject)
            except (NotPossibleError, ObjectError) as error:
                self.missing[place] = str(error)
                continue
            self._row(place, subject, method, prog, (reports or {}).get(subject.key))

    def encode(self, windows: int = 0) -> bytes:
        """The file /bundle of the guest.

        With `windows`, each row is run in so many pairs of windows besides, between markers and of
        one and two times its repeats, and the guest tells its kernel's functions.
        """
        if not windows:
            return b"".join((*self._records, *self._row_records))
        at = _RECORD.size + _WINDOWS_AT
        rows = [row[:at] + _word(windows) + row[at + 4 :] for row in self._row_records]
        return b"".join((*self._records, *rows, _record(_SYMBOLS, b"")))

    def _prog(self, group: str, subject: Subject) -> int:
        key = (group, subject.load_key)
        if key in self._progs:
            return self._progs[key]
        if subject.network is not None:
            raise NotPossibleError("the guest's runner makes no route, which it needs")
        spec = subject.bpf_object
        # What cannot be relocated must not leave maps behind that nobody has.
        relocated = relocate(spec, subject.program)
        programs, names = uses(spec, (subject.program,))
        others = {name: relocate(spec, name) for name in sorted(programs - {subject.program})}
        maps = self._maps(spec, sorted(names), [relocated, *others.values()], subject.entries)
        own = self._prog_count + len(others)
        numbers = {name: self._prog_count + place for place, name in enumerate(others)}
        numbers[subject.program] = own
        for name in sorted(names):
            one = spec.maps[name]
            if one.type == _PROG_ARRAY:
                values = [
                    (_word(slot), _word(numbers[held]))
                    for slot, held in (one.values or {}).items()
                    if held in numbers
                ]
                maps[name] = self._map(name, one, values, _PROGS)
        for program in (*others.values(), relocated):
            self._add_prog(program, maps)
        self._progs[key] = own
        self._prog_maps[own] = maps
        return own

    def _maps(
        self,
        spec: ObjectSpec,
        names: Sequence[str],
        programs: Sequence[RelocatedProgram],
        entries: Mapping[str, Entries],
    ) -> dict[str, int]:
        found: dict[str, int] = {}
        inners = {
            inner
            for name in names
            if spec.maps[name].inner is not None
            for inner in (spec.maps[name].values or {}).values()
        }
        # An inner map must be there before the one that holds it.
        for name in sorted(names, key=lambda name: (name not in inners, name)):
            one = spec.maps[name]
            if one.type == _PROG_ARRAY:
                continue
            if one.inner is not None:
                template = self._map(f"{name}.inner", one.inner, (), _BYTES)
                values = [
                    (_word(slot), _word(found[held])) for slot, held in (one.values or {}).items()
                ]
                found[name] = self._map(name, one, values, _MAPS, template)
            else:
                found[name] = self._map(name, one, entries.get(name, ()), _BYTES)
        wanted = {
            fixup.name
            for program in programs
            for fixup in program.fixups
            if fixup.kind is FixupKind.MAP and fixup.name not in spec.maps
        }
        for section in sorted(wanted):
            initial = spec.sections[section]
            is_constant = section.startswith(".rodata")
            layout = MapSpec(
                section.replace(".", "_"),
                _ARRAY,
                "array",
                4,
                len(initial),
                1,
                _RDONLY_PROG if is_constant else 0,
            )
            found[section] = self._map(
                section, layout, [(_word(0), initial)], _BYTES, freeze=is_constant
            )
        return found

    def _map(
        self,
        name: str,
        spec: MapSpec,
        entries: Entries,
        values: int,
        inner: int = _NONE,
        *,
        freeze: bool = False,
    ) -> int:
        number = len(self.map_names)
        self.map_names.append(name)
        sizes = (spec.type, spec.key_size, spec.value_size, spec.max_entries, spec.flags)
        kinds = (inner, int(freeze), len(entries), values, spec.extra & 0xFFFFFFFF)
        short = "".join(c if c.isalnum() else "_" for c in name)[:15].encode()
        self._records.append(
            _record(
                _MAP,
                _MAP_RECORD.pack(*sizes, *kinds, short)
                + b"".join(_padded(key) + _padded(value) for key, value in entries),
            )
        )
        return number

    def _add_prog(self, program: RelocatedProgram, maps: Mapping[str, int]) -> None:
        fixups = [
            _FIXUP.pack(
                one.slot,
                one.kind,
                maps[one.name] if one.kind is FixupKind.MAP else 0,
                int(one.weak),
                one.name.encode()[:63],
            )
            for one in program.fixups
        ]
        number = _NONE
        if program.btf:
            if program.btf not in self._btfs:
                self._btfs[program.btf] = len(self._btfs)
                sized = struct.pack("<II", len(program.btf), 0) + _padded(program.btf)
                self._records.append(_record(_BTF, sized))
            number = self._btfs[program.btf]
        sizes = (len(program.insns) // 8, len(fixups), len(program.func_info))
        flags = _XDP_HAS_FRAGS if program.takes_frags else 0
        self._records.append(
            _record(
                _PROG,
                _PROG_RECORD.pack(*sizes, flags, number, 0, program.name.encode()[:15])
                + program.insns
                + b"".join(_FUNC.pack(*pair) for pair in program.func_info)
                + b"".join(fixups),
            )
        )
        self._prog_count += 1

    def _row(
        self,
        place: tuple[str, str],
        subject: Subject,
        method: Method,
        prog: int,
        report: str | None,
    ) -> None:
        spec, frame, maps = subject.bpf_object, subject.frame, self._prog_maps[prog]
        pokes = []
        for name, value in subject.globals.items():
            variable = spec.globals[name]
            if variable.section in maps:
                data = variable.encode(value)
                where = (maps[variable.section], variable.offset_bytes, len(data), 0)
                pokes.append(_POKE.pack(*where) + _padded(data))
        asked = (_NONE, 0, 0)
        if report is not None:
            variable = spec.globals[report]
            asked = (maps[variable.section], variable.offset_bytes, variable.size_bytes)
        meta_bytes = len(frame.metadata)
        has_ctx = bool(meta_bytes) or frame.linear_bytes is not None
        linear = len(frame.data) if frame.linear_bytes is None else frame.linear_bytes
        repeat = 1 if method is Method.OPERATION else max(1, REPEAT // subject.operations)
        expected = _NONE if subject.action is None else subject.action
        data = frame.metadata + frame.data
        number = len(self._row_records)
        self._row_records.append(
            _record(
                _ROW,
                _ROW_RECORD.pack(
                    *(prog, repeat, CALLS, len(data), int(has_ctx), meta_bytes),
                    *(meta_bytes + linear, len(pokes), *asked, expected, 0, 0),
                )
                + _padded(data)
                + b"".join(pokes),
            )
        )
        self.rows[place] = Row(number, subject, method, repeat, prog)


def _record(kind: int, content: bytes) -> bytes:
    padded = _padded(content)
    return _RECORD.pack(kind, len(padded)) + padded


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)


def _word(number: int) -> bytes:
    return number.to_bytes(4, "little")
