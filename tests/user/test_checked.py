"""Checked mode: what goes wrong is told with its place and bounds, and nothing worse happens."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest

from tests.user.programs import EXIT, add, call, copy, linked, load, mov, object_of, store, wide
from tests.user.sources import CHECKS
from xdplab.packets.frame import Frame
from xdplab.program import ObjectSpec, compile_object, read_object
from xdplab.program import insn as isa
from xdplab.program.insn import Insn
from xdplab.program.spec import MapSpec
from xdplab.user.abi import Fault
from xdplab.user.faults import FaultRecord
from xdplab.user.jit import compile_ir
from xdplab.user.link import MapRef
from xdplab.user.machine import Outcome, UserObject
from xdplab.user.options import Mode, Options

ROOT = Path(__file__).resolve().parents[2]
FRAME = Frame(bytes(range(64)))


@cache
def checks() -> ObjectSpec:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "checks.bpf.c")
        source.write_text(CHECKS)
        return read_object(compile_object(source), "checks")


def run(program: str, where: int = 0, mode: Mode = Mode.CHECKED) -> Outcome:
    with UserObject(checks(), Options(mode)) as owner:
        owner.budget = 100_000
        owner.write("where", where)
        return owner.program(program).run(FRAME)


def fault_of(outcome: Outcome) -> FaultRecord:
    assert outcome.fault is not None
    assert outcome.retval == 0
    return outcome.fault


def line_with(text: str) -> int:
    (found,) = [number for number, line in enumerate(CHECKS.splitlines(), 1) if text in line]
    return found


@pytest.mark.parametrize(
    ("program", "where", "kind", "text", "bounds"),
    [
        ("packet", 64, Fault.PACKET, "return data[where];", 64),
        ("packet", 1 << 31, Fault.PACKET, "return data[where];", 64),
        ("before", 0, Fault.PACKET, "data[-1] = 1;", 64),
        ("null", 0, Fault.NULL, "return *(char *)lookup", None),
        ("value", 20, Fault.MAP_VALUE, "return found[where];", 20),
        ("value", 4000, Fault.MAP_VALUE, "return found[where];", None),
        ("data", 4000, Fault.DATA, "return *(volatile int *)((char", None),
        ("constant", 0, Fault.DATA, "*(volatile int *)&fixed = 9;", None),
        ("stack", 5000, Fault.STACK, "room[where] = 1;", 512),
        ("number", 0, Fault.OTHER, "return *(char *)(long)0x1234", None),
        ("helper", 1000, Fault.STACK, "load_bytes(ctx, 0, room, where);", 512),
    ],
)
def test_a_fault_has_its_kind_line_and_bounds(
    program: str, where: int, kind: Fault, text: str, bounds: int | None
) -> None:
    fault = fault_of(run(program, where))
    assert fault.kind is kind
    assert fault.line is not None
    assert fault.line.line == line_with(text)
    assert f"checks.bpf.c:{fault.line.line}" in fault.message
    assert fault.program == program
    if bounds is not None:
        assert fault.high - fault.low == bounds
        inside = fault.low <= fault.address and fault.address + fault.size_bytes <= fault.high
        assert not inside
    assert fault.helper == ("xdp_load_bytes" if program == "helper" else "")


@pytest.mark.parametrize(
    ("program", "where"),
    [("packet", 63), ("value", 19), ("data", 12), ("helper", 16), ("stack", 15)],
)
def test_what_is_inside_is_no_fault(program: str, where: int) -> None:
    assert run(program, where).fault is None


def test_a_fault_is_over_with_its_packet() -> None:
    with UserObject(checks(), Options(Mode.CHECKED)) as owner:
        program = owner.program("packet")
        for where, faults in ((64, True), (3, False), (99, True), (63, False)):
            owner.write("where", where)
            outcome = program.run(FRAME)
            assert (outcome.fault is not None) is faults
            if not faults:
                assert outcome.retval == where


@pytest.mark.parametrize("mode", [Mode.CHECKED, Mode.COUNTED])
def test_a_program_that_never_ends_is_ended(mode: Mode) -> None:
    outcome = run("forever", mode=mode)
    assert fault_of(outcome).kind is Fault.BUDGET
    assert 99_000 < outcome.instructions <= 100_000


@pytest.mark.parametrize("mode", [Mode.CHECKED, Mode.COUNTED])
def test_calls_without_end_are_ended(mode: Mode) -> None:
    fault = fault_of(run("deep", mode=mode))
    assert fault.kind in (Fault.DEPTH, Fault.BUDGET)


def test_metadata_may_be_used_and_what_is_before_it_not() -> None:
    def reads(off: int) -> Outcome:
        program = linked([load(isa.W, 2, 1, 8), load(isa.B, 0, 2, off), EXIT])
        with UserObject(object_of(), Options(Mode.CHECKED)) as owner:
            return owner.add(program).run(Frame(bytes(64), metadata=b"\7\1\2\3"))

    assert reads(0).retval == 7
    assert reads(0).metadata == b"\7\1\2\3"
    assert fault_of(reads(-1)).kind is Fault.PACKET


def in_checked_mode(*insns: Insn | list[Insn], maps: tuple[MapSpec, ...] = ()) -> FaultRecord:
    flat = [one for part in insns for one in (part if isinstance(part, list) else [part])]
    references = {
        slot: MapRef(maps[0].name) for slot, insn in enumerate(flat) if insn.is_wide and insn.src
    }
    with UserObject(object_of(maps), Options(Mode.CHECKED)) as owner:
        return fault_of(owner.add(linked([*flat, EXIT], references=references)).run(FRAME))


ARRAY = MapSpec("array", 2, "array", 4, 8, 4)
A_MAP = [Insn(isa.LD_IMM64, 1, 1), Insn(0)]


def test_arguments_of_helpers_are_checked() -> None:
    on_stack = [copy(2, 10), add(2, -8)]
    ctx = in_checked_mode(mov(1, 5), mov(2, 0), call(44))
    assert (ctx.kind, ctx.helper) == (Fault.HELPER, "xdp_adjust_head")
    no_map = in_checked_mode(*on_stack, wide(1, 1 << 40), call(1))
    assert (no_map.kind, no_map.helper) == (Fault.HELPER, "map_lookup_elem")
    key = in_checked_mode(A_MAP, copy(2, 10), add(2, -2), call(1), maps=(ARRAY,))
    assert (key.kind, key.size_bytes) == (Fault.STACK, 4)
    value = in_checked_mode(
        A_MAP, on_stack, copy(3, 10), add(3, -4), mov(4, 0), call(2), maps=(ARRAY,)
    )
    assert (value.kind, value.size_bytes) == (Fault.STACK, 8)


@pytest.mark.parametrize(("off", "kind"), [(0, Fault.NULL), (4, Fault.NULL), (8, Fault.MAP_VALUE)])
def test_a_lookup_that_found_nothing_is_no_value(off: int, kind: Fault) -> None:
    key = 0 if kind is Fault.MAP_VALUE else 9
    fault = in_checked_mode(
        Insn(isa.ST | isa.W | isa.MEM, 10, 0, -4, key),
        *(A_MAP, copy(2, 10), add(2, -4), call(1)),
        *(add(0, off), load(isa.B, 0, 0, 0)),
        maps=(ARRAY,),
    )
    assert fault.kind is kind


def test_quick_code_has_the_same_faults() -> None:
    sizes: dict[bool, int] = {}
    for quick in (False, True):
        with UserObject(checks(), Options(Mode.CHECKED, quick=quick)) as owner:
            owner.write("where", 64)
            program = owner.program("packet")
            assert fault_of(program.run(FRAME)).kind is Fault.PACKET
            owner.write("where", 63)
            assert program.run(FRAME).retval == 63
            sizes[quick] = len(compile_ir(program.translation.ir, owner.options))
    assert sizes[True] > sizes[False]


HASH = MapSpec("hash", 1, "hash", 8, 16, 8)
PERCPU_HASH = MapSpec("percpu", 5, "percpu_hash", 8, 12, 8)


def touched(spec: MapSpec, off: int, *, is_typed: bool, cpu: int = 0) -> Outcome:
    """Eight bytes are written at `off` in a value, which the flow knows as one if `is_typed`."""
    lose = [] if is_typed else [Insn(isa.ALU64 | isa.MUL | isa.K, 0, imm=1)]
    insns = [
        *(*A_MAP, copy(2, 10), add(2, -8), call(1)),
        *(Insn(isa.JMP | isa.JEQ | isa.K, 0, 0, 2 + len(lose), 0), *lose),
        *(store(isa.DW, 0, off, 10), mov(0, 2), EXIT),
    ]
    start = [Insn(isa.ST | isa.DW | isa.MEM, 10, 0, -8, 7)]
    program = linked([*start, *insns], references={1: MapRef(spec.name)})
    with UserObject(object_of((spec,)), Options(Mode.CHECKED), nr_cpus=2) as owner:
        for key in range(8):
            owner.maps[spec.name].update(key.to_bytes(8, "little"), bytes(spec.value_size))
        owner.state.cpu = cpu
        return owner.add(program).run(FRAME)


@pytest.mark.parametrize("spec", [HASH, PERCPU_HASH])
@pytest.mark.parametrize("cpu", [0, 1])
@pytest.mark.parametrize("is_typed", [True, False])
def test_between_values_lie_keys_that_are_out_of_reach(
    spec: MapSpec, cpu: int, is_typed: bool
) -> None:
    last = spec.value_size - 8
    assert touched(spec, last, is_typed=is_typed, cpu=cpu).retval == 2
    for off in (-8, last + 1, last + 8):
        fault = fault_of(touched(spec, off, is_typed=is_typed, cpu=cpu))
        assert fault.kind is (Fault.MAP_VALUE if is_typed else Fault.OTHER)


def test_a_forged_dynptr_is_refused() -> None:
    fault = in_checked_mode(
        wide(2, 0x4142434445464748),
        store(isa.DW, 10, -16, 2),
        wide(2, 1 << 28 | 100),
        store(isa.DW, 10, -8, 2),
        copy(1, 10),
        add(1, -64),
        mov(2, 8),
        copy(3, 10),
        add(3, -16),
        mov(4, 0),
        mov(5, 0),
        call(201),
    )
    assert (fault.kind, fault.helper) == (Fault.HELPER, "dynptr_read")


def test_a_stack_access_below_is_a_fault() -> None:
    fault = in_checked_mode(mov(2, 1), store(isa.DW, 10, -520, 2))
    assert (fault.kind, fault.slot) == (Fault.STACK, 1)
    assert fault.high - fault.address == 520


def test_damaged_programs_never_crash() -> None:
    """In a process of its own: a crash would take the tests along."""
    result = subprocess.run(
        [sys.executable, "-m", "tests.user.fuzz", "7", "120"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    assert "'ended'" in result.stdout
    assert "'fault PACKET'" in result.stdout
