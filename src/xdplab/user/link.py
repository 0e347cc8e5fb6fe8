"""One program with all that it calls, in one sequence of instructions: what is translated.

Nothing is resolved to an address here: a reference to a map, to data or to what the kernel would
provide stays a name, so that a linked program is inert and the same in every process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdplab.errors import NotPossibleError, ObjectError, UsageError
from xdplab.program import insn as isa
from xdplab.program.insn import Insn, decode
from xdplab.program.spec import LineInfo, ObjectSpec, ProgramSpec, Relocation


@dataclass(frozen=True, slots=True)
class MapRef:
    """A 64-bit load of the address of map `name`."""

    name: str


@dataclass(frozen=True, slots=True)
class DataRef:
    """A 64-bit load of an address `offset_bytes` into data section `section`."""

    section: str
    offset_bytes: int


@dataclass(frozen=True, slots=True)
class FunctionRef:
    """A call of the function that starts at slot `start`, or its address as a callback."""

    start: int


@dataclass(frozen=True, slots=True)
class ExternRef:
    """A call of a kfunc, or the address of what the kernel provides; `weak` may be absent."""

    name: str
    weak: bool


Reference = MapRef | DataRef | FunctionRef | ExternRef


@dataclass(frozen=True, slots=True)
class LinkedFunction:
    """Slots `start` to `end` (excluded) of the linked program; the first one is the entry."""

    name: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class LinkedProgram:
    """A program and every function that it reaches.

    Slots are 8-byte instruction slots of the whole; `references` and `lines` are by slot.
    `lines` has None where the object has no line info.
    """

    object_name: str
    name: str
    insns: tuple[Insn, ...]
    functions: tuple[LinkedFunction, ...]
    references: Mapping[int, Reference]
    lines: tuple[LineInfo | None, ...]

    def function_at(self, slot: int) -> LinkedFunction:
        """The function that `slot` is in."""
        return next(function for function in self.functions if slot < function.end)

    def place(self, slot: int) -> str:
        """Where `slot` is, for a message: program, function, instruction and source line."""
        function = self.function_at(slot)
        inside = "" if function.start == 0 else f" in {function.name}"
        line = self.lines[slot]
        source = f" ({line.file}:{line.line})" if line else ""
        return f"{self.name}{inside}, instruction {slot - function.start}{source}"

    @property
    def maps(self) -> tuple[str, ...]:
        """Names of the maps that instructions refer to, in order of appearance."""
        found = (ref.name for ref in self.references.values() if isinstance(ref, MapRef))
        return tuple(dict.fromkeys(found))

    @property
    def sections(self) -> tuple[str, ...]:
        """Data sections that instructions refer to, in order of appearance."""
        found = (ref.section for ref in self.references.values() if isinstance(ref, DataRef))
        return tuple(dict.fromkeys(found))


def link(spec: ObjectSpec, program: str) -> LinkedProgram:
    """Put entry program `program` and the functions that it reaches together.

    UsageError where the object has no such program, ObjectError where its code is damaged,
    NotPossibleError where it needs what only the kernel can tell (CO-RE).
    """
    if program not in spec.programs:
        raise UsageError(
            f"{spec.name} has no program {program!r}. It has: {', '.join(spec.programs)}"
        )
    return _Linker(spec, program).link()


class _Linker:
    def __init__(self, spec: ObjectSpec, program: str) -> None:
        self._spec = spec
        self._program = program
        self._starts: dict[str, int] = {}
        self._insns: list[Insn] = []
        self._lines: list[LineInfo | None] = []
        self._functions: list[LinkedFunction] = []

    def link(self) -> LinkedProgram:
        placed: list[tuple[int, Relocation]] = []
        waiting = [self._program]
        while waiting:
            name = waiting.pop(0)
            if name in self._starts:
                continue
            function = self._find(name)
            start = self._place(function)
            for relocation in function.relocations:
                placed.append((start + relocation.insn_index, relocation))
                if relocation.kind in ("call", "func"):
                    waiting.append(relocation.symbol)
        linked = LinkedProgram(
            object_name=self._spec.name,
            name=self._program,
            insns=tuple(self._insns),
            functions=tuple(self._functions),
            references={slot: self._resolve(relocation) for slot, relocation in placed},
            lines=tuple(self._lines),
        )
        _check_references(linked)
        return linked

    def _find(self, name: str) -> ProgramSpec:
        function = self._spec.subprograms.get(name) or self._spec.programs.get(name)
        if function is None:
            raise ObjectError(
                f"Linking {self._program} of {self._spec.name}: it calls {name}, which the "
                "object does not have"
            )
        if function.core_misfit:
            raise NotPossibleError(
                f"Linking {self._program} of {self._spec.name}: function {name} leaves it to CO-RE "
                f"where the members of struct {function.core_misfit} are. Declare all of them, or "
                "run it on the kernel engine"
            )
        # CO-RE relocations adapt a program to a kernel's types. There is no kernel here: what the
        # program runs on are its own types, for which it was compiled, so there is nothing to do.
        return function

    def _place(self, function: ProgramSpec) -> int:
        start = len(self._insns)
        self._starts[function.name] = start
        insns = decode(function.insns)
        self._insns.extend(insns)
        self._functions.append(LinkedFunction(function.name, start, start + len(insns)))
        by_index = {line.insn_index: line for line in function.line_info}
        current: LineInfo | None = None
        for index in range(len(insns)):
            current = by_index.get(index, current)
            self._lines.append(current)
        return start

    def _resolve(self, relocation: Relocation) -> Reference:
        spec = self._spec
        if (relocation.kind == "map" and relocation.symbol not in spec.maps) or (
            relocation.kind == "data" and relocation.section not in spec.sections
        ):
            raise ObjectError(
                f"Linking {self._program} of {spec.name}: it refers to "
                f"{relocation.symbol or relocation.section!r}, which is no map or data that the "
                "object has"
            )
        match relocation.kind:
            case "map":
                return MapRef(relocation.symbol)
            case "data":
                return DataRef(relocation.section, relocation.addend)
            case "call" | "func":
                return FunctionRef(self._starts[relocation.symbol])
            case "extern":
                extern = self._spec.externs.get(relocation.symbol)
                return ExternRef(relocation.symbol, extern is not None and extern.weak)


def _check_references(program: LinkedProgram) -> None:
    """ObjectError where an instruction needs a reference that no relocation gives it."""
    slot = 0
    while slot < len(program.insns):
        insn = program.insns[slot]
        reference = program.references.get(slot)
        wanted: tuple[type[Reference], ...] | None = None
        if insn.is_wide and (insn.src or reference):
            wanted = (MapRef, DataRef, FunctionRef, ExternRef)
        elif insn.code == isa.JMP | isa.CALL and insn.src == isa.CALL_LOCAL:
            # A kfunc's call has no pseudo source before libbpf fills one in.
            wanted = (FunctionRef, ExternRef)
        elif insn.code == isa.JMP | isa.CALL and insn.src == isa.CALL_KFUNC:
            wanted = (ExternRef,)
        if wanted is not None and not isinstance(reference, wanted):
            raise ObjectError(
                f"Linking {program.place(slot)}: it refers to something that the object does "
                "not name"
            )
        slot += 2 if insn.is_wide else 1
