"""Loads, stores and atomics to LLVM IR, and the checks of their addresses."""

from __future__ import annotations

from collections.abc import Mapping

from xdplab.errors import NotPossibleError, ObjectError
from xdplab.program import insn as isa
from xdplab.program.insn import Insn
from xdplab.user.abi import Fault, UserFrame
from xdplab.user.pointer_types import Ctx, MapValue, MaybeCtx, Memory, Stack, shift
from xdplab.user.translate_checks import check, stack_bounds
from xdplab.user.translate_ir import FRAME, MEMORY, STACK_BYTES
from xdplab.user.translate_scope import Scope

CTX_POINTERS: Mapping[int, int] = {
    0: UserFrame.data.offset,
    4: UserFrame.data_end.offset,
    8: UserFrame.data_meta.offset,
}
"""struct xdp_md's fields that are pointers, 32 bits there and 64 here: offset to offset."""

CTX_NUMBERS: Mapping[int, int] = {
    12: UserFrame.ingress_ifindex.offset,
    16: UserFrame.rx_queue_index.offset,
    20: UserFrame.egress_ifindex.offset,
}
"""The other fields of struct xdp_md, u32 on both sides."""

_ATOMICS: Mapping[int, str] = {
    isa.ADD: "add",
    isa.OR: "or",
    isa.AND: "and",
    isa.XOR: "xor",
    isa.XCHG & ~isa.FETCH: "xchg",
}


def emit_load(scope: Scope, insn: Insn) -> None:
    """LDX: from the context, or from memory."""
    base = scope.type_of(insn.src)
    if isinstance(base, Ctx):
        _ctx_load(scope, insn, base.offset + insn.off)
        return
    fields = CTX_POINTERS.keys() | CTX_NUMBERS.keys()
    if isinstance(base, MaybeCtx) and _is_word(insn) and insn.off in fields:
        emitter = scope.emitter
        ctx, memory = emitter.new_label("ctx"), emitter.new_label("memory")
        done = emitter.new_label("done")
        frame = emitter.value("ptrtoint ptr %frame to i64")
        is_ctx = emitter.value(f"icmp eq i64 {emitter.get(insn.src)}, {frame}")
        emitter.branch(is_ctx, ctx, memory)
        emitter.begin(ctx)
        _ctx_load(scope, insn, insn.off)
        emitter.do(f"br label %{done}")
        emitter.begin(memory)
        _memory_load(scope, insn)
        emitter.do(f"br label %{done}")
        emitter.begin(done)
        return
    _memory_load(scope, insn)


def _is_word(insn: Insn) -> bool:
    return insn.size == isa.W and insn.mode == isa.MEM


def _ctx_load(scope: Scope, insn: Insn, offset: int) -> None:
    emitter = scope.emitter
    if _is_word(insn) and offset in CTX_POINTERS:
        emitter.put(insn.dst, emitter.load_field("%frame", CTX_POINTERS[offset], 64, FRAME))
    elif _is_word(insn) and offset in CTX_NUMBERS:
        number = emitter.load_field("%frame", CTX_NUMBERS[offset], 32, FRAME)
        emitter.put(insn.dst, number, 32)
    else:
        raise NotPossibleError(
            f"Translating {scope.program.place(scope.slot)}: it reads "
            f"{isa.SIZE_BYTES[insn.size]} bytes at offset {offset} of the context, "
            "where struct xdp_md has no field"
        )


def _memory_load(scope: Scope, insn: Insn) -> None:
    bits = 8 * isa.SIZE_BYTES[insn.size]
    pointer = address(scope, insn.src, insn.off, isa.SIZE_BYTES[insn.size], writes=False)
    emitter = scope.emitter
    access = _access(scope, insn.src, "load")
    value = emitter.value(f"{access} i{bits}, ptr {pointer}, align 1, {MEMORY}")
    if isinstance(scope.type_of(insn.src), Stack):
        # What was never written is undefined, but must at least stay one and the same value.
        value = emitter.value(f"freeze i{bits} {value}")
    if insn.mode == isa.MEMSX:
        value = emitter.value(f"sext i{bits} {value} to i64")
        bits = 64
    emitter.put(insn.dst, value, bits)


def emit_store(scope: Scope, insn: Insn) -> None:
    """ST and STX, atomics too."""
    if isinstance(scope.type_of(insn.dst), Ctx) and insn.imm != isa.LOAD_ACQUIRE:
        raise ObjectError(
            f"Translating {scope.program.place(scope.slot)}: it writes to the context, which "
            "XDP programs may only read"
        )
    if insn.mode == isa.ATOMIC:
        _atomic(scope, insn)
        return
    size = isa.SIZE_BYTES[insn.size]
    emitter = scope.emitter
    if insn.insn_class == isa.STX:
        value = emitter.get(insn.src, 8 * size)
    else:
        value = str(insn.imm & (1 << 8 * size) - 1 if size < 8 else insn.imm)
    pointer = address(scope, insn.dst, insn.off, size, writes=True)
    access = _access(scope, insn.dst, "store")
    emitter.do(f"{access} i{8 * size} {value}, ptr {pointer}, align 1, {MEMORY}")


def _access(scope: Scope, register: int, verb: str) -> str:
    # A program's accesses are what is measured: none may be left out or put together. Its own
    # stack alone is the translation's to keep in registers.
    is_volatile = scope.options.is_faithful and not isinstance(scope.type_of(register), Stack)
    return f"{verb} volatile" if is_volatile else verb


def _atomic(scope: Scope, insn: Insn) -> None:
    emitter = scope.emitter
    size = isa.SIZE_BYTES[insn.size]
    bits = 8 * size
    if insn.imm == isa.LOAD_ACQUIRE:
        if isinstance(scope.type_of(insn.src), Ctx):
            raise ObjectError(
                f"Translating {scope.program.place(scope.slot)}: an atomic load of the context"
            )
        pointer = address(scope, insn.src, insn.off, size, writes=False, aligned=True)
        loaded = emitter.value(f"load atomic i{bits}, ptr {pointer} acquire, align {size}")
        emitter.put(insn.dst, loaded, bits)
        return
    value = emitter.get(insn.src, bits)
    pointer = address(scope, insn.dst, insn.off, size, writes=True, aligned=True)
    kind = f"i{bits}"
    if insn.imm == isa.STORE_RELEASE:
        emitter.do(f"store atomic {kind} {value}, ptr {pointer} release, align {size}")
    elif insn.imm == isa.CMPXCHG:
        expected = emitter.get(0, bits)
        pair = emitter.value(
            f"cmpxchg ptr {pointer}, {kind} {expected}, {kind} {value} seq_cst seq_cst"
        )
        emitter.put(0, emitter.value(f"extractvalue {{ {kind}, i1 }} {pair}, 0"), bits)
    else:
        fetches = bool(insn.imm & isa.FETCH)
        # As in Linux: those that give the old value back are full barriers, the others none.
        order = "seq_cst" if fetches else "monotonic"
        operation = _ATOMICS[insn.imm & ~isa.FETCH]
        before = emitter.value(f"atomicrmw {operation} ptr {pointer}, {kind} {value} {order}")
        if fetches:
            emitter.put(insn.src, before, bits)


def address(
    scope: Scope, register: int, offset: int, size: int, writes: bool, aligned: bool = False
) -> str:
    """A pointer to `size` bytes at a register plus `offset`, checked in checked mode."""
    emitter = scope.emitter
    kind = scope.type_of(register)
    if isinstance(kind, Stack) and kind.offset is not None:
        start = kind.offset + offset
        if not -STACK_BYTES <= start <= -size and scope.options.checks:
            low, high = stack_bounds(emitter)
            wrong = emitter.value(f"add i64 {high}, {start}")
            scope.fail(Fault.STACK, wrong, str(size), low, high)
            emitter.begin(emitter.new_label("unreached"))
        elif not -STACK_BYTES <= start <= -size:
            raise ObjectError(
                f"Translating {scope.program.place(scope.slot)}: it accesses {size} bytes at "
                f"r10{start:+}, outside of the stack's {STACK_BYTES} bytes"
            )
        if aligned and scope.options.checks and start % size:
            scope.fail(Fault.STACK, "0", str(size))
            emitter.begin(emitter.new_label("unreached"))
        return emitter.field("%top", start)
    where = emitter.get(register)
    if offset:
        where = emitter.value(f"add i64 {where}, {offset}")
    if scope.options.checks:
        if isinstance(kind, Memory | MapValue):
            kind = shift(kind, offset)
        check(scope, kind, where, str(size), writes)
        if aligned:
            odd = emitter.value(f"and i64 {where}, {size - 1}")
            scope.require(emitter.value(f"icmp eq i64 {odd}, 0"), Fault.OTHER, where, str(size))
    return emitter.value(f"inttoptr i64 {where} to ptr")
