"""Which program OBJ[:PROG] means: of an object that is read, or of a source that is compiled."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from xdplab.errors import UsageError
from xdplab.program.compile import CODE_FLAGS, compile_object, compiler_version
from xdplab.program.reader import read_object
from xdplab.program.spec import ObjectSpec, ProgramSpec


@dataclass(frozen=True, slots=True)
class Chosen:
    """The object and the program that were named. `compiler` and `flags` are what made the object
    here of its source, "" where it was an object already.
    """

    spec: ObjectSpec
    program: ProgramSpec
    compiler: str = ""
    flags: str = ""


def program_of(
    argument: str, include: Sequence[Path] = (), defines: Mapping[str, str] | None = None
) -> Chosen:
    """What OBJ[:PROG] names; OBJ is a .bpf.o, or a .bpf.c to compile with `include` and `defines`.

    UsageError where there is no such file or XDP program, or where several could be meant.
    """
    named, name = argument, ""
    if not os.path.exists(named) and ":" in argument:  # noqa: PTH110 - a name too long is none
        named, _, name = argument.rpartition(":")
        if not name:
            raise UsageError(
                f"{argument!r} names no program behind its colon. Give OBJ:PROG, or OBJ where it "
                "has a single program"
            )
    if not os.path.exists(named):  # noqa: PTH110 - as above
        raise UsageError(
            f"there is no file {named!r}. Give OBJ or OBJ:PROG, such as filter.bpf.o:drop"
        )
    path = Path(named)
    if path.suffix == ".c":
        raw = compile_object(path, include=include, defines=defines)
        spec = read_object(raw, path.name.removesuffix(".c").removesuffix(".bpf"))
        options = [f"-D{macro}={text}" for macro, text in (defines or {}).items()]
        compiler, flags = compiler_version() or "an unknown compiler", [*CODE_FLAGS, *options]
        return Chosen(spec, _one_of(spec, path, name), compiler, " ".join(flags))
    if include or defines:
        raise UsageError(f"-I and -D are for a source that is compiled; {path} is an object")
    spec = read_object(path)
    return Chosen(spec, _one_of(spec, path, name))


def _one_of(spec: ObjectSpec, path: Path, name: str) -> ProgramSpec:
    known = [program.name for program in spec.programs.values() if program.is_xdp]
    if not known:
        sections = ", ".join(f'SEC("{program.section}")' for program in spec.programs.values())
        raise UsageError(
            f"{path} has no XDP program, only {sections}. Give one whose section is "
            'SEC("xdp") or SEC("xdp.frags")'
        )
    if not name:
        if len(known) != 1:
            raise UsageError(
                f"{path} has {len(known)} programs: {', '.join(known)}. "
                f"Name one, such as {path}:{known[0]}"
            )
        name = known[0]
    program = spec.programs.get(name)
    if program is None:
        raise UsageError(f"{path} has no program {name!r}. It has: {', '.join(known)}")
    if not program.is_xdp:
        raise UsageError(
            f'{name} of {path} is no XDP program: it is in SEC("{program.section}"). '
            f"XDP programs there: {', '.join(known)}"
        )
    return program
