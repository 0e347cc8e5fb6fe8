"""Damaged, hostile and random objects: one ObjectError, soon, or a sound result."""

from __future__ import annotations

import os
import struct
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.program.elfwriter import (
    ALLOC,
    EXEC,
    EXIT_0,
    FUNC,
    GLOBAL,
    NOBITS,
    PROGBITS,
    REL,
    ElfWriter,
    SectionData,
    btf_section,
    btf_type,
)
from xdplab.errors import ObjectError
from xdplab.program import decode, disassemble, read_object

LONGEST_S = 1.0
MOST_BYTES = 200 << 20


def read_soundly(raw: bytes) -> str | None:
    """The error's message, or None where `raw` is read; fails where it takes too long."""
    start = time.perf_counter()
    message = None
    try:
        spec = read_object(raw)
    except ObjectError as error:
        message = str(error)
        assert message.startswith("Reading an object: ")
    else:
        for program in (*spec.programs.values(), *spec.subprograms.values()):
            assert len(disassemble(decode(program.insns))) == program.insn_count
            assert all(0 <= r.insn_index < program.insn_count for r in program.relocations)
        for variable in spec.globals.values():
            assert len(variable.initial) == variable.size_bytes
            if variable.encoding != "float":
                assert variable.encode(variable.decode(variable.initial)) is not None
    assert time.perf_counter() - start < LONGEST_S
    return message


def test_the_writer_writes_sound_objects() -> None:
    assert read_object(ElfWriter().program().build()).programs["prog"].insns == EXIT_0


def program_with(*sections: SectionData) -> bytes:
    """A sound program with these sections after its code, which is section 1."""
    writer = ElfWriter().program()
    writer.sections += sections
    return writer.build()


def code(data: bytes, **changes: int) -> bytes:
    """An object whose program is `data`; the symbol's value and size may be changed."""
    writer = ElfWriter([SectionData("xdp", PROGBITS, ALLOC | EXEC, data)])
    value, size = changes.get("value", 0), changes.get("size", len(data))
    writer.symbols = [("prog", GLOBAL | FUNC, 1, value, size)]
    return writer.build()


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "it is empty"),
        (b"#include <linux/bpf.h>\n", "it is not an ELF file"),
        (b"\x7fELF\x02\x01", "it is truncated"),
        (ElfWriter(word_size=1).program().build(), "it is not a 64-bit ELF file"),
        (ElfWriter(byte_order=2).program().build(), "it is big-endian"),
        (ElfWriter(byte_order=7).program().build(), "its byte order 7"),
        (ElfWriter(machine=62).program().build(), "machine 62, not for BPF"),
        (ElfWriter(kind=2).program().build(), "of type 2, not a relocatable object"),
        (ElfWriter().build(), "it has no program"),
        (ElfWriter().program(section=".text").build(), "it has no program"),
        (program_with(SectionData("maps", data=bytes(20))), "in the legacy section `maps`"),
        (program_with(SectionData(".maps", data=bytes(20))), "described by BTF, which it lacks"),
        (program_with(SectionData("license", NOBITS, size=9)), "has no bytes in the file"),
        (program_with(SectionData("license", offset=1 << 40, size=4)), "truncated or damaged"),
        (program_with(SectionData(".BTF", data=b"")), "section .BTF is truncated"),
        (program_with(SectionData(".BTF", data=bytes(24))), "BTF's magic number"),
        (program_with(btf_section(btf_type(25))), "unknown kind 25"),
        (program_with(btf_section(btf_type(4, count=9))), "BTF types are truncated"),
        (program_with(SectionData(".bss", NOBITS, ALLOC, size=1 << 40)), "data sections have more"),
        (code(EXIT_0, size=12), "a part of an instruction"),
        (code(EXIT_0, value=8), "would be bytes 8 to 24"),
        (code(EXIT_0, size=1 << 62), "would be bytes 0 to"),
        (code(struct.pack("<BBhi", 0x85, 0x10, 0, 5) + EXIT_0), "where no function is"),
    ],
)
def test_each_kind_of_damage_has_its_reason(raw: bytes, reason: str) -> None:
    message = read_soundly(raw)
    assert message is not None
    assert reason in message


@pytest.mark.parametrize(
    ("symbol", "relocation", "reason"),
    [
        (0, 10, "has a relocation of type 10"),
        (9, 1, "refers to symbol 9 of"),
        (0, 1, "a symbol without a name"),
    ],
)
def test_relocations_are_checked(symbol: int, relocation: int, reason: str) -> None:
    load = struct.pack("<BBhiBBhi", 0x18, 1, 0, 0, 0, 0, 0, 0)
    writer = ElfWriter([SectionData("xdp", PROGBITS, ALLOC | EXEC, load + EXIT_0)])
    entry = struct.pack("<QII", 0, relocation, symbol)
    writer.sections.append(SectionData(".relxdp", REL, data=entry, link=3, info=1))
    writer.symbols = [("prog", GLOBAL | FUNC, 1, 0, 32)]
    message = read_soundly(writer.build())
    assert message is not None
    assert reason in message


def test_paths_that_are_no_files(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    large = tmp_path / "large.bpf.o"
    with large.open("wb") as file:
        file.truncate(1 << 40)
    for path, reason in (
        (tmp_path / "absent.bpf.o", "No such file or directory. Check the path"),
        (tmp_path, "it is a directory"),
        (pipe, "it is not a regular file"),
        (Path("/dev/zero"), "it is not a regular file"),
        (large, "at most"),
        (Path("nul\0byte"), "embedded null byte"),
    ):
        with pytest.raises(ObjectError, match=f"^Reading .*: .*{reason}"):
            read_object(path)


def many_names() -> bytes:
    writer = ElfWriter(section_names=b"\0" + b"A" * (8 << 20)).program()
    writer.sections += [SectionData("x") for _ in range(4000)]
    return writer.build()


def many_symbols_on_one_name() -> bytes:
    writer = ElfWriter(symbol_names=b"\0" + b"A" * 65536 + b"\0").program()
    writer.symbols += [("", GLOBAL, 0, 0, 0)] * 60000
    raw = bytearray(writer.build())
    # Every symbol's name begins one byte later, so that no two are the same string.
    start = raw.index(struct.pack("<IBBHQQ", 1, GLOBAL | FUNC, 0, 1, 0, 16))
    for number in range(60000):
        struct.pack_into("<I", raw, start + 24 * number, 1 + number)
    return bytes(raw)


def overlapping_functions() -> bytes:
    body = EXIT_0 * 250_000
    writer = ElfWriter([SectionData("xdp", PROGBITS, ALLOC | EXEC, body)])
    writer.symbols = [(f"f{n}", GLOBAL | FUNC, 1, 0, len(body)) for n in range(60000)]
    return writer.build()


def sections_on_the_same_bytes() -> bytes:
    writer = ElfWriter([SectionData("xdp", PROGBITS, ALLOC | EXEC, EXIT_0 * 200_000)])
    for _ in range(4000):
        shared = SectionData("x", PROGBITS, ALLOC | EXEC, size=3_200_000, offset=64)
        writer.sections.append(shared)
    writer.symbols = [("prog", GLOBAL | FUNC, 1, 0, 16)]
    return writer.build()


def many_calls() -> bytes:
    return code(struct.pack("<BBhi", 0x85, 0x10, 0, -1) * 900_000)


def many_types() -> bytes:
    return program_with(btf_section(btf_type(2, target=1) * 300_000))


def endless_types() -> bytes:
    # 1: const -> 2: typedef -> 1, and a variable of it in a data section.
    types = btf_type(10, target=2) + btf_type(8, 1, target=1)
    types += btf_type(14, 1, target=1, extra=bytes(4))
    types += btf_type(15, 3, 1, 4, struct.pack("<III", 3, 0, 4))
    data = SectionData(".data", PROGBITS, ALLOC, bytes(4))
    return program_with(data, btf_section(types, b"\0a\0.data\0"))


def overlapping_variables() -> bytes:
    size = 8 << 20
    types = btf_type(1, 1, target=4, extra=struct.pack("<I", 32))
    types += btf_type(14, 1, target=1, extra=bytes(4))
    types += btf_type(15, 3, 16000, size, struct.pack("<III", 2, 0, size) * 16000)
    bss = SectionData(".bss", NOBITS, ALLOC, size=size)
    return program_with(bss, btf_section(types, b"\0a\0.bss\0"))


def long_type_names() -> bytes:
    count = 16000
    types = btf_type(1, 1, target=0, extra=struct.pack("<I", 32))
    types += btf_type(14, 1, target=1, extra=bytes(4))
    entries = b"".join(struct.pack("<III", 2, 0, 0) for _ in range(count))
    types += btf_type(15, 4002, count, 0, entries)
    data = SectionData(".data", PROGBITS, ALLOC, bytes(4))
    return program_with(data, btf_section(types, b"\0" + b"A" * 4000 + b"\0.data\0"))


def many_maps() -> bytes:
    types = btf_type(4, 1, 65535, 0, struct.pack("<III", 1, 0, 0) * 65535)
    types += btf_type(14, 1, target=1, extra=bytes(4))
    types += btf_type(15, 3, 16000, 0, struct.pack("<III", 2, 0, 0) * 16000)
    return program_with(SectionData(".maps", data=bytes(8)), btf_section(types, b"\0a\0.maps\0"))


def many_lines() -> bytes:
    lines = struct.pack("<IIII", 0, 1, 1, 1 << 10) * 200_000
    block = struct.pack("<I", 16) + struct.pack("<II", 3, 200_000) + lines
    header = struct.pack("<HBBIIIII", 0xEB9F, 1, 0, 24, 0, 0, 0, len(block))
    btf = btf_section(b"", b"\0a\0xdp\0")
    return program_with(btf, SectionData(".BTF.ext", data=header + block))


def many_relocations() -> bytes:
    writer = ElfWriter().program()
    entries = struct.pack("<QII", 0, 10, 1) * 500_000
    writer.sections.append(SectionData(".relxdp", REL, data=entries, info=1))
    return writer.build()


@pytest.mark.parametrize(
    "build",
    [
        many_names,
        many_symbols_on_one_name,
        overlapping_functions,
        sections_on_the_same_bytes,
        many_calls,
        many_types,
        endless_types,
        overlapping_variables,
        long_type_names,
        many_maps,
        many_lines,
        many_relocations,
    ],
)
def test_hostile_objects_cost_little(build: Callable[[], bytes]) -> None:
    raw = build()
    message = read_soundly(raw)
    # Tracing slows reading down, so time and memory are measured apart.
    tracemalloc.start()
    try:
        assert read_error(raw) == message
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MOST_BYTES


def read_error(raw: bytes) -> str | None:
    """The error's message, or None."""
    try:
        read_object(raw)
    except ObjectError as error:
        return str(error)
    return None


fuzz = settings(
    max_examples=400,
    deadline=None,
    # `compiled` is bytes and read only, so that examples may share it.
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
WORDS = st.sampled_from([0, 1, 2, 7, 8, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]) | st.integers(
    0, 0xFFFFFFFF
)


@fuzz
@given(changes=st.lists(st.tuples(st.integers(0, 1 << 30), st.integers(0, 255)), max_size=8))
def test_flipped_bytes(compiled: bytes, changes: list[tuple[int, int]]) -> None:
    raw = bytearray(compiled)
    for position, value in changes:
        raw[position % len(raw)] = value
    read_soundly(bytes(raw))


@fuzz
@given(changes=st.lists(st.tuples(st.integers(0, 1 << 30), WORDS), min_size=1, max_size=4))
def test_changed_words(compiled: bytes, changes: list[tuple[int, int]]) -> None:
    raw = bytearray(compiled)
    for position, value in changes:
        struct.pack_into("<I", raw, position % (len(raw) // 4) * 4, value)
    read_soundly(bytes(raw))


@fuzz
@given(position=st.integers(0, 1 << 30), word=WORDS)
def test_changed_headers(compiled: bytes, position: int, word: int) -> None:
    """Where the structure is: the ELF header, the section headers, .BTF's and symbols' words."""
    raw = bytearray(compiled)
    table = int.from_bytes(raw[40:48], "little")
    places = [*range(0, 64, 4), *range(table, len(raw) - 3, 4)]
    struct.pack_into("<I", raw, places[position % len(places)], word)
    read_soundly(bytes(raw))


@fuzz
@given(start=st.integers(0, 1 << 30), end=st.integers(0, 1 << 30))
def test_truncated_and_spliced(compiled: bytes, start: int, end: int) -> None:
    low, high = start % len(compiled), end % len(compiled)
    read_soundly(compiled[:low])
    read_soundly(compiled[:low] + compiled[high:])


@fuzz
@given(st.binary(max_size=512))
def test_random_tails(data: bytes) -> None:
    read_soundly(ElfWriter().program().build()[:64] + data)
