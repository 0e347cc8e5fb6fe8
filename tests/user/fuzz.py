"""Runs damaged programs in checked mode, in a process of its own: whatever they are, it lives.

    python -m tests.user.fuzz SEED COUNT

Prints how many programs were translated, refused, faulted and ended by themselves.
"""

from __future__ import annotations

import random
import sys
from collections import Counter

from tests.user.programs import (
    RandomProgram,
    add,
    call,
    copy,
    linked,
    mov,
    object_of,
    store,
)
from xdplab.errors import XdplabError
from xdplab.packets.frame import Frame
from xdplab.program import insn as isa
from xdplab.program.insn import Insn
from xdplab.program.spec import MapSpec
from xdplab.user.link import DataRef, ExternRef, LinkedProgram, MapRef, Reference
from xdplab.user.machine import UserObject
from xdplab.user.options import Mode, Options
from xdplab.user.prototypes import HELPERS, KFUNCS

MAPS = (
    MapSpec("array", 2, "array", 4, 24, 8),
    MapSpec("hash", 1, "hash", 8, 16, 32),
    MapSpec("lpm", 11, "lpm_trie", 8, 16, 32, 1),
    MapSpec("queue", 22, "queue", 0, 8, 4),
    MapSpec("ring", 27, "ringbuf", 0, 0, 4096),
)
SECTIONS = {".data": bytes(range(64)), ".rodata": b"text\0" * 4}


def main(seed: int, count: int) -> None:
    """Run `count` programs and print what became of them."""
    found: Counter[str] = Counter()
    for number in range(count):
        found.update(one(random.Random(seed * 1_000_003 + number)))
    print(dict(sorted(found.items())))


def one(pick: random.Random) -> Counter[str]:
    """One program, a few packets."""
    kind = pick.choice((mutated, noise, pointers))
    program = kind(pick)
    with UserObject(object_of(MAPS, SECTIONS), Options(Mode.CHECKED), seed=1) as owner:
        owner.budget = 20_000
        try:
            loaded = owner.add(program)
        except XdplabError:
            return Counter(refused=1)
        found = Counter(translated=1)
        for _ in range(3):
            outcome = loaded.run(Frame(pick.randbytes(pick.choice((14, 64, 100, 1500)))))
            fault = outcome.fault
            assert not fault or outcome.retval == 0
            found[f"fault {fault.kind.name}" if fault else "ended"] += 1
        return found


def mutated(pick: random.Random) -> LinkedProgram:
    """A sound program with a few fields changed."""
    program = RandomProgram(pick.getrandbits(32), pick.randint(3, 25)).program
    insns = list(program.insns)
    for _ in range(pick.randint(1, 6)):
        slot = pick.randrange(len(insns))
        insns[slot] = _changed(pick, insns[slot])
    return LinkedProgram(
        program.object_name,
        program.name,
        tuple(insns),
        program.functions,
        program.references,
        program.lines,
    )


def _changed(pick: random.Random, insn: Insn) -> Insn:
    code, dst, src, off, imm = insn.code, insn.dst, insn.src, insn.off, insn.imm
    match pick.randrange(6):
        case 0:
            code = pick.choice((pick.randrange(256), code ^ 1 << pick.randrange(8)))
        case 1:
            dst = pick.randrange(11)
        case 2:
            src = pick.randrange(11)
        case 3:
            off = pick.choice((pick.randint(-600, 600), off + 1, pick.randint(-8, 8), 0))
        case 4:
            imm = pick.choice((pick.randint(-(1 << 31), (1 << 31) - 1), -imm % (1 << 31), 0))
        case _:
            if code == isa.JMP | isa.CALL and src == 0:
                imm = pick.choice(list(HELPERS))
            else:
                imm = pick.randint(-600, 600)
    return Insn(code, dst, src, off, imm)


def noise(pick: random.Random) -> LinkedProgram:
    """Instructions of any known form with any registers, mostly small offsets."""
    codes = [
        *(isa.ALU64 | op | source for op in range(0, 0xE0, 0x10) for source in (0, 8)),
        *(isa.ALU | op | source for op in range(0, 0xE0, 0x10) for source in (0, 8)),
        *(isa.JMP | op | source for op in range(0, 0x80, 0x10) for source in (0, 8)),
        *(isa.LDX | size | isa.MEM for size in (0, 8, 16, 24)) ,
        *(isa.STX | size | isa.MEM for size in (0, 8, 16, 24)),
        *(isa.ST | size | isa.MEM for size in (0, 8, 16, 24)),
        isa.STX | isa.DW | isa.ATOMIC,
        isa.STX | isa.W | isa.ATOMIC,
        isa.JMP | isa.CALL,
    ]  # fmt: skip
    insns: list[Insn] = [copy(6, 1), Insn(0x61, 7, 6, 0), copy(9, 10)]
    for _ in range(pick.randint(2, 30)):
        code = pick.choice(codes)
        imm = pick.choice((0, 1, 8, 16, 32, 64, -1, pick.randint(-(1 << 31), (1 << 31) - 1)))
        off = pick.choice((0, 0, 1, 4, 8, -8, -16, pick.randint(-600, 600)))
        if code == isa.JMP | isa.CALL:
            insns += [copy(1, pick.choice((6, 10, 7))), copy(2, 9), add(2, -16)]
            insns += [copy(3, 10), add(3, -32), mov(4, pick.choice((0, 1, 16, 32, 1 << 20)))]
            insns.append(call(pick.choice(list(HELPERS))))
            continue
        if code & 7 in (isa.JMP, isa.JMP32):
            off = pick.randint(-3, 3)
        if code & 0xE0 == isa.ATOMIC and code & 7 == isa.STX:
            imm = pick.choice((0, 1, 0x40, 0x41, 0x50, 0x51, 0xA0, 0xA1, 0xE1, 0xF1, 0x100, 0x110))
        is_division = code & 7 in (isa.ALU, isa.ALU64) and code & 0xF0 in (isa.DIV, isa.MOD)
        is_arithmetic = code & 7 in (isa.ALU, isa.ALU64)
        if is_arithmetic:
            off = pick.choice((0, 1)) if is_division else 0
        insns.append(Insn(code, pick.randrange(11), pick.randrange(11), off, imm))
    return linked([*insns, mov(0, 2), Insn(isa.JMP | isa.EXIT)])


def pointers(pick: random.Random) -> LinkedProgram:
    """Pointers of every kind, moved about and used anywhere around where they may be."""
    insns: list[Insn] = [copy(6, 1)]
    references: dict[int, Reference] = {}

    def reference(register: int, target: Reference) -> None:
        references[len(insns)] = target
        insns.extend((Insn(isa.LD_IMM64, register, 1), Insn(0)))

    for _ in range(pick.randint(1, 6)):
        name = pick.choice(MAPS).name
        match pick.randrange(8):
            case 6 | 7:
                # A dynptr, somewhere, used by whatever takes one.
                insns += [copy(1, 6), mov(2, 0), copy(3, 10), add(3, -40)]
                references[len(insns)] = ExternRef("bpf_dynptr_from_xdp", False)
                insns.append(Insn(isa.JMP | isa.CALL, src=1))
                if pick.random() < 0.3:
                    insns.append(store(isa.DW, 10, -40 + pick.choice((0, 8)), 6))
                insns += [copy(1, 10), add(1, pick.choice((-40, -40, -40, -48, 8)))]
                insns += [mov(2, pick.choice((0, 8, 2000))), copy(3, 10), add(3, -80)]
                insns += [mov(4, pick.choice((4, 16, 40, 200))), mov(5, 0)]
                references[len(insns)] = ExternRef(pick.choice(list(KFUNCS)), False)
                insns += [Insn(isa.JMP | isa.CALL, src=1), copy(7, 0)]
            case 0:
                reference(1, MapRef(name))
                insns += [
                    Insn(isa.ST | isa.DW | isa.MEM, 10, 0, -8, pick.randint(0, 9)),
                    copy(2, 10),
                    add(2, -8 + pick.choice((0, 0, 0, 4, 8, -600))),
                    call(pick.choice((1, 1, 3))),
                    copy(7, 0),
                ]
            case 1:
                reference(7, DataRef(pick.choice(list(SECTIONS)), pick.randint(-8, 80)))
            case 2:
                insns.append(Insn(0x61, 7, 6, pick.choice((0, 4, 8))))
            case 3:
                insns += [copy(7, 10)]
            case 4:
                reference(1, MapRef(name))
                insns += [
                    copy(2, 10),
                    add(2, -16),
                    copy(3, 10),
                    add(3, pick.choice((-32, -16, -8, 0, -512))),
                    mov(4, pick.choice((0, 1, 2, 77))),
                    call(2),
                    copy(7, 10),
                ]
            case _:
                reference(7, MapRef(name))
        if pick.random() < 0.5:
            insns.append(add(7, pick.choice((-8, 4, 8, 16, 24, 1 << 20, -(1 << 31)))))
        if pick.random() < 0.3:
            insns += [store(isa.DW, 10, -24, 7), Insn(0x79, 7, 10, -24)]
        if pick.random() < 0.3:
            insns += [Insn(0xBC, 8, 7), Insn(isa.ALU64 | isa.ADD | isa.X, 7, 8)]
        off = pick.choice((0, 0, 8, -8, 16, pick.randint(-600, 600), 32000, -32000))
        size = pick.choice((0, 8, 16, 24))
        if pick.random() < 0.5:
            insns.append(Insn(isa.LDX | size | isa.MEM, 9, 7, off))
        else:
            insns.append(Insn(isa.STX | size | isa.MEM, 7, pick.choice((6, 7, 10)), off))
    return linked([*insns, mov(0, 2), Insn(isa.JMP | isa.EXIT)], references=references)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
