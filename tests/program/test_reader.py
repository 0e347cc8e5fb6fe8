"""What a real object says is what the reader finds."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile

from xdplab.errors import ObjectError, UsageError
from xdplab.program import ObjectSpec, Relocation, compile_object, decode, read_object
from xdplab.program.elf import ElfFile
from xdplab.program.insn import LD_IMM64


def test_entry_programs_and_subprograms(everything: ObjectSpec) -> None:
    assert {name: spec.section for name, spec in everything.programs.items()} == {
        "main_prog": "xdp",
        "tail": "xdp.frags",
    }
    assert set(everything.subprograms) == {"visible", "local", "callback"}
    assert all(spec.is_subprogram for spec in everything.subprograms.values())
    assert everything.license == "GPL"
    assert everything.programs["tail"].insn_count == 2
    assert not everything.programs["main_prog"].has_core_relocations


def test_maps(everything: ObjectSpec) -> None:
    maps = everything.maps
    assert set(maps) == {"counts", "hashed", "one", "two", "outer", "jumps"}
    counts = maps["counts"]
    assert (counts.type_name, counts.key_size, counts.value_size, counts.max_entries) == (
        "array",
        4,
        8,
        4,
    )
    hashed = maps["hashed"]
    assert (hashed.type_name, hashed.key_size, hashed.value_size) == ("hash", 6, 12)
    assert (hashed.flags, hashed.pinning) == (1, 1)
    outer = maps["outer"]
    assert outer.values == {0: "one", 2: "two"}
    assert (outer.type_name, outer.value_size) == ("array_of_maps", 4)
    assert outer.inner is not None
    assert (outer.inner.type_name, outer.inner.value_size, outer.inner.max_entries) == (
        "array",
        8,
        2,
    )
    assert maps["jumps"].values == {1: "tail"}
    assert maps["jumps"].inner is None


@pytest.mark.parametrize(
    ("name", "section", "type_name", "encoding", "value"),
    [
        ("packets", ".bss", "__u32", "uint", 0),
        ("limit", ".data", "__u64", "uint", 500),
        ("bias", ".rodata", "const volatile __s16", "int", -3),
        ("ceiling", ".rodata", "const volatile __u32", "uint", 11),
        ("enabled", ".data", "_Bool", "bool", 1),
        ("ratio", ".bss", "double", "float", 0.0),
        ("mode", ".data", "enum mode", "int", 3),
        ("last", ".data", "struct pair", "bytes", b"\1\0\0\0\2\0\0\0"),
        ("mac", ".bss", "__u8[6]", "bytes", bytes(6)),
        ("where", ".bss", "void *", "uint", 0),
        ("tuned", ".data.tuning", "__s64", "int", 9),
        ("hidden", ".data", "__u32", "uint", 77),
    ],
)
def test_globals(
    everything: ObjectSpec, name: str, section: str, type_name: str, encoding: str, value: object
) -> None:
    spec = everything.globals[name]
    assert (spec.section, spec.type_name, spec.encoding) == (section, type_name, encoding)
    assert spec.decode(spec.initial) == value
    start = spec.offset_bytes
    assert everything.sections[section][start : start + spec.size_bytes] == spec.initial


def test_global_values_round_trip_and_are_checked(everything: ObjectSpec) -> None:
    bias, limit = everything.globals["bias"], everything.globals["limit"]
    assert bias.decode(bias.encode(-32768)) == -32768
    assert everything.globals["ratio"].encode(1) == everything.globals["ratio"].encode(1.0)
    for spec, value in (
        (bias, 40000),
        (limit, -1),
        (limit, b"12345678"),
        (limit, 1.5),
        (everything.globals["enabled"], 2),
        (everything.globals["mac"], b"short"),
        (everything.globals["ratio"], b"12345678"),
    ):
        with pytest.raises(UsageError, match=f"Setting the variable {spec.name} .* Give "):
            spec.encode(value)
    with pytest.raises(UsageError, match="3 bytes were given"):
        limit.decode(b"abc")


def test_externs(everything: ObjectSpec) -> None:
    assert {(e.name, e.kind, e.weak) for e in everything.externs.values()} == {
        ("bpf_needed", "kfunc", False),
        ("bpf_wanted", "kfunc", True),
        ("a_symbol", "ksym", True),
    }


def test_relocations_name_what_instructions_refer_to(everything: ObjectSpec) -> None:
    main = everything.programs["main_prog"]
    found = {(r.kind, r.symbol, r.section) for r in main.relocations}
    assert {
        ("map", "counts", ".maps"),
        ("map", "outer", ".maps"),
        ("data", "limit", ".data"),
        ("data", "packets", ".bss"),
        ("data", "hidden", ".data"),
        ("data", "tuned", ".data.tuning"),
        ("extern", "bpf_needed", ""),
        ("extern", "bpf_wanted", ""),
        ("extern", "a_symbol", ""),
        ("call", "visible", ".text"),
        ("call", "local", ".text"),
        ("func", "callback", ".text"),
    } == found
    insns = decode(main.insns)
    for relocation in main.relocations:
        code = insns[relocation.insn_index].code
        assert code == (LD_IMM64 if relocation.kind in ("map", "data", "func") else code)
        assert code in (LD_IMM64, 0x85)
        if relocation.kind == "data":
            assert relocation.addend == everything.globals[relocation.symbol].offset_bytes
    # Within .text no ELF relocation is needed, but the call is listed all the same.
    calls = [r for r in everything.subprograms["callback"].relocations if r.kind == "call"]
    assert calls == [Relocation(calls[0].insn_index, "visible", ".text", 0, "call")]


def test_line_info(everything: ObjectSpec) -> None:
    lines = everything.programs["main_prog"].line_info
    assert lines[0].insn_index == 0
    assert [line.insn_index for line in lines] == sorted(line.insn_index for line in lines)
    assert any(line.text == "packets++;" for line in lines)
    assert {line.file for line in lines} == {"everything.bpf.c", "common.h"}
    header = next(line for line in lines if line.file == "common.h")
    assert header.text == 'asm volatile("%0 += 1" : "+r"(x));'


def test_agrees_with_pyelftools(compiled: bytes) -> None:
    ours = ElfFile(compiled)
    theirs: Any = ELFFile(io.BytesIO(compiled))
    assert [(s.name, s.size) for s in ours.sections] == [
        (s.name, s["sh_size"]) for s in theirs.iter_sections()
    ]
    assert [(s.name, s.value, s.size) for s in ours.symbols] == [
        # pyelftools gives a section's symbol the section's name.
        (s.name if s["st_info"]["type"] != "STT_SECTION" else "", s["st_value"], s["st_size"])
        for s in theirs.get_section_by_name(".symtab").iter_symbols()
    ]
    code = ours.find("xdp")
    assert code is not None
    assert [tuple(r) for r in ours.relocations(code)] == [
        (r["r_offset"], r["r_info_type"], r["r_info_sym"])
        for r in theirs.get_section_by_name(".relxdp").iter_relocations()
    ]


def test_a_path_gives_the_name(compiled: bytes, tmp_path: Path) -> None:
    path = tmp_path / "adjust.bpf.o"
    path.write_bytes(compiled)
    assert read_object(path).name == "adjust"
    assert read_object(path, "other").name == "other"


def test_without_btf_programs_are_still_read(compiled: bytes, tmp_path: Path) -> None:
    source = tmp_path / "plain.bpf.c"
    source.write_text('__attribute__((section("xdp"))) int prog(void *ctx) { return 2; }\n')
    raw = compile_object(source).replace(b".BTF\0", b".XXX\0")
    spec = read_object(raw)
    assert spec.programs["prog"].line_info == ()
    assert spec.globals == {}
    with pytest.raises(ObjectError, match="described by BTF, which it lacks"):
        read_object(compiled.replace(b".BTF\0", b".XXX\0"))


def test_core_relocations_are_seen(tmp_path: Path) -> None:
    source = tmp_path / "core.bpf.c"
    source.write_text(
        "struct s { int a, b; } __attribute__((preserve_access_index));\n"
        '__attribute__((section("xdp"))) int prog(struct s *s) { return s->b; }\n'
        '__attribute__((section("tc"))) int other(void *ctx) { return 0; }\n'
    )
    programs = read_object(compile_object(source)).programs
    assert programs["prog"].has_core_relocations
    assert not programs["other"].has_core_relocations
