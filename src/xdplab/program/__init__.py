"""Programs as inert data: compile C, read an object, decode instructions."""

from xdplab.program.compile import CODE_FLAGS, compile_object, compiler_version
from xdplab.program.disasm import disassemble
from xdplab.program.insn import Insn, decode, encode
from xdplab.program.reader import read_object
from xdplab.program.spec import (
    ExternSpec,
    GlobalSpec,
    LineInfo,
    MapSpec,
    ObjectSpec,
    ProgramSpec,
    Relocation,
)

__all__ = [
    "CODE_FLAGS",
    "ExternSpec",
    "GlobalSpec",
    "Insn",
    "LineInfo",
    "MapSpec",
    "ObjectSpec",
    "ProgramSpec",
    "Relocation",
    "compile_object",
    "compiler_version",
    "decode",
    "disassemble",
    "encode",
    "read_object",
]
