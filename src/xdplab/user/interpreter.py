"""A reference for the translation: BPF instructions one by one, written to be read.

It follows RFC 9669 and knows nothing of types, blocks or LLVM; it shares with the translation the
decoder, the runtime's helpers and the memory of a UserObject. It checks nothing: programs must
be ones that the verifier would take.
"""

from __future__ import annotations

import ctypes
import functools
import operator
from collections.abc import Callable, Mapping
from typing import Any

from xdplab.errors import MissingFeatureError, XdplabError
from xdplab.packets.frame import Frame
from xdplab.program import insn as isa
from xdplab.program.insn import Insn, wide_immediate
from xdplab.user import runtime
from xdplab.user.abi import UserBuffer, UserFrame, UserMapStruct
from xdplab.user.buffer import FrameBuffer, frame_bytes
from xdplab.user.link import DataRef, ExternRef, FunctionRef, LinkedProgram, MapRef
from xdplab.user.machine import LOOPBACK_IFINDEX, Outcome, UserObject
from xdplab.user.prototypes import KFUNCS

_STACK_BYTES = 512
_FRAMES = 64
_MAX_TAIL_CALLS = 33
_MAX_MAY_GOTO = 8 << 20

_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p, *[ctypes.c_uint64] * 5)


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _truncated(numerator: int, denominator: int) -> int:
    quotient = abs(numerator) // abs(denominator)
    return quotient if (numerator < 0) == (denominator < 0) else -quotient


def alu(insn: Insn, target: int, source: int) -> int:
    """The register after an instruction of class ALU or ALU64.

    `target` is its value before; `source` is the source register, or the immediate as 64 bits,
    sign-extended. All are unsigned 64-bit numbers.
    """
    bits = 64 if insn.insn_class == isa.ALU64 else 32
    mask = (1 << bits) - 1
    if insn.op == isa.END:
        whole = (target & (1 << insn.imm) - 1).to_bytes(insn.imm // 8, "little")
        swaps = insn.insn_class == isa.ALU64 or insn.has_register_source
        return int.from_bytes(whole, "big" if swaps else "little")
    a, b = target & mask, source & mask
    shift = b % bits
    if insn.op in (isa.DIV, isa.MOD):
        return _divide(insn, a, b, bits)
    if insn.op == isa.MOV:
        return (_signed(b, insn.off) if insn.off else b) & mask
    results: Mapping[int, Callable[[], int]] = {
        isa.ADD: lambda: a + b,
        isa.SUB: lambda: a - b,
        isa.MUL: lambda: a * b,
        isa.OR: lambda: a | b,
        isa.AND: lambda: a & b,
        isa.XOR: lambda: a ^ b,
        isa.LSH: lambda: a << shift,
        isa.RSH: lambda: a >> shift,
        isa.ARSH: lambda: _signed(a, bits) >> shift,
        isa.NEG: lambda: -a,
    }
    return results[insn.op]() & mask


def _divide(insn: Insn, a: int, b: int, bits: int) -> int:
    if b == 0:
        return 0 if insn.op == isa.DIV else a
    if insn.off == 1:
        a, b = _signed(a, bits), _signed(b, bits)
    quotient = _truncated(a, b)
    result = quotient if insn.op == isa.DIV else a - b * quotient
    return result & (1 << bits) - 1


def jump_is_taken(insn: Insn, target: int, source: int) -> bool:
    """Whether a conditional jump is taken; numbers as for `alu`."""
    bits = 64 if insn.insn_class == isa.JMP else 32
    mask = (1 << bits) - 1
    a, b = target & mask, source & mask
    if insn.op == isa.JSET:
        return bool(a & b)
    if insn.op in (isa.JSGT, isa.JSGE, isa.JSLT, isa.JSLE):
        a, b = _signed(a, bits), _signed(b, bits)
    compare = {
        isa.JEQ: operator.eq,
        isa.JNE: operator.ne,
        isa.JGT: operator.gt,
        isa.JSGT: operator.gt,
        isa.JGE: operator.ge,
        isa.JSGE: operator.ge,
        isa.JLT: operator.lt,
        isa.JSLT: operator.lt,
        isa.JLE: operator.le,
        isa.JSLE: operator.le,
    }
    return bool(compare[insn.op](a, b))


@functools.cache
def _helper(symbol: str) -> Any:
    return runtime.library().function(
        symbol, ctypes.c_uint64, ctypes.c_void_p, *[ctypes.c_uint64] * 5
    )


def _read(address: int, size: int) -> int:
    return int.from_bytes(ctypes.string_at(address, size), "little")


def _write(address: int, size: int, value: int) -> None:
    ctypes.memmove(address, (value & (1 << 8 * size) - 1).to_bytes(size, "little"), size)


class Interpreter:
    """Runs programs of a UserObject on its maps and variables, in place of their native code."""

    def __init__(self, owner: UserObject) -> None:
        self._owner = owner
        self._stack = ctypes.create_string_buffer(_STACK_BYTES * _FRAMES)
        self._depth = 0
        self._left = 0
        self._failure: BaseException | None = None
        self._callbacks: dict[tuple[str, int], Any] = {}

    def run(
        self,
        linked: LinkedProgram,
        frame: Frame | FrameBuffer,
        *,
        ingress_ifindex: int = LOOPBACK_IFINDEX,
        limit: int = 1_000_000,
    ) -> Outcome:
        """One packet through `linked`; XdplabError where it takes more than `limit` steps."""
        buffer = frame if isinstance(frame, FrameBuffer) else FrameBuffer(frame)
        owner = self._owner
        user_frame, state = owner.frame, owner.state
        _receive(user_frame, buffer.buffer)
        buffer.restore()
        user_frame.ingress_ifindex = ingress_ifindex
        user_frame.rx_queue_index = user_frame.egress_ifindex = 0
        state.tail_calls = state.fault = state.redirect_kind = 0
        self._depth, self._left, self._failure = 0, limit, None
        retval = self._run_function(linked, 0, (ctypes.addressof(user_frame),))
        data, metadata = frame_bytes(user_frame)
        return Outcome(retval & 0xFFFFFFFF, data, metadata, None, limit - self._left)

    def _run_function(self, linked: LinkedProgram, start: int, arguments: tuple[int, ...]) -> int:
        registers = [0] * 11
        registers[1 : 1 + len(arguments)] = arguments
        top = ctypes.addressof(self._stack) + _STACK_BYTES * (_FRAMES - self._depth)
        registers[10] = top
        turns: dict[int, int] = {}
        self._depth += 1
        try:
            slot = start
            while True:
                self._left -= 1
                if self._left < 0:
                    raise XdplabError(f"{linked.place(slot)}: the limit of instructions is reached")
                insn = linked.insns[slot]
                if insn.code == isa.JMP | isa.EXIT:
                    return registers[0]
                if insn.code == isa.JMP | isa.CALL and not insn.src and insn.imm == 12:
                    target = self._tail_call(registers)
                    if target is not None:
                        self._depth -= 1
                        try:
                            return self._run_function(
                                target, 0, (ctypes.addressof(self._owner.frame),)
                            )
                        finally:
                            self._depth += 1
                    slot += 1
                else:
                    slot = self._step(linked, slot, insn, registers, turns)
        finally:
            self._depth -= 1

    def _step(
        self,
        linked: LinkedProgram,
        slot: int,
        insn: Insn,
        registers: list[int],
        turns: dict[int, int],
    ) -> int:
        """Execute one instruction; the slot of the next."""
        immediate = insn.imm & (1 << 64) - 1
        source = registers[insn.src] if insn.has_register_source else immediate
        match insn.insn_class:
            case isa.ALU | isa.ALU64:
                registers[insn.dst] = alu(insn, registers[insn.dst], source)
            case isa.LD:
                registers[insn.dst] = self._wide_load(linked, slot)
                return slot + 2
            case isa.LDX:
                size = isa.SIZE_BYTES[insn.size]
                value = self._load((registers[insn.src] + insn.off) & (1 << 64) - 1, size)
                if insn.mode == isa.MEMSX:
                    value = _signed(value, 8 * size) & (1 << 64) - 1
                registers[insn.dst] = value
            case isa.ST | isa.STX:
                _store(insn, registers)
            case _ if insn.op == isa.CALL:
                registers[0] = self._call(linked, slot, insn, registers[1:6])
            case _ if insn.code == isa.JMP | isa.JA:
                return slot + 1 + insn.off
            case _ if insn.code == isa.JMP32 | isa.JA:
                return slot + 1 + insn.imm
            case _ if insn.op == isa.JCOND:
                turns[slot] = turns.get(slot, 0) + 1
                return slot + 1 + (insn.off if turns[slot] > _MAX_MAY_GOTO else 0)
            case _:
                taken = jump_is_taken(insn, registers[insn.dst], source)
                return slot + 1 + (insn.off if taken else 0)
        return slot + 1

    def _load(self, address: int, size: int) -> int:
        frame = self._owner.frame
        fields = {
            0: frame.data,
            4: frame.data_end,
            8: frame.data_meta,
            12: frame.ingress_ifindex,
            16: frame.rx_queue_index,
            20: frame.egress_ifindex,
        }
        offset = address - ctypes.addressof(frame)
        if size == 4 and offset in fields:
            return int(fields[offset])
        return _read(address, size)

    def _wide_load(self, linked: LinkedProgram, slot: int) -> int:
        owner = self._owner
        match linked.references.get(slot):
            case MapRef(name):
                return owner.maps[name].address
            case DataRef(section, offset):
                return ctypes.addressof(owner.section(section)) + offset
            case FunctionRef(start):
                return self._native(linked, start)
            case ExternRef(name, _):
                return int(name in KFUNCS)
            case None:
                return wide_immediate(linked.insns[slot], linked.insns[slot + 1])

    def _native(self, linked: LinkedProgram, start: int) -> int:
        """The address of a function that helpers can call, and that comes back here."""
        key = (linked.name, start)
        if key not in self._callbacks:

            def call(_: int, *arguments: int) -> int:
                try:
                    return self._run_function(linked, start, arguments)
                except BaseException as error:
                    # It cannot pass through C: the helper's caller raises it.
                    self._failure = error
                    return 1

            self._callbacks[key] = _CALLBACK(call)
        return ctypes.cast(self._callbacks[key], ctypes.c_void_p).value or 0

    def _call(self, linked: LinkedProgram, slot: int, insn: Insn, arguments: list[int]) -> int:
        match linked.references.get(slot):
            case FunctionRef(start):
                return self._run_function(linked, start, tuple(arguments))
            case ExternRef(name, _):
                spec = KFUNCS.get(name)
            case _:
                spec = runtime.HELPERS.get(insn.imm)
        if spec is None:
            raise MissingFeatureError(str(insn.imm), f"{linked.place(slot)}: no such helper")
        result = int(_helper(spec.symbol)(ctypes.addressof(self._owner.frame), *arguments))
        if self._failure is not None:
            raise self._failure
        return result

    def _tail_call(self, registers: list[int]) -> LinkedProgram | None:
        table = UserMapStruct.from_address(registers[2])
        index = registers[3] & 0xFFFFFFFF
        state = self._owner.state
        if index >= table.max_entries:
            return None
        native = _read(table.values + 8 * index, 8)
        if not native or state.tail_calls >= _MAX_TAIL_CALLS:
            return None
        state.tail_calls += 1
        return self._owner.program_at(native).linked


def _store(insn: Insn, registers: list[int]) -> None:
    size = isa.SIZE_BYTES[insn.size]
    address = (registers[insn.dst] + insn.off) & (1 << 64) - 1
    if insn.mode != isa.ATOMIC:
        _write(address, size, registers[insn.src] if insn.insn_class == isa.STX else insn.imm)
        return
    if insn.imm == isa.LOAD_ACQUIRE:
        registers[insn.dst] = _read((registers[insn.src] + insn.off) & (1 << 64) - 1, size)
        return
    value = registers[insn.src] & (1 << 8 * size) - 1
    before = _read(address, size)
    if insn.imm == isa.CMPXCHG:
        if before == registers[0] & (1 << 8 * size) - 1:
            _write(address, size, value)
        registers[0] = before
        return
    after = {
        isa.ADD: before + value,
        isa.OR: before | value,
        isa.AND: before & value,
        isa.XOR: before ^ value,
        isa.XCHG & ~isa.FETCH: value,
        isa.STORE_RELEASE: value,
    }[insn.imm if insn.imm == isa.STORE_RELEASE else insn.imm & ~isa.FETCH]
    _write(address, size, after)
    if insn.imm & isa.FETCH and insn.imm != isa.STORE_RELEASE:
        registers[insn.src] = before


def _receive(frame: UserFrame, buffer: UserBuffer) -> None:
    for name in ("hard_start", "hard_end", "data", "data_end", "data_meta", "frag_count"):
        setattr(frame, name, getattr(buffer, name))
    frags = buffer.frag_count * ctypes.sizeof(frame.frags[0])
    ctypes.memmove(ctypes.addressof(frame.frags), buffer.frags, frags)
