"""A linked program to one module of LLVM IR.

BPF's registers are local variables that LLVM makes values of; a block of the program is a block of
the module. The module's `program` is `u64 (struct user_frame *)`. Maps, data and helpers stay
external symbols, so that the compiled code is the same in every process and can be kept.

A timed program does what the kernel's JIT would have it do, which is not all that LLVM would
do: see options.Options.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdplab.errors import MissingFeatureError
from xdplab.program import insn as isa
from xdplab.program.insn import Insn, wide_immediate
from xdplab.program.spec import ObjectSpec
from xdplab.user.abi import Fault, UserFrame, UserState
from xdplab.user.calls import call_effects
from xdplab.user.flow import Block, find_blocks, is_jump, is_tail_call
from xdplab.user.flow_types import analyse
from xdplab.user.link import DataRef, ExternRef, FunctionRef, LinkedProgram, MapRef
from xdplab.user.options import Options
from xdplab.user.pointer_types import Types
from xdplab.user.prototypes import HELPERS, KFUNCS
from xdplab.user.translate_alu import emit_alu, emit_condition
from xdplab.user.translate_calls import emit_call, emit_tail_call
from xdplab.user.translate_ir import (
    FRAME,
    METADATA,
    REGISTERS,
    STACK_BYTES,
    STATE,
    Emitter,
)
from xdplab.user.translate_memory import emit_load, emit_store
from xdplab.user.translate_scope import Scope, Symbols
from xdplab.user.translate_support import FRAMES, support

ENTRY = "program"
"""The symbol of the entry program."""

COUNTS = "counts"
"""The symbol of a counted program's u64 for each of its blocks."""

MAY_GOTO_TURNS = 8 << 20
"""How often may_goto goes on before it jumps: BPF_MAX_LOOPS (include/linux/bpf_verifier.h)."""

_BARRIER = 'call void asm sideeffect "", ""()'
_INTRINSICS = (
    "declare i16 @llvm.bswap.i16(i16)",
    "declare i32 @llvm.bswap.i32(i32)",
    "declare i64 @llvm.bswap.i64(i64)",
    "declare i64 @llvm.umin.i64(i64, i64)",
)


@dataclass(frozen=True, slots=True)
class Translation:
    """IR text, and what must be given to it.

    `maps` and `sections` name what symbols map_symbol() and section_symbol() stand for;
    `functions` are symbols of the runtime; `needs_regions`: the tables of translate_support too.
    `blocks` are all blocks; those that no path reaches are never counted.
    """

    ir: str
    blocks: tuple[Block, ...]
    maps: tuple[str, ...]
    sections: tuple[str, ...]
    functions: tuple[str, ...]
    needs_regions: bool


def map_symbol(name: str) -> str:
    """The symbol for a map's struct user_map."""
    return f"map:{name}"


def section_symbol(name: str) -> str:
    """The symbol for the bytes of a data section."""
    return f"data:{name}"


def translate(spec: ObjectSpec, program: LinkedProgram, options: Options) -> Translation:
    """Translate a linked program of `spec`.

    ObjectError where its code is damaged, NotPossibleError where it is nothing for XDP,
    MissingFeatureError where the engine lacks a helper, kfunc or kernel variable.
    """
    blocks = find_blocks(program)
    types = analyse(program, blocks, call_effects(program, spec.maps))
    translator = _Translator(spec, program, options, blocks, types)
    return translator.translate()


class _Translator:
    def __init__(
        self,
        spec: ObjectSpec,
        program: LinkedProgram,
        options: Options,
        blocks: tuple[Block, ...],
        types: Mapping[int, Types],
    ) -> None:
        self._spec = spec
        self._program = program
        self._options = options
        self._blocks = blocks
        self._types = types
        self._section_bytes = {name: len(data) for name, data in spec.sections.items()}
        self._symbols = Symbols()

    def translate(self) -> Translation:
        functions = [self._function(index) for index in range(len(self._program.functions))]
        symbols = self._symbols
        parts = [
            *self._externals(),
            *_INTRINSICS,
            support() if self._options.guards else "",
            *functions,
            METADATA,
        ]
        return Translation(
            ir="\n".join(parts),
            blocks=self._blocks,
            maps=tuple(sorted(symbols.maps)),
            sections=tuple(sorted(symbols.sections)),
            functions=tuple(sorted(symbols.functions)),
            needs_regions=self._options.guards,
        )

    def _externals(self) -> list[str]:
        symbols = self._symbols
        data = [map_symbol(name) for name in symbols.maps]
        data += [section_symbol(name) for name in symbols.sections]
        counts = {
            spec.symbol_for(kind): len(spec.arguments)
            for spec in (*HELPERS.values(), *KFUNCS.values())
            for kind in (None, *spec.by_map_type)
        }
        data += [COUNTS] if self._options.counts else []
        lines = [f'@"{name}" = external global i8' for name in sorted(data)]
        for name in sorted(symbols.functions):
            count = 5 if self._options.inline_helpers else counts.get(name, 5)
            asked = ["ptr"] if name not in counts else []
            arguments = ", ".join(["ptr", *["i64"] * count, *asked])
            lines.append(f"declare i64 @{name}({arguments}) nounwind")
        return lines

    def _function(self, index: int) -> str:
        function = self._program.functions[index]
        blocks = [
            block
            for block in self._blocks
            if block.function == index and block.start in self._types
        ]
        if not blocks:
            return ""
        emitter = Emitter()
        is_entry = index == 0
        scope = Scope(
            program=self._program,
            options=self._options,
            emitter=emitter,
            types=self._types,
            maps=self._spec.maps,
            section_bytes=self._section_bytes,
            symbols=self._symbols,
            is_entry=is_entry,
            slot=function.start,
        )
        self._prologue(scope, blocks)
        for block in blocks:
            self._block(scope, block)
        if self._options.guards:
            emitter.begin("out")
            emitter.do("store i32 %depth, ptr @depth")
            # XDP_ABORTED of a program; a callback that returns 1 ends its loop.
            emitter.do(f"ret i64 {0 if is_entry else 1}")
        body = "\n".join(emitter.lines)
        if is_entry:
            return f"define i64 @{ENTRY}(ptr %frame) nounwind {{\n{body}\n}}"
        arguments = ", ".join(f"i64 %a{number}" for number in range(1, 6))
        inlining = " noinline" if self._options.is_faithful else ""
        return (
            f"define internal i64 @sub{function.start}(ptr %frame, {arguments}) "
            f"nounwind{inlining} {{\n{body}\n}}"
        )

    def _prologue(self, scope: Scope, blocks: list[Block]) -> None:
        emitter = scope.emitter
        emitter.begin("entry")
        for number in range(REGISTERS):
            emitter.do(f"%r{number} = alloca i64")
        for slot in self._may_gotos(blocks):
            emitter.do(f"%turns{slot} = alloca i64")
            emitter.do(f"store i64 {MAY_GOTO_TURNS}, ptr %turns{slot}")
        if not self._options.guards:
            emitter.do(f"%stack = alloca [{STACK_BYTES} x i8], align 16")
        state = emitter.field("%frame", UserFrame.state.offset)
        emitter.do(f"%state = load ptr, ptr {state}, {FRAME}")
        if self._options.guards:
            self._open_frame(scope)
        emitter.do(f"%top = getelementptr i8, ptr %stack, i64 {STACK_BYTES}")
        if scope.is_entry:
            given = {1: emitter.value("ptrtoint ptr %frame to i64")}
        else:
            given = {number: f"%a{number}" for number in range(1, 6)}
            if self._options.is_faithful:
                # Or LLVM could tell that a call has no effect.
                emitter.do(_BARRIER)
        given[10] = emitter.value("ptrtoint ptr %top to i64")
        for number in range(REGISTERS):
            emitter.put(number, given.get(number, "0"))
        emitter.do(f"br label %b{blocks[0].start}")

    def _may_gotos(self, blocks: list[Block]) -> list[int]:
        code = isa.JMP | isa.JCOND
        return [
            slot
            for block in blocks
            for slot in block.slots
            if self._program.insns[slot].code == code
        ]

    def _open_frame(self, scope: Scope) -> None:
        emitter = scope.emitter
        emitter.do("%depth = load i32, ptr @depth")
        scope.require(emitter.value(f"icmp ult i32 %depth, {FRAMES}"), Fault.DEPTH)
        emitter.do(f"store i32 {emitter.value('add i32 %depth, 1')}, ptr @depth")
        start = emitter.value(f"mul i32 %depth, {STACK_BYTES}")
        emitter.do(f"%stack = getelementptr i8, ptr @stack, i32 {start}")

    def _block(self, scope: Scope, block: Block) -> None:
        emitter = scope.emitter
        emitter.begin(f"b{block.start}")
        scope.slot = block.start
        if self._options.guards:
            self._spend(scope, block)
        elif self._options.is_faithful and block.is_loop_head:
            emitter.do(_BARRIER)
        for slot in block.slots:
            scope.slot = slot
            insn = self._program.insns[slot]
            if is_tail_call(insn):
                emit_tail_call(scope, block.successors[0])
                return
            if is_jump(insn):
                self._jump(scope, insn, block)
                return
            if insn.code == isa.JMP | isa.EXIT:
                if self._options.guards:
                    emitter.do("store i32 %depth, ptr @depth")
                emitter.do(f"ret i64 {emitter.get(0)}")
                return
            self._plain(scope, insn)
        emitter.do(f"br label %b{block.successors[0]}")

    def _spend(self, scope: Scope, block: Block) -> None:
        """Take the block's instructions off the budget, and count the block."""
        emitter = scope.emitter
        count = len(block.slots)
        left = emitter.load_field("%state", UserState.budget.offset, 64, STATE)
        scope.require(emitter.value(f"icmp uge i64 {left}, {count}"), Fault.BUDGET)
        rest = emitter.value(f"sub i64 {left}, {count}")
        budget = emitter.field("%state", UserState.budget.offset)
        emitter.do(f"store i64 {rest}, ptr {budget}, {STATE}")
        if self._options.counts:
            mine = emitter.field(f"@{COUNTS}", 8 * block.index)
            before = emitter.value(f"load i64, ptr {mine}, {STATE}")
            after = emitter.value(f"add i64 {before}, 1")
            emitter.do(f"store i64 {after}, ptr {mine}, {STATE}")

    def _jump(self, scope: Scope, insn: Insn, block: Block) -> None:
        emitter = scope.emitter
        if insn.op == isa.JA:
            emitter.do(f"br label %b{block.successors[0]}")
            return
        onward, target = block.successors
        if insn.op == isa.JCOND:
            turns = emitter.value(f"load i64, ptr %turns{scope.slot}")
            condition = emitter.value(f"icmp eq i64 {turns}, 0")
            fewer = emitter.value(f"call i64 @llvm.umin.i64(i64 {turns}, i64 1)")
            emitter.do(
                f"store i64 {emitter.value(f'sub i64 {turns}, {fewer}')}, ptr %turns{scope.slot}"
            )
        else:
            condition = emit_condition(emitter, insn)
        emitter.branch(condition, f"b{target}", f"b{onward}")

    def _plain(self, scope: Scope, insn: Insn) -> None:
        match insn.insn_class:
            case isa.ALU | isa.ALU64:
                emit_alu(scope.emitter, insn, self._options.is_faithful)
            case isa.LD:
                scope.emitter.put(insn.dst, self._wide_load(scope, insn))
            case isa.LDX:
                emit_load(scope, insn)
            case isa.ST | isa.STX:
                emit_store(scope, insn)
            case _:
                emit_call(scope, insn)

    def _wide_load(self, scope: Scope, insn: Insn) -> str:
        emitter = scope.emitter
        match self._program.references.get(scope.slot):
            case MapRef(name):
                return emitter.value(f"ptrtoint ptr {scope.map_symbol(name)} to i64")
            case DataRef(section, offset):
                start = emitter.value(f"ptrtoint ptr {scope.section_symbol(section)} to i64")
                return emitter.value(f"add i64 {start}, {offset}")
            case FunctionRef(start_slot):
                return emitter.value(f"ptrtoint ptr @sub{start_slot} to i64")
            case ExternRef(name, weak):
                if name in KFUNCS:
                    # Programs only ask whether there is one.
                    return "1"
                if weak:
                    return "0"
                raise MissingFeatureError(
                    name,
                    f"Translating {self._program.place(scope.slot)}: it needs the kernel's "
                    f"{name}, which the user-space engine does not have",
                )
            case None:
                return str(wide_immediate(insn, self._program.insns[scope.slot + 1]))
