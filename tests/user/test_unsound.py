"""What no verifier would take, in checked mode: helpers and maps are out of its reach."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.user.programs import EXIT, add, call, copy, linked, mov, object_of, store, wide
from xdplab.errors import ObjectError, UsageError
from xdplab.packets.frame import Frame
from xdplab.program import insn as isa
from xdplab.program.insn import Insn, encode
from xdplab.program.spec import MapSpec, ProgramSpec, Relocation, RelocationKind
from xdplab.user import watchdog
from xdplab.user.abi import Fault
from xdplab.user.link import FunctionRef, MapRef, Reference, link
from xdplab.user.machine import Outcome, UserObject
from xdplab.user.options import Mode, Options

ROOT = Path(__file__).resolve().parents[2]
FRAME = Frame(bytes(range(64)))
A_MAP = [Insn(isa.LD_IMM64, 1, 1), Insn(0)]
ARRAY = MapSpec("array", 2, "array", 4, 8, 4)
HASH = MapSpec("hash", 1, "hash", 8, 16, 8)
RING = MapSpec("ring", 27, "ringbuf", 0, 0, 4096)


def run(insns: list[Insn], spec: MapSpec) -> Outcome:
    slot = next(slot for slot, insn in enumerate(insns) if insn.is_wide)
    with UserObject(object_of((spec,)), Options(Mode.CHECKED)) as owner:
        return owner.add(linked(insns, references={slot: MapRef(spec.name)})).run(FRAME)


@pytest.mark.parametrize(
    ("helper", "spec"),
    [(130, ARRAY), (131, ARRAY), (134, HASH), (198, ARRAY), (25, ARRAY), (51, ARRAY), (51, RING)],
)
def test_a_map_of_a_type_that_the_helper_does_not_take_is_refused(
    helper: int, spec: MapSpec
) -> None:
    first = [copy(6, 1), *A_MAP, copy(2, 1), copy(1, 6)] if helper == 25 else [*A_MAP, mov(2, 8)]
    insns = [
        *first,
        *([copy(2, 10), add(2, -8)] if helper == 130 else []),
        *(mov(3, 8 if helper == 130 else 0), copy(4, 10), add(4, -16), mov(5, 8)),
        *(call(helper), EXIT),
    ]
    fault = run(insns, spec).fault
    assert fault is not None
    assert fault.kind is Fault.HELPER


@pytest.mark.parametrize("kind", [b"%s", b"%pi4", b"%pi6", b"%pI6"])
@pytest.mark.parametrize("address", [0x123456789000, 1 << 63, (1 << 64) - 1])
def test_texts_do_not_read_where_the_program_may_not(kind: bytes, address: int) -> None:
    text = b"(" + kind + b")\0"
    insns = [
        *(*wide(2, int.from_bytes(text, "little")), store(isa.DW, 10, -16, 2)),
        *(copy(1, 10), add(1, -16), mov(2, len(text)), *wide(3, address)),
        *(mov(4, 0), mov(5, 0), call(6), EXIT),
    ]
    program = linked(insns)
    with UserObject(object_of(), Options(Mode.CHECKED)) as owner:
        outcome = owner.add(program).run(FRAME)
        assert outcome.fault is None
        (message,) = owner.host.take_trace()
    assert message.strip("()") in ("", "0.0.0.0", "0" * 32, ":".join(["0000"] * 8))


def test_a_string_ends_where_the_program_may_no_longer_read() -> None:
    insns = [
        *wide(2, int.from_bytes(b"%s.\0", "little")),
        *(store(isa.DW, 10, -16, 2), *wide(2, int.from_bytes(b"abcdefgh", "little"))),
        *(store(isa.DW, 10, -8, 2), copy(1, 10), add(1, -16), mov(2, 4), copy(3, 10), add(3, -3)),
        *(mov(4, 0), mov(5, 0), call(6), EXIT),
    ]
    with UserObject(object_of(), Options(Mode.CHECKED)) as owner:
        assert owner.add(linked(insns)).run(FRAME).fault is None
        (message,) = owner.host.take_trace()
    # Behind it lies the rest of the stacks, which may be read and is zero.
    assert message == "fgh."


@pytest.mark.parametrize("length", [0x3FFFFFFF, 5000, 17, 0])
def test_an_overwritten_record_length_stays_in_the_ring(length: int) -> None:
    insns = [
        *(*A_MAP, mov(2, 16), mov(3, 0), call(131), copy(6, 0)),
        *(Insn(isa.JMP | isa.JNE | isa.K, 0, 0, 1, 0), EXIT),
        *(copy(1, 6), mov(2, 0), call(132)),
        # The type is lost on the way, and with it the distance from the header.
        Insn(isa.ALU64 | isa.MUL | isa.K, 6, imm=1),
        *(Insn(isa.ST | isa.W | isa.MEM, 6, 0, -8, length), mov(0, 2), EXIT),
    ]
    with UserObject(object_of((RING,)), Options(Mode.CHECKED)) as owner:
        outcome = owner.add(linked(insns, references={0: MapRef("ring")})).run(FRAME)
        assert (outcome.fault, outcome.retval) == (None, 2)
        records = owner.maps["ring"].drain()
    assert sum(len(record.data) for record in records) <= 16


def test_a_dynptr_that_is_no_record_is_not_submitted() -> None:
    array = MapSpec("array", 2, "array", 4, 64, 2)
    insns = [
        *(*A_MAP, copy(2, 10), add(2, -8), Insn(isa.ST | isa.DW | isa.MEM, 10, 0, -8, 1), call(1)),
        *(Insn(isa.JMP | isa.JNE | isa.K, 0, 0, 1, 0), EXIT, copy(1, 0), copy(6, 0)),
        *(mov(2, 64), mov(3, 0), copy(4, 10), add(4, -32), call(197)),
        *(copy(1, 10), add(1, -32), mov(2, 0), call(199), mov(0, 2), EXIT),
    ]
    with UserObject(object_of((array,)), Options(Mode.CHECKED)) as owner:
        program = linked(insns, references={0: MapRef("array")})
        assert owner.add(program).run(FRAME).retval == 2
        assert owner.maps["array"].lookup(bytes(4)) == bytes(64)


def test_helpers_that_take_long_are_ended_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Walking over a map of a million empty buckets costs few instructions and much time."""
    monkeypatch.setattr(watchdog, "LIMIT_S", 0.05)
    large = MapSpec("hash", 1, "hash", 8, 8, 1 << 20)
    main = [
        *(*A_MAP, Insn(isa.LD_IMM64, 2, 4), Insn(0), mov(3, 0), mov(4, 0), call(164)),
        Insn(isa.JMP | isa.JA, off=-8),
    ]
    references: dict[int, Reference] = {0: MapRef("hash"), 2: FunctionRef(len(main))}
    program = linked(main, [mov(0, 0), EXIT], references=references)
    with UserObject(object_of((large,)), Options(Mode.CHECKED)) as owner:
        fault = owner.add(program).run(FRAME).fault
        assert fault is not None
        assert fault.kind is Fault.BUDGET


@pytest.mark.parametrize("kind", ["map", "data"])
def test_a_reference_to_what_the_object_has_not_is_refused(kind: RelocationKind) -> None:
    relocation = Relocation(0, "gone", "gone", 0, kind)
    insns = encode([*A_MAP, mov(0, 2), EXIT])
    program = ProgramSpec("made", "xdp", insns, (), (relocation,), is_subprogram=False)
    with pytest.raises(ObjectError, match="gone"):
        link(replace(object_of(), programs={"made": program}), "made")


def test_a_table_that_may_not_be_filled_is_refused() -> None:
    table = MapSpec("table", 3, "prog_array", 4, 4, 2, flags=1 << 3, values={0: "made"})
    program = ProgramSpec("made", "xdp", encode([*A_MAP, mov(0, 2), EXIT]), (), (
        Relocation(0, "table", ".maps", 0, "map"),), is_subprogram=False)  # fmt: skip
    spec = replace(object_of((table,)), programs={"made": program})
    with UserObject(spec, Options(Mode.CHECKED)) as owner, pytest.raises(UsageError, match="table"):
        owner.program("made")


def test_damaged_objects_never_crash() -> None:
    script = ROOT / "benchmarks" / "fuzz_objects.py"
    result = subprocess.run(
        [sys.executable, script, "--objects", "60", "--seed", "7"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert " 0 crashes" in result.stdout, result.stdout + result.stderr
    assert "exceptions" not in result.stdout
    assert "faults: PACKET" in result.stdout


def test_an_object_whose_function_was_spliced_to_nothing_is_damaged_further() -> None:
    script = ROOT / "benchmarks" / "fuzz_objects.py"
    result = subprocess.run(
        [sys.executable, script, "--one", "11003078"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    assert "packets" in result.stdout
