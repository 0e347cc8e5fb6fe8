"""Linking and control flow: what is put together, and what is refused with its place."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.user.programs import EXIT, call, copy, linked, load, mov, object_of, store
from xdplab.errors import MissingFeatureError, NotPossibleError, ObjectError, UsageError
from xdplab.program import ObjectSpec, compile_object, read_object
from xdplab.program import insn as isa
from xdplab.program.insn import Insn
from xdplab.program.shipped import shipped_object
from xdplab.user.flow import find_blocks
from xdplab.user.link import DataRef, ExternRef, FunctionRef, LinkedProgram, link
from xdplab.user.options import Options
from xdplab.user.translate import translate


def test_a_program_comes_with_what_it_calls() -> None:
    found = link(shipped_object("adjust_head"), "loop_words")
    assert [function.name for function in found.functions] == ["loop_words", "clear_words"]
    start = found.functions[1].start
    assert FunctionRef(start) in found.references.values()
    assert found.sections == (".data",)
    assert "loop_words in clear_words, instruction 0 (xdplab.bpf.h:" in found.place(start)


def test_kfuncs_and_data_stay_names() -> None:
    found = link(shipped_object("packet_access"), "parse_ip_pull_data")
    assert ExternRef("bpf_xdp_pull_data", True) in found.references.values()
    assert (
        DataRef(".data", 0)
        in link(shipped_object("calibrate"), "multiply_chain").references.values()
    )


def test_an_unknown_program_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="no program 'nothing'. It has: multiply_chain"):
        link(shipped_object("calibrate"), "nothing")


def test_core_relocations_are_to_the_objects_own_types_and_so_already_done() -> None:
    spec = shipped_object("calibrate")
    program = replace(spec.programs["multiply_chain"], has_core_relocations=True)
    relocated = replace(spec, programs={"multiply_chain": program})
    assert link(relocated, "multiply_chain").insns == link(spec, "multiply_chain").insns


def test_a_call_without_relocation_is_refused() -> None:
    spec = shipped_object("adjust_head")
    program = replace(spec.programs["loop_call"], relocations=())
    changed = replace(spec, programs={"loop_call": program})
    with pytest.raises(ObjectError, match=r"instruction 2 \(adjust_head.bpf.c:\d+\)"):
        link(changed, "loop_call")


def test_blocks_are_cut_at_jumps_and_tail_calls() -> None:
    program = linked(
        [
            mov(0, 0),  # 0
            Insn(isa.JMP | isa.JEQ | isa.K, 1, 0, 2, 0),  # 1: to 4
            call(12),  # 2
            Insn(isa.JMP | isa.JA, off=-4),  # 3: to 0
            EXIT,  # 4
            mov(0, 7),  # 5: cannot be reached
        ]
    )
    blocks = find_blocks(program)
    assert [block.slots for block in blocks] == [(0, 1), (2,), (3,), (4,)]
    assert [block.successors for block in blocks] == [(2, 4), (3,), (0,), ()]
    assert [block.is_loop_head for block in blocks] == [True, False, False, False]


def refused(*insns: Insn, kind: type[Exception] = ObjectError) -> str:
    with pytest.raises(kind) as raised:
        translate(object_of(), linked([*insns]), Options())
    return str(raised.value)


def test_damaged_code_is_refused_with_its_place() -> None:
    assert "jumps out of its function" in refused(Insn(isa.JMP | isa.JA, off=5), EXIT)
    assert "made, instruction 0" in refused(Insn(isa.JMP | isa.JA, off=-9), EXIT)
    assert "goes on behind its end" in refused(mov(0, 1))
    assert "the second half of a 64-bit load" in refused(
        Insn(isa.JMP | isa.JEQ, 1, off=1), Insn(isa.LD_IMM64, 2), Insn(0), EXIT
    )
    assert "refers to what is no subprogram" in refused(
        Insn(isa.JMP | isa.CALL, src=1, imm=-1), EXIT
    )
    assert "no instruction" in refused(Insn(0xFF), EXIT)
    assert "no instruction" in refused(Insn(isa.ALU64 | isa.MOV | isa.X, 1, 2, off=7), EXIT)
    assert "no register above r10" in refused(copy(12, 1), EXIT)
    assert "frame pointer" in refused(mov(10, 1), EXIT)
    assert "writes to the context" in refused(store(isa.W, 1, 0, 2), EXIT)
    assert "outside of the stack" in refused(store(isa.DW, 10, 0, 1), EXIT)
    assert "legacy packet loads" in refused(Insn(0x20), EXIT, kind=NotPossibleError)
    assert "offset 24 of the context" in refused(load(isa.W, 2, 1, 24), EXIT, kind=NotPossibleError)
    assert "2 bytes at offset 0" in refused(load(isa.H, 2, 1, 0), EXIT, kind=NotPossibleError)


def test_a_helper_that_the_engine_lacks_is_named() -> None:
    text = refused(call(9999), EXIT, kind=MissingFeatureError)
    assert "helper 9999, which the user-space engine does not have" in text


KSYM = """\
#include <linux/bpf.h>
#define SEC(name) __attribute__((section(name), used))
extern int bpf_no_such_kfunc(struct xdp_md *ctx)
	__attribute__((section(".ksyms"), weak));
SEC("xdp") int asks(struct xdp_md *ctx)
{
	return bpf_no_such_kfunc ? bpf_no_such_kfunc(ctx) : 2;
}
SEC("xdp") int calls(struct xdp_md *ctx)
{
	return bpf_no_such_kfunc(ctx);
}
"""


def test_a_weak_kfunc_may_be_asked_for(tmp_path: Path) -> None:
    source = tmp_path / "weak.bpf.c"
    source.write_text(KSYM)
    spec: ObjectSpec = read_object(compile_object(source))
    program: LinkedProgram = link(spec, "asks")
    translate(spec, program, Options())
    with pytest.raises(MissingFeatureError, match="kfunc bpf_no_such_kfunc"):
        translate(spec, link(spec, "calls"), Options())
