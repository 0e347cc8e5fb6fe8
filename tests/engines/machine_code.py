"""What the native engine's functions become: their assembly, to be looked at."""

from __future__ import annotations

import functools

from xdplab.native.code import NativeCode
from xdplab.program.native import NativeSpec


@functools.cache
def _lines(spec: NativeSpec) -> list[str]:
    module, machine = NativeCode(spec).module(0)
    return list(machine.emit_assembly(module).splitlines())


def assembly(spec: NativeSpec, function: str) -> str:
    """The lines of one function as LLVM writes them for this processor."""
    lines = _lines(spec)
    start = lines.index(f"{function}:")
    end = next(number for number in range(start, len(lines)) if "func_end" in lines[number])
    # Without what only assemblers read.
    return "\n".join(line for line in lines[start:end] if not line.startswith("\t."))
