"""What registers and stack slots point to, as far as the instructions say so.

A forward dataflow over the blocks of all functions. It is sound on every path, but knows less than
the verifier, who walks paths one by one: where paths disagree a value's type is unknown. The
context alone must never be lost, since its loads are translated: what may be it or may be something
else is MaybeCtx, and the translation asks at run time.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdplab.program import insn as isa
from xdplab.program.insn import Insn, wide_immediate
from xdplab.user.flow import Block
from xdplab.user.link import DataRef, FunctionRef, LinkedProgram, MapRef
from xdplab.user.pointer_types import (
    MASK64,
    Callback,
    CallEffects,
    Constant,
    Ctx,
    Data,
    MapPointer,
    MapValue,
    MaybeCtx,
    Memory,
    Packet,
    PacketEnd,
    Stack,
    Type,
    Types,
    join,
    shift,
)


class _State:
    """Types before an instruction; `slots` are the stack's 8-byte values by offset."""

    __slots__ = ("registers", "slots")

    def __init__(self, registers: list[Type | None], slots: dict[int, Type]) -> None:
        self.registers = registers
        self.slots = slots

    def copy(self) -> _State:
        return _State(self.registers.copy(), self.slots.copy())

    def join(self, other: _State) -> bool:
        """Keep what holds in both; whether that changed anything here."""
        changed = False
        for number, mine in enumerate(self.registers):
            joined = join(mine, other.registers[number])
            if joined != mine:
                self.registers[number] = joined
                changed = True
        for offset in self.slots.keys() | other.slots.keys():
            before = self.slots.get(offset)
            after = join(before, other.slots.get(offset))
            if after != before:
                changed = True
                if after is None:
                    del self.slots[offset]
                else:
                    self.slots[offset] = after
        return changed

    def forget_slots(self, low: int | None, high: int | None) -> None:
        """Bytes `low` to `high` (None: no bound) may have been written, or not."""
        for offset in list(self.slots):
            if (low is not None and offset + 8 <= low) or (high is not None and offset >= high):
                continue
            if isinstance(self.slots[offset], Ctx | MaybeCtx):
                self.slots[offset] = MaybeCtx()
            else:
                del self.slots[offset]

    def overwrite(self, offset: int, size_bytes: int, value: Type | None) -> None:
        """`size_bytes` bytes were written for certain, as `value`."""
        for other in range(offset - 7, offset + size_bytes):
            self.slots.pop(other, None)
        if size_bytes == 8 and value is not None:
            self.slots[offset] = value


_CTX_POINTERS: Mapping[int, Type] = {0: Packet(0), 4: PacketEnd(), 8: Packet(None)}


def analyse(
    program: LinkedProgram, blocks: tuple[Block, ...], effects: CallEffects
) -> Mapping[int, Types]:
    """Types of the registers before every reachable instruction, by slot."""
    analysis = _Analysis(program, blocks, effects, ctx_in_memory=False)
    types = analysis.run()
    if analysis.stored_ctx and len(program.functions) > 1:
        # Another function may read it back through a pointer to this one's stack.
        types = _Analysis(program, blocks, effects, ctx_in_memory=True).run()
    return types


class _Analysis:
    def __init__(
        self,
        program: LinkedProgram,
        blocks: tuple[Block, ...],
        effects: CallEffects,
        ctx_in_memory: bool,
    ) -> None:
        self._program = program
        self._blocks = {block.start: block for block in blocks}
        self._effects = effects
        self._ctx_in_memory = ctx_in_memory
        self.stored_ctx = False
        self._entry: dict[int, _State] = {}
        self._waiting: list[int] = []

    def run(self) -> dict[int, Types]:
        registers: list[Type | None] = [None] * 11
        registers[1] = Ctx()
        registers[10] = Stack(0)
        self._arrive(0, _State(registers, {}))
        self._settle()
        for reference in self._program.references.values():
            # Nothing that is known of calls it, and yet its address is taken.
            if isinstance(reference, FunctionRef) and reference.start not in self._entry:
                self._enter_function(reference.start, [None] * 5)
                self._settle()
        types: dict[int, Types] = {}
        for start in list(self._entry):
            self._walk(start, types)
        return types

    def _settle(self) -> None:
        while self._waiting:
            self._walk(self._waiting.pop(), None)

    def _arrive(self, start: int, state: _State) -> None:
        known = self._entry.get(start)
        if known is None:
            self._entry[start] = state.copy()
            self._waiting.append(start)
        elif known.join(state):
            self._waiting.append(start)

    def _enter_function(self, start: int, arguments: list[Type | None]) -> None:
        registers: list[Type | None] = [None] * 11
        # A pointer to the caller's stack is no pointer to this function's own.
        registers[1:6] = [None if isinstance(kind, Stack) else kind for kind in arguments]
        registers[10] = Stack(0)
        self._arrive(start, _State(registers, {}))

    def _walk(self, start: int, record: dict[int, Types] | None) -> None:
        block = self._blocks[start]
        state = self._entry[start].copy()
        for slot in block.slots:
            if record is not None:
                record[slot] = tuple(state.registers)
            self._step(slot, self._program.insns[slot], state)
        if record is None:
            for successor in block.successors:
                self._arrive(successor, state)

    def _step(self, slot: int, insn: Insn, state: _State) -> None:
        registers = state.registers
        match insn.insn_class:
            case isa.ALU | isa.ALU64:
                registers[insn.dst] = _alu(insn, registers)
            case isa.LD:
                registers[insn.dst] = self._wide_load(slot, insn)
            case isa.LDX:
                registers[insn.dst] = self._load(insn, insn.src, state)
            case isa.ST | isa.STX:
                self._store(insn, state)
            case isa.JMP if insn.op == isa.CALL:
                self._call(slot, insn, state)

    def _wide_load(self, slot: int, insn: Insn) -> Type | None:
        match self._program.references.get(slot):
            case MapRef(name):
                return MapPointer(name)
            case DataRef(section):
                return Data(section)
            case FunctionRef(start):
                return Callback(start)
            case None:
                return Constant(wide_immediate(insn, self._program.insns[slot + 1]))
            case _:
                return None

    def _load(self, insn: Insn, base_register: int, state: _State) -> Type | None:
        match state.registers[base_register]:
            case Ctx(offset):
                return _CTX_POINTERS.get(offset + insn.off)
            case Stack(int(offset)) if insn.size == isa.DW:
                return state.slots.get(offset + insn.off)
            case Packet() | MapValue() | Memory() | Data():
                return None
            case Stack(None) if insn.size == isa.DW and any(
                isinstance(kind, Ctx | MaybeCtx) for kind in state.slots.values()
            ):
                return MaybeCtx()
            case _ if insn.size == isa.DW and self._ctx_in_memory:
                return MaybeCtx()
            case _:
                return None

    def _store(self, insn: Insn, state: _State) -> None:
        registers = state.registers
        if insn.mode == isa.ATOMIC and insn.imm == isa.LOAD_ACQUIRE:
            registers[insn.dst] = self._load(insn, insn.src, state)
            return
        is_plain = insn.insn_class == isa.STX and insn.mode == isa.MEM
        value = registers[insn.src] if is_plain and insn.size == isa.DW else None
        if insn.insn_class == isa.ST and insn.size == isa.DW:
            value = Constant(insn.imm & MASK64)
        if isinstance(registers[insn.src], Ctx | MaybeCtx) and insn.insn_class == isa.STX:
            self.stored_ctx = True
        match registers[insn.dst]:
            case Stack(int(offset)):
                state.overwrite(offset + insn.off, isa.SIZE_BYTES[insn.size], value)
            case Packet() | MapValue() | Memory() | Data():
                pass
            case _:
                # It may be a pointer into this very stack that lost its type on the way.
                state.forget_slots(None, None)
        if insn.mode == isa.ATOMIC and insn.imm & isa.FETCH:
            registers[0 if insn.imm == isa.CMPXCHG else insn.src] = None

    def _call(self, slot: int, insn: Insn, state: _State) -> None:
        reference = self._program.references.get(slot)
        arguments = state.registers[1:6]
        if isinstance(reference, FunctionRef):
            self._enter_function(reference.start, arguments)
            state.forget_slots(None, None)
            passed_ctx = any(isinstance(kind, Ctx | MaybeCtx) for kind in arguments)
            result: Type | None = MaybeCtx() if passed_ctx else None
        else:
            effect = self._effects(slot, insn, tuple(state.registers))
            result = effect.result
            if effect.callback is not None:
                self._called_back(state.registers[effect.callback], effect.callback_arguments)
                state.forget_slots(None, None)
            for number, size_bytes in effect.writes:
                self._written(state, state.registers[number], size_bytes)
        state.registers[0] = result
        state.registers[1:6] = [None] * 5

    def _called_back(self, callback: Type | None, arguments: tuple[Type | None, ...]) -> None:
        if isinstance(callback, Callback):
            self._enter_function(callback.start, list(arguments))
            return
        # It may be any function whose address the program takes, and get anything.
        for slot, reference in self._program.references.items():
            if isinstance(reference, FunctionRef) and self._program.insns[slot].is_wide:
                self._enter_function(reference.start, [None] * 5)

    @staticmethod
    def _written(state: _State, target: Type | None, size_bytes: int | None) -> None:
        match target:
            case Stack(int(offset)):
                end = None if size_bytes is None else offset + size_bytes
                state.forget_slots(offset, end)
            case Packet() | MapValue() | Memory() | Data() | Constant():
                pass
            case _:
                state.forget_slots(None, None)


def _alu(insn: Insn, registers: list[Type | None]) -> Type | None:
    target = registers[insn.dst]
    source = registers[insn.src] if insn.has_register_source else Constant(insn.imm & MASK64)
    wide = insn.insn_class == isa.ALU64
    match insn.op:
        case isa.MOV if insn.off == 0:
            if wide:
                return source
            return Constant(source.value & 0xFFFFFFFF) if isinstance(source, Constant) else None
        case isa.ADD if wide:
            return _add(target, source)
        case isa.SUB if wide:
            if isinstance(source, Constant):
                return shift(target, -_signed(source.value))
            return shift(target, None) if source is None else None
        case _:
            return None


def _add(one: Type | None, other: Type | None) -> Type | None:
    if isinstance(other, Constant):
        return shift(one, _signed(other.value))
    if isinstance(one, Constant):
        return shift(other, _signed(one.value))
    if other is None:
        return shift(one, None)
    return shift(other, None) if one is None else None


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
