"""Instructions as text, in the words of the kernel's verifier log.

What a 64-bit load refers to is put as bpftool does: `map[fd:3]`, `map[fd:3][0]+8`.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdplab.program import insn as isa
from xdplab.program.insn import Insn

_ALU_SYMBOLS = {
    isa.ADD: "+=",
    isa.SUB: "-=",
    isa.MUL: "*=",
    isa.DIV: "/=",
    isa.OR: "|=",
    isa.AND: "&=",
    isa.LSH: "<<=",
    isa.RSH: ">>=",
    isa.MOD: "%=",
    isa.XOR: "^=",
    isa.MOV: "=",
    isa.ARSH: "s>>=",
}
_JUMP_SYMBOLS = {
    isa.JEQ: "==",
    isa.JGT: ">",
    isa.JGE: ">=",
    isa.JSET: "&",
    isa.JNE: "!=",
    isa.JSGT: "s>",
    isa.JSGE: "s>=",
    isa.JLT: "<",
    isa.JLE: "<=",
    isa.JSLT: "s<",
    isa.JSLE: "s<=",
}
_ATOMIC_NAMES = {isa.ADD: "add", isa.OR: "or", isa.AND: "and", isa.XOR: "xor"}


def disassemble(insns: Sequence[Insn]) -> list[str]:
    """One line for each slot; that of a 64-bit load's second slot is "".

    Never raises: what is no instruction is shown as `unknown opcode 0x..`.
    """
    lines: list[str] = []
    index = 0
    while index < len(insns):
        insn = insns[index]
        if insn.is_wide and index + 1 < len(insns):
            lines += [_wide_load(insn, insns[index + 1]), ""]
            index += 2
            continue
        lines.append(_line(insn) or f"unknown opcode {insn.code:#04x}")
        index += 1
    return lines


def _line(insn: Insn) -> str | None:
    match insn.insn_class:
        case isa.ALU | isa.ALU64:
            return _alu(insn)
        case isa.JMP | isa.JMP32:
            return _jump(insn)
        case isa.LDX:
            return _load(insn)
        case isa.ST | isa.STX:
            return _store(insn)
        case _:
            return _packet_load(insn)


def _register(insn: Insn, number: int) -> str:
    # The kernel writes 32-bit views of registers with w.
    return f"{'w' if insn.insn_class in (isa.ALU, isa.JMP32) else 'r'}{number}"


def _alu(insn: Insn) -> str | None:
    dst, src = _register(insn, insn.dst), _register(insn, insn.src)
    wide = insn.insn_class == isa.ALU64
    if insn.op == isa.END:
        if insn.imm not in (16, 32, 64) or (wide and insn.has_register_source):
            return None
        name = "bswap" if wide else "be" if insn.has_register_source else "le"
        return f"r{insn.dst} = {name}{insn.imm} r{insn.dst}"
    if insn.op == isa.NEG:
        return None if insn.has_register_source else f"{dst} = -{dst}"
    symbol = _ALU_SYMBOLS.get(insn.op)
    if symbol is None:
        return None
    if insn.op == isa.MOV and insn.has_register_source and insn.off:
        if insn.off == isa.ADDRESS_SPACE_CAST and wide:
            spaces = f"{insn.imm >> 16 & 0xFFFF}, {insn.imm & 0xFFFF}"
            return f"{dst} = addr_space_cast({src}, {spaces})"
        if insn.off not in ((8, 16, 32) if wide else (8, 16)):
            return None
        return f"{dst} = (s{insn.off}){src}"
    if insn.off:
        if insn.op not in (isa.DIV, isa.MOD) or insn.off != 1:
            return None
        symbol = f"s{symbol}"
    return f"{dst} {symbol} {src if insn.has_register_source else insn.imm}"


def _jump(insn: Insn) -> str | None:
    wide = insn.insn_class == isa.JMP
    match insn.op:
        case isa.JA if insn.has_register_source:
            return f"gotox r{insn.dst}" if wide else None
        case isa.JA:
            return f"goto pc{insn.off:+d}" if wide else f"gotol pc{insn.imm:+d}"
        case isa.CALL:
            return _call(insn) if wide else None
        case isa.EXIT:
            return "exit" if insn.code == isa.JMP | isa.EXIT else None
        case isa.JCOND:
            if insn.code != isa.JMP | isa.JCOND or insn.src > 1:
                return None
            return f"{('may_goto', 'goto_or_nop')[insn.src]} pc{insn.off:+d}"
    symbol = _JUMP_SYMBOLS.get(insn.op)
    if symbol is None:
        return None
    right = _register(insn, insn.src) if insn.has_register_source else f"{insn.imm & 0xFFFFFFFF:#x}"
    return f"if {_register(insn, insn.dst)} {symbol} {right} goto pc{insn.off:+d}"


def _call(insn: Insn) -> str | None:
    if insn.has_register_source:
        return f"callx r{insn.dst}"
    match insn.src:
        case isa.CALL_HELPER:
            return f"call helper#{insn.imm}"
        case isa.CALL_LOCAL:
            return f"call pc{insn.imm:+d}"
        case isa.CALL_KFUNC:
            return f"call kernel-function#{insn.imm}"
    return None


def _memory(insn: Insn, base: int, *, sign: str = "u") -> str:
    bits = 8 * isa.SIZE_BYTES[insn.size]
    return f"({sign}{bits} *)(r{base} {insn.off:+d})"


def _load(insn: Insn) -> str | None:
    if insn.mode == isa.MEM:
        return f"r{insn.dst} = *{_memory(insn, insn.src)}"
    if insn.mode == isa.MEMSX and insn.size != isa.DW:
        return f"r{insn.dst} = *{_memory(insn, insn.src, sign='s')}"
    return None


def _store(insn: Insn) -> str | None:
    if insn.mode == isa.MEM:
        value = f"r{insn.src}" if insn.insn_class == isa.STX else str(insn.imm)
        return f"*{_memory(insn, insn.dst)} = {value}"
    if insn.mode == isa.ATOMIC and insn.insn_class == isa.STX:
        return _atomic(insn)
    return None


def _atomic(insn: Insn) -> str | None:
    memory = _memory(insn, insn.dst)
    if insn.imm == isa.LOAD_ACQUIRE:
        return f"r{insn.dst} = load_acquire({_memory(insn, insn.src)})"
    if insn.imm == isa.STORE_RELEASE:
        return f"store_release({memory}, r{insn.src})"
    if insn.size not in (isa.W, isa.DW):
        return None
    prefix = "atomic64" if insn.size == isa.DW else "atomic"
    if insn.imm == isa.CMPXCHG:
        return f"r0 = {prefix}_cmpxchg({memory}, r0, r{insn.src})"
    if insn.imm == isa.XCHG:
        return f"r{insn.src} = {prefix}_xchg({memory}, r{insn.src})"
    name = _ATOMIC_NAMES.get(insn.imm & ~isa.FETCH)
    if name is None:
        return None
    if insn.imm & isa.FETCH:
        return f"r{insn.src} = {prefix}_fetch_{name}({memory}, r{insn.src})"
    return f"lock *{memory} {_ALU_SYMBOLS[insn.imm]} r{insn.src}"


def _packet_load(insn: Insn) -> str | None:
    if insn.size == isa.DW:
        return None
    bits = 8 * isa.SIZE_BYTES[insn.size]
    if insn.mode == isa.ABS:
        return f"r0 = *(u{bits} *)skb[{insn.imm}]"
    if insn.mode == isa.IND:
        return f"r0 = *(u{bits} *)skb[r{insn.src} + {insn.imm}]"
    return None


def _wide_load(first: Insn, second: Insn) -> str:
    low, high = first.imm & 0xFFFFFFFF, second.imm & 0xFFFFFFFF
    match first.src:
        case 0:
            value = f"{isa.wide_immediate(first, second):#x}"
        case isa.PSEUDO_MAP_FD:
            value = f"map[fd:{low}]"
        case isa.PSEUDO_MAP_VALUE:
            value = f"map[fd:{low}][0]+{high}"
        case isa.PSEUDO_BTF_ID:
            value = f"btf[id:{low}]"
        case isa.PSEUDO_FUNC:
            value = f"func[pc{first.imm:+d}]"
        case isa.PSEUDO_MAP_INDEX:
            value = f"map[idx:{low}]"
        case isa.PSEUDO_MAP_INDEX_VALUE:
            value = f"map[idx:{low}][0]+{high}"
        case _:
            return f"unknown 64-bit load of kind {first.src}"
    return f"r{first.dst} = {value}"
