"""Loads, stores and atomics to LLVM IR, and the checks of their addresses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from xdplab.errors import NotPossibleError, ObjectError
from xdplab.program import insn as isa
from xdplab.program.insn import Insn
from xdplab.user.abi import Fault, UserFrame, UserMapStruct
from xdplab.user.flow_types import (
    Ctx,
    Data,
    MapValue,
    MaybeCtx,
    Memory,
    Packet,
    PacketEnd,
    Stack,
    Type,
    Types,
)
from xdplab.user.link import LinkedProgram
from xdplab.user.options import Options
from xdplab.user.translate_ir import FRAME, MEMORY, STACK_BYTES, Emitter

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


@dataclass(slots=True)
class Symbols:
    """Names outside the program that its code refers to."""

    maps: set[str] = field(default_factory=set)
    sections: set[str] = field(default_factory=set)
    functions: set[str] = field(default_factory=set)


@dataclass(slots=True)
class Scope:
    """One function under translation; `slot` is the instruction's, `types` before it by slot.

    `section_bytes` has the size of each data section of the object.
    """

    program: LinkedProgram
    options: Options
    emitter: Emitter
    types: Mapping[int, Types]
    section_bytes: Mapping[str, int]
    symbols: Symbols
    is_entry: bool
    slot: int = 0

    def type_of(self, register: int) -> Type | None:
        """The type of a register before the present instruction."""
        return self.types[self.slot][register]

    def map_symbol(self, name: str) -> str:
        """The symbol of a map's struct user_map."""
        self.symbols.maps.add(name)
        return f'@"map:{name}"'

    def section_symbol(self, name: str) -> str:
        """The symbol of a data section's bytes."""
        self.symbols.sections.add(name)
        return f'@"data:{name}"'

    def fail(
        self, kind: Fault, address: str = "0", size: str = "0", low: str = "0", high: str = "0"
    ) -> None:
        """Note a fault and leave the function; ends the block."""
        numbers = ", ".join(f"i64 {number}" for number in (address, size, low, high))
        self.emitter.do(
            f"call void @fault(ptr %state, i32 {kind.value}, i32 {self.slot}, {numbers})"
        )
        self.emitter.do("br label %out")

    def require(
        self,
        condition: str,
        kind: Fault,
        address: str = "0",
        size: str = "0",
        low: str = "0",
        high: str = "0",
    ) -> None:
        """Go on where `condition` (i1) holds; else fail."""
        fine, wrong = self.emitter.new_label("fine"), self.emitter.new_label("wrong")
        self.emitter.branch(condition, fine, wrong, likely=True)
        self.emitter.begin(wrong)
        self.fail(kind, address, size, low, high)
        self.emitter.begin(fine)


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
    value = emitter.value(f"{_access(scope, insn.src, 'load')} i{bits}, ptr {pointer}, align 1")
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
    emitter.do(f"{access} i{8 * size} {value}, ptr {pointer}, align 1")


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
            low, high = _stack_bounds(emitter)
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
        if isinstance(kind, Memory):
            kind = Memory(kind.size_bytes, kind.offset + offset)
        check(scope, kind, where, str(size), writes)
        if aligned:
            odd = emitter.value(f"and i64 {where}, {size - 1}")
            scope.require(emitter.value(f"icmp eq i64 {odd}, 0"), Fault.OTHER, where, str(size))
    return emitter.value(f"inttoptr i64 {where} to ptr")


def _stack_bounds(emitter: Emitter) -> tuple[str, str]:
    high = emitter.value("ptrtoint ptr %top to i64")
    return emitter.value(f"sub i64 {high}, {STACK_BYTES}"), high


def check(scope: Scope, kind: Type | None, where: str, size: str, writes: bool) -> None:
    """Fail unless `size` bytes (i64) at `where` (i64) are memory of `kind`'s that may be used."""
    emitter = scope.emitter
    match kind:
        case Packet() | PacketEnd():
            data, meta, high = (
                emitter.load_field("%frame", at, 64, FRAME) for at in CTX_POINTERS_IN_ORDER
            )
            low = emitter.value(f"call i64 @llvm.umin.i64(i64 {data}, i64 {meta})")
            _inside(scope, Fault.PACKET, where, size, low, high)
        case Stack():
            low, high = _stack_bounds(emitter)
            _inside(scope, Fault.STACK, where, size, low, high)
        case Data(section):
            low = emitter.value(f"ptrtoint ptr {scope.section_symbol(section)} to i64")
            high = emitter.value(f"add i64 {low}, {scope.section_bytes[section]}")
            if writes and section.startswith(".rodata"):
                scope.fail(Fault.DATA, where, size, low, high)
                emitter.begin(emitter.new_label("unreached"))
            _inside(scope, Fault.DATA, where, size, low, high)
        case Memory(size_bytes, offset):
            end = emitter.value(f"add i64 {size}, {offset}")
            low = emitter.value(f"sub i64 {where}, {offset}")
            high = emitter.value(f"add i64 {low}, {size_bytes}")
            fits = emitter.value(f"icmp ule i64 {end}, {size_bytes}")
            starts = emitter.value(f"icmp ule i64 {offset}, {end}")
            fine = emitter.value(f"and i1 {fits}, {starts}")
            scope.require(fine, Fault.OTHER, where, size, low, high)
        case MapValue(name):
            _inside_value(scope, scope.map_symbol(name), where, size)
        case _:
            writes_text = "true" if writes else "false"
            found = emitter.value(
                f"call i1 @search(ptr %frame, i64 {where}, i64 {size}, i1 {writes_text})"
            )
            scope.require(found, Fault.OTHER, where, size)


CTX_POINTERS_IN_ORDER = (
    UserFrame.data.offset,
    UserFrame.data_meta.offset,
    UserFrame.data_end.offset,
)


def _inside(scope: Scope, kind: Fault, where: str, size: str, low: str, high: str) -> None:
    arguments = ", ".join(f"i64 {number}" for number in (where, size, low, high))
    fits = scope.emitter.value(f"call i1 @inside({arguments})")
    scope.require(fits, kind, where, size, low, high)


def _inside_value(scope: Scope, symbol: str, where: str, size: str) -> None:
    """Inside one value where the map is an array, else inside the memory of all its values."""
    emitter = scope.emitter
    low = emitter.load_field(symbol, UserMapStruct.values.offset, 64, MEMORY)
    whole = emitter.load_field(symbol, UserMapStruct.values_bytes.offset, 64, MEMORY)
    high = emitter.value(f"add i64 {low}, {whole}")
    _inside(scope, Fault.MAP_VALUE, where, size, low, high)
    stride = emitter.load_field(symbol, UserMapStruct.value_stride.offset, 64, MEMORY)
    narrow = emitter.load_field(symbol, UserMapStruct.value_bytes.offset, 32, MEMORY)
    value_bytes = emitter.value(f"zext i32 {narrow} to i64")
    # Types without a stride (0) keep keys and links between their values.
    has_stride = emitter.value(f"icmp ne i64 {stride}, 0")
    divisor = emitter.value(f"select i1 {has_stride}, i64 {stride}, i64 1")
    ahead = emitter.value(f"sub i64 {where}, {low}")
    inside = emitter.value(f"urem i64 {ahead}, {divisor}")
    end = emitter.value(f"add i64 {inside}, {size}")
    fits = emitter.value(f"icmp ule i64 {end}, {value_bytes}")
    no_stride = emitter.value(f"xor i1 {has_stride}, true")
    start = emitter.value(f"sub i64 {where}, {inside}")
    value_end = emitter.value(f"add i64 {start}, {value_bytes}")
    fine = emitter.value(f"or i1 {fits}, {no_stride}")
    scope.require(fine, Fault.MAP_VALUE, where, size, start, value_end)
