"""LLVM IR to machine code in this process.

Compiling gives a relocatable object, the same in every process; loading puts it into memory and
fills in addresses. One object may be loaded many times, each time somewhere else.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from xdplab import __version__
from xdplab.errors import XdplabError
from xdplab.user import runtime
from xdplab.user.cache import ObjectCache
from xdplab.user.options import Options
from xdplab.user.translate import ENTRY

if TYPE_CHECKING:
    from llvmlite.binding import LLJIT, ModuleRef, ResourceTracker, TargetMachine

# What LLVM may make of loops and copies; every libc has them.
_LIBC = ("memcpy", "memmove", "memset", "memcmp", "bcmp", "clock_gettime")

_names = itertools.count()

# The passes that make values of registers, drop arguments that no subprogram reads, and put blocks
# together. The rest of -O1 gave no faster code (IPv4 parsed in 4.2 ns either way), took three times
# as long, and made of programs what no BPF JIT makes of them: ten thousand multiplications became
# a hundred.
_PASSES = (
    "always_inliner",
    "sroa",
    "dead_arg_elimination",
    "instruction_combine",
    "simplify_cfg",
)

_LARGE_CHARACTERS = 1_100_000
"""Of IR that is not optimised further: -O1 took 1 s for a load balancer of 2,560 instructions, a
million characters when checked, and 70 s for one of 6,062, which _PASSES are done with in one."""


@functools.cache
def _initialize() -> None:
    import llvmlite.binding as llvm

    runtime.architecture()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()


@functools.cache
def _machine(quick: bool = False) -> TargetMachine:
    return new_machine(quick=quick)


def new_machine(features: str = "", *, quick: bool = False) -> TargetMachine:
    """A code generator for this processor, with more of LLVM's `features` ("+one,-other").

    Its code reaches data and functions as the kernel's does, by short relative addresses.
    """
    import llvmlite.binding as llvm

    _initialize()
    cpu, own = host()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=cpu,
        features=f"{own},{features}" if features else own,
        opt=0 if quick else 2,
        reloc="pic",
        codemodel="small",
        jit=True,
    )


@functools.cache
def _jit() -> LLJIT:
    import llvmlite.binding as llvm

    # It takes its target machine over, so that machine is one of its own.
    return llvm.create_lljit_compiler(new_machine(), use_jit_link=True)


@functools.cache
def _libc() -> Mapping[str, int]:
    libc = ctypes.CDLL(None)
    return {name: ctypes.cast(getattr(libc, name), ctypes.c_void_p).value or 0 for name in _LIBC}


def compile_ir(ir: str, options: Options, cache: ObjectCache | None = None) -> bytes:
    """Machine code of a translation as a relocatable object.

    `cache` is asked first, and told after.
    """
    key = _key(ir, options)
    kept = cache.read(key) if cache else None
    if kept is not None:
        return kept
    import llvmlite.binding as llvm

    machine = _machine(options.is_quick)
    try:
        module = llvm.parse_assembly(ir)
    except RuntimeError as error:
        raise XdplabError(
            f"LLVM refused a translation, which is a bug of xdplab: {error}"
        ) from None
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    tuning = llvm.create_pipeline_tuning_options(speed_level=1)
    builder = llvm.create_pass_builder(machine, tuning)
    if options.inline_helpers:
        _take_helpers(module)
    if options.is_faithful or options.is_quick or len(ir) > _LARGE_CHARACTERS:
        passes = llvm.create_new_module_pass_manager()
        for name in _PASSES:
            getattr(passes, f"add_{name}_pass")()
    else:
        passes = builder.getModulePassManager()
    passes.run(module, builder)
    data: bytes = machine.emit_object(module)
    if cache:
        cache.write(key, data)
    return data


def _take_helpers(module: ModuleRef) -> None:
    import llvmlite.binding as llvm

    wanted = {function.name for function in module.functions if function.is_declaration}
    module.link_in(runtime.runtime_module())
    for function in module.functions:
        if function.is_declaration or function.name == ENTRY:
            continue
        function.linkage = "internal"
        if function.name in wanted:
            function.add_function_attribute("alwaysinline")
    # Most of the runtime is not called, and must not be optimised for nothing.
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    tuning = llvm.create_pipeline_tuning_options(speed_level=1)
    passes.run(module, llvm.create_pass_builder(_machine(), tuning))


@functools.cache
def host() -> tuple[str, str]:
    """The processor and its features. LLVM takes a third of a millisecond to find them."""
    import llvmlite.binding as llvm

    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


def _key(ir: str, options: Options) -> str:
    import llvmlite

    parts = [
        __version__,
        llvmlite.__version__,
        *host(),
        repr(options),
        str(runtime.runtime_module()) if options.inline_helpers else "",
        ir,
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


class LoadedCode:
    """A compiled object in memory, until nobody holds it.

    `addresses` are those of its `exports`, `address` that of the first.
    """

    def __init__(
        self, data: bytes, symbols: Mapping[str, int], exports: Sequence[str] = (ENTRY,)
    ) -> None:
        """`symbols` gives addresses to the names that the object leaves open."""
        import llvmlite.binding as llvm

        builder = llvm.JITLibraryBuilder()
        builder.add_object_img(data)
        for name, address in {**_libc(), **symbols}.items():
            builder.import_symbol(name, address)
        for name in exports:
            builder.export_symbol(name)
        try:
            self._tracker: ResourceTracker = builder.link(_jit(), f"program{next(_names)}")
        except RuntimeError as error:
            raise XdplabError(f"LLVM could not load a compiled program: {error}") from None
        self.addresses = {name: int(self._tracker[name]) for name in exports}
        self.address = self.addresses[exports[0]]


def runtime_copy() -> LoadedCode:
    """The runtime's machine code once more, at another place; `addresses` are its functions'."""
    library = runtime.library()
    return LoadedCode(library.object_code, {}, tuple(library.symbols()))
