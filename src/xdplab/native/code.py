"""Native functions from LLVM IR to an address: a variant of their branches, a place, a load.

Where code lies decides part of what it costs, so each load may lie elsewhere. C functions begin at
multiples of 16 bytes; SHIFTS are those within a line of 64, and all functions of a load share one,
so that a comparison does not have their places in it.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Iterator, Sequence
from importlib import resources
from typing import TYPE_CHECKING

from xdplab import __version__
from xdplab.errors import NotPossibleError, XdplabError
from xdplab.program.native import CodeVariant, NativeSpec
from xdplab.user import jit, runtime
from xdplab.user.cache import ObjectCache

if TYPE_CHECKING:
    from llvmlite.binding import ModuleRef, TargetMachine

SHIFTS = (0, 16, 32, 48)
"""Where in a line of 64 bytes functions may begin."""

_FUNCTION = re.compile(r"^define (?!internal)[^@]*@(\w+)\(", re.MULTILINE)
_VARIABLE = re.compile(r"^@(\w+) = (?!internal|private)[^\n]*\bglobal i64\b", re.MULTILINE)
_DEFINITION = re.compile(r"^(define .*?)( \{)$", re.MULTILINE)

_RETURN_THUNKS = {"thunk": "native_return_thunk", "safe": "native_return_safe"}
_INDIRECT_THUNKS = {"thunk": "native_indirect_thunk", "retpoline": "native_indirect_retpoline"}
_THUNK_FEATURES = "+retpoline-indirect-calls,+retpoline-indirect-branches,+retpoline-external-thunk"


def why_not(variant: CodeVariant) -> str:
    """Why this machine has no such variant; "" where it has."""
    if variant == CodeVariant() or runtime.architecture() == "x86_64":
        return ""
    return f"{variant.name}: thunks are there for x86-64 alone, and this is another processor"


def lacking_features(names: Sequence[str]) -> list[str]:
    """Which of these features, by LLVM's names, the processor and its system do not have."""
    present = jit.host()[1].split(",")
    return [name for name in names if f"+{name}" not in present]


class NativeCode:
    """One spec, compiled for this processor as often as it has places (kept on disk)."""

    def __init__(self, spec: NativeSpec, cache: ObjectCache | None = None) -> None:
        """NotPossibleError where this machine has no native functions, or not this variant."""
        if why := why_not(spec.variant):
            raise NotPossibleError(f"{spec.source}.c cannot be compiled as asked for: {why}")
        self._spec = spec
        self._cache = cache
        self._text = _source(spec.source, runtime.architecture())
        self.functions = frozenset(_FUNCTION.findall(self._text))
        self.variables = frozenset(_VARIABLE.findall(self._text))

    def load(self, shift: int) -> jit.LoadedCode:
        """Another copy in memory, all of whose functions begin at 64 * n + `shift`."""
        return jit.LoadedCode(self.machine_code(shift), {}, (*self.functions, *self.variables))

    def machine_code(self, shift: int) -> bytes:
        """The relocatable object for functions that begin at 64 * n + `shift`."""
        key = hashlib.sha256("\0".join((*_versions(), *self._parts(shift))).encode()).hexdigest()
        kept = self._cache.read(key) if self._cache else None
        if kept is not None:
            return kept
        module, machine = self.module(shift)
        data: bytes = machine.emit_object(module)
        if self._cache:
            self._cache.write(key, data)
        return data

    def module(self, shift: int) -> tuple[ModuleRef, TargetMachine]:
        """What `machine_code` is made of. LLVM optimised it in the build: no pass comes now."""
        import llvmlite.binding as llvm

        features, text = self._parts(shift)
        machine = jit.new_machine(features)
        try:
            module = llvm.parse_assembly(text)
        except RuntimeError as error:
            raise XdplabError(
                f"LLVM refused {self._spec.name}, which is a bug of xdplab: {error}"
            ) from None
        module.triple = machine.triple
        module.data_layout = str(machine.target_data)
        return module, machine

    def _parts(self, shift: int) -> tuple[str, str]:
        features = _THUNK_FEATURES if self._spec.variant.branches != "plain" else ""
        return features, "\n".join(_placed(self._text, self._spec.variant, shift))


def _versions() -> tuple[str, ...]:
    import llvmlite

    return "native", __version__, llvmlite.__version__, *jit.host()


def _placed(text: str, variant: CodeVariant, shift: int) -> Iterator[str]:
    """The IR with the variant's thunks, and room in front of every function."""
    attribute = " fn_ret_thunk_extern" if variant.returns != "plain" else ""
    prefix = f" prefix [{shift} x i8] zeroinitializer" if shift else ""
    yield _DEFINITION.sub(rf"\1{attribute} align 64{prefix}\2", text)
    if variant != CodeVariant():
        # The quote is all that a line may have and a string of LLVM's may not.
        quoted = (line.replace('"', r"\22") for line in _thunks(variant))
        yield from (f'module asm "{line}"' for line in quoted)


def _thunks(variant: CodeVariant) -> Iterator[str]:
    thunks = resources.files("xdplab").joinpath("native", "thunks.x86_64.s").read_text()
    yield from thunks.splitlines()
    if variant.returns != "plain":
        yield f".set __x86_return_thunk, {_RETURN_THUNKS[variant.returns]}"
    if variant.branches != "plain":
        yield f".set __x86_indirect_thunk_r11, {_INDIRECT_THUNKS[variant.branches]}"


@functools.cache
def _source(name: str, architecture: str) -> str:
    file_name = f"{name}.{architecture}.ll"
    path = resources.files("xdplab").joinpath("native", "objects", file_name)
    try:
        return runtime.without_target(path.read_text())
    except FileNotFoundError:
        raise NotPossibleError(
            f"loading native functions: {file_name} is missing from the package. "
            "Install xdplab again, or run scripts/test in a clone"
        ) from None
