"""What the dataflow knows of registers, and what it must not claim."""

from __future__ import annotations

from tests.user.programs import EXIT, add, call, copy, linked, load, mov, object_of, store
from xdplab.packets.frame import Frame
from xdplab.program import insn as isa
from xdplab.program.insn import Insn
from xdplab.program.spec import MapSpec
from xdplab.user.calls import call_effects
from xdplab.user.flow import find_blocks
from xdplab.user.flow_types import analyse
from xdplab.user.link import LinkedProgram, MapRef
from xdplab.user.machine import UserObject
from xdplab.user.options import Mode, Options
from xdplab.user.pointer_types import (
    Constant,
    Ctx,
    MapValue,
    MaybeCtx,
    Packet,
    PacketEnd,
    Stack,
    Types,
)

MAP = MapSpec("counts", 2, "array", 4, 8, 4)


def types_of(program: LinkedProgram) -> dict[int, Types]:
    effects = call_effects(program, {"counts": MAP})
    return dict(analyse(program, find_blocks(program), effects))


def at_exit(*insns: Insn) -> Types:
    program = linked([*insns, EXIT])
    return types_of(program)[len(insns)]


def test_pointers_are_followed() -> None:
    known = at_exit(
        load(isa.W, 2, 1, 0),
        load(isa.W, 3, 1, 4),
        load(isa.W, 4, 1, 8),
        copy(5, 2),
        add(5, 14),
        copy(6, 10),
        add(6, -16),
        store(isa.DW, 6, 8, 5),
        load(isa.DW, 7, 10, -8),
        mov(8, -1),
    )
    assert known[1] == Ctx()
    assert known[2] == Packet(0)
    assert known[3] == PacketEnd()
    assert known[4] == Packet(None)
    assert known[5] == known[7] == Packet(14)
    assert known[6] == Stack(-16)
    assert known[8] == Constant((1 << 64) - 1)


def test_a_part_of_a_slot_that_is_written_takes_its_type() -> None:
    known = at_exit(
        store(isa.DW, 10, -8, 1),
        Insn(isa.ST | isa.B | isa.MEM, 10, 0, -3, 1),
        load(isa.DW, 2, 10, -8),
    )
    assert known[2] is None


def test_a_lookup_gives_a_value_and_leaves_the_key() -> None:
    insns = [
        copy(6, 1),
        store(isa.DW, 10, -16, 6),
        Insn(isa.ST | isa.W | isa.MEM, 10, 0, -4, 0),
        copy(2, 10),
        add(2, -4),
        Insn(isa.LD_IMM64, 1, 1),
        Insn(0),
        call(1),
        load(isa.DW, 7, 10, -16),
        EXIT,
    ]
    known = types_of(linked(insns, references={5: MapRef("counts")}))[9]
    assert known[0] == MapValue("counts", 0)
    assert known[1] is None
    assert known[6] == known[7] == Ctx()


def test_a_place_in_a_value_is_followed_until_it_varies() -> None:
    lookup = [copy(2, 10), add(2, -4), Insn(isa.LD_IMM64, 1, 1), Insn(0), call(1)]
    insns = [
        Insn(isa.ST | isa.W | isa.MEM, 10, 0, -4, 0),
        *lookup,
        add(0, 4),
        Insn(isa.JMP | isa.JEQ | isa.K, 0, 0, 1, 0),
        add(0, 2),
        EXIT,
    ]
    known = types_of(linked(insns, references={3: MapRef("counts")}))
    assert known[7][0] == MapValue("counts", 4)
    assert known[9][0] == MapValue("counts", None)


def test_a_helper_that_writes_takes_types_away() -> None:
    insns = [
        copy(6, 1),
        store(isa.DW, 10, -16, 10),
        store(isa.DW, 10, -8, 6),
        mov(2, 0),
        copy(3, 10),
        add(3, -16),
        mov(4, 8),
        call(189),
        load(isa.DW, 7, 10, -16),
        load(isa.DW, 8, 10, -8),
    ]
    known = at_exit(*insns)
    assert known[7] is None
    assert known[8] == Ctx()
    insns[6] = load(isa.W, 4, 6, 12)
    assert at_exit(*insns)[8] == MaybeCtx()


def test_paths_that_disagree_leave_what_both_have() -> None:
    known = at_exit(
        copy(3, 10),  # 0
        copy(4, 1),
        load(isa.W, 2, 1, 0),
        Insn(isa.JMP | isa.JEQ, 2, off=3),
        add(3, -8),
        mov(4, 7),
        add(2, 4),
    )
    assert known[2] == Packet(None)
    assert known[3] == Stack(None)
    assert known[4] == MaybeCtx()


def test_a_loop_comes_to_an_end() -> None:
    known = at_exit(
        load(isa.W, 2, 1, 0),
        mov(3, 0),
        add(2, 1),
        add(3, 1),
        Insn(isa.JMP | isa.JLT | isa.K, 3, 0, -3, 9),
    )
    assert known[2] == Packet(None)
    assert known[3] is None


def test_the_context_is_found_again_behind_a_join() -> None:
    """The verifier walks paths, so that it takes what here is the context on one path alone."""
    program = linked(
        [
            copy(4, 1),
            load(isa.W, 5, 1, 16),
            mov(3, 0),
            Insn(isa.JMP | isa.JEQ | isa.K, 5, 0, 2, 0),
            mov(3, 1),
            mov(4, 7),
            mov(0, 5),
            Insn(isa.JMP | isa.JEQ | isa.K, 3, 0, 1, 1),
            load(isa.W, 0, 4, 12),
            EXIT,
        ]
    )
    assert types_of(program)[8][4] == MaybeCtx()
    for mode in Mode:
        with UserObject(object_of(), Options(mode)) as owner:
            loaded = owner.add(program)
            assert loaded.run(Frame(bytes(64)), ingress_ifindex=77).retval == 77
            assert loaded.run(Frame(bytes(64)), rx_queue_index=1).retval == 5
