"""Arithmetic and conditions to LLVM IR, with what BPF defines where LLVM leaves it undefined."""

from __future__ import annotations

from collections.abc import Mapping

from xdplab.program import insn as isa
from xdplab.program.insn import Insn
from xdplab.user.translate_ir import Emitter

BINARY: Mapping[int, str] = {
    isa.ADD: "add",
    isa.SUB: "sub",
    isa.MUL: "mul",
    isa.OR: "or",
    isa.AND: "and",
    isa.XOR: "xor",
}
SHIFTS: Mapping[int, str] = {isa.LSH: "shl", isa.RSH: "lshr", isa.ARSH: "ashr"}
COMPARISONS: Mapping[int, str] = {
    isa.JEQ: "eq",
    isa.JNE: "ne",
    isa.JGT: "ugt",
    isa.JGE: "uge",
    isa.JLT: "ult",
    isa.JLE: "ule",
    isa.JSGT: "sgt",
    isa.JSGE: "sge",
    isa.JSLT: "slt",
    isa.JSLE: "sle",
}


def emit_alu(emitter: Emitter, insn: Insn, is_faithful: bool = False) -> None:
    """One instruction of class ALU or ALU64. Results of ALU have their upper half zero.

    `is_faithful`: multiplications stay a chain where they are one.
    """
    bits = 64 if insn.insn_class == isa.ALU64 else 32
    if insn.op == isa.END:
        _swap_bytes(emitter, insn)
        return
    if insn.op == isa.NEG:
        target = emitter.get(insn.dst, bits)
        emitter.put(insn.dst, emitter.value(f"sub i{bits} 0, {target}"), bits)
        return
    if insn.op == isa.MOV:
        emitter.put(insn.dst, _moved(emitter, insn, bits), bits)
        return
    source = emitter.get(insn.src, bits) if insn.has_register_source else str(insn.imm)
    target = emitter.get(insn.dst, bits)
    if insn.op in BINARY:
        result = emitter.value(f"{BINARY[insn.op]} i{bits} {target}, {source}")
        if is_faithful and insn.op == isa.MUL:
            # LLVM would multiply in another order, which takes a third of the time. No code
            # comes of this; LLVM alone cannot look through it.
            result = emitter.value(f'call i{bits} asm "", "=r,0"(i{bits} {result})')
    elif insn.op in SHIFTS:
        # BPF takes the distance modulo the width; LLVM's result would be poison.
        distance = emitter.value(f"and i{bits} {source}, {bits - 1}")
        result = emitter.value(f"{SHIFTS[insn.op]} i{bits} {target}, {distance}")
    else:
        result = _divided(emitter, insn, bits, target, source)
    emitter.put(insn.dst, result, bits)


def emit_condition(emitter: Emitter, insn: Insn) -> str:
    """The i1 that says whether a conditional jump is taken."""
    bits = 64 if insn.insn_class == isa.JMP else 32
    target = emitter.get(insn.dst, bits)
    source = emitter.get(insn.src, bits) if insn.has_register_source else str(insn.imm)
    if insn.op == isa.JSET:
        common = emitter.value(f"and i{bits} {target}, {source}")
        return emitter.value(f"icmp ne i{bits} {common}, 0")
    return emitter.value(f"icmp {COMPARISONS[insn.op]} i{bits} {target}, {source}")


def _moved(emitter: Emitter, insn: Insn, bits: int) -> str:
    if not insn.has_register_source:
        return str(insn.imm)
    if not insn.off:
        return emitter.get(insn.src, bits)
    narrow = emitter.get(insn.src, insn.off)
    return emitter.value(f"sext i{insn.off} {narrow} to i{bits}")


def _swap_bytes(emitter: Emitter, insn: Insn) -> None:
    # Every machine that this engine runs on is little-endian: to_le cuts off, nothing else.
    swaps = insn.insn_class == isa.ALU64 or insn.has_register_source
    value = emitter.get(insn.dst, insn.imm)
    if swaps:
        value = emitter.value(f"call i{insn.imm} @llvm.bswap.i{insn.imm}(i{insn.imm} {value})")
    emitter.put(insn.dst, value, insn.imm)


def _divided(emitter: Emitter, insn: Insn, bits: int, target: str, source: str) -> str:
    """A division by zero is 0, a remainder is then the dividend; LLVM must not see either."""
    is_division = insn.op == isa.DIV
    kind = f"i{bits}"
    by_zero = emitter.value(f"icmp eq {kind} {source}, 0")
    divisor = emitter.value(f"select i1 {by_zero}, {kind} 1, {kind} {source}")
    if insn.off == 0:
        operation = "udiv" if is_division else "urem"
        result = emitter.value(f"{operation} {kind} {target}, {divisor}")
    else:
        # The least number divided by -1 overflows in LLVM; in BPF it stays what it is.
        by_minus_one = emitter.value(f"icmp eq {kind} {divisor}, -1")
        safe = emitter.value(f"select i1 {by_minus_one}, {kind} 1, {kind} {divisor}")
        operation = "sdiv" if is_division else "srem"
        quotient = emitter.value(f"{operation} {kind} {target}, {safe}")
        negated = emitter.value(f"sub {kind} 0, {target}") if is_division else "0"
        result = emitter.value(f"select i1 {by_minus_one}, {kind} {negated}, {kind} {quotient}")
    fallback = "0" if is_division else target
    return emitter.value(f"select i1 {by_zero}, {kind} {fallback}, {kind} {result}")
