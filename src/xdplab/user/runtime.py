"""The C runtime in this process: its IR for linking, one JITed copy for all, and what they share.

The IR was compiled when the package was built (runtime/objects). `library()` makes machine code
of it once a process, for this processor, and makes its functions known to LLVM by name:
a program that is JITed later and declares `user_helper_map_lookup_elem` gets the shared copy's.
A program that is to have helpers inlined links `runtime_module()` into its own module instead.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import time
from importlib import resources
from typing import TYPE_CHECKING, Any

from xdplab.errors import NotPossibleError
from xdplab.user.abi import ClearHead, Move, UserHost, UserRoute, UserState
from xdplab.user.cache import ObjectCache
from xdplab.user.prototypes import HELPERS, KFUNCS, Argument, ArgumentKind, HelperSpec, ReturnKind

if TYPE_CHECKING:
    from llvmlite.binding import ModuleRef, TargetMachine

__all__ = [
    "HELPERS",
    "KFUNCS",
    "Argument",
    "ArgumentKind",
    "HelperSpec",
    "Host",
    "ReturnKind",
    "RuntimeLibrary",
    "adjust_head_variant",
    "library",
    "runtime_module",
    "target_machine",
]

_ARCHITECTURES = {"x86_64": "x86_64", "AMD64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}
# What the runtime calls; all of them are in every libc.
_LIBC = ("memcpy", "memmove", "memset", "memcmp", "bcmp", "clock_gettime")

_TRACE_BYTES = 1 << 16


@functools.cache
def target_machine() -> TargetMachine:
    """LLVM's code generator for this processor, best optimisation, for a JIT.

    For all who emit code; an execution engine takes its machine over and needs one of its own.
    NotPossibleError where the user-space engine has no runtime for this architecture.
    """
    return _new_target_machine()


def _new_target_machine() -> TargetMachine:
    import llvmlite.binding as llvm

    architecture()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    # The runtime has inline assembly.
    llvm.initialize_native_asmparser()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
        # Parts call one another directly, as a kernel's do.
        reloc="pic",
        codemodel="small",
        jit=True,
    )


def architecture() -> str:
    """This machine's architecture as the runtime's objects are named: "x86_64" or "aarch64".

    NotPossibleError where there is no such object.
    """
    machine = platform.machine()
    if machine not in _ARCHITECTURES:
        raise NotPossibleError(
            f"the user-space engine was asked for on {machine}, for which it has no runtime; "
            f"it runs on {', '.join(sorted(set(_ARCHITECTURES.values())))}"
        )
    return _ARCHITECTURES[machine]


@functools.cache
def _text() -> str:
    name = f"runtime.{architecture()}.ll"
    path = resources.files("xdplab").joinpath("user/runtime/objects", name)
    try:
        # Other modules have their own copy or this one: where it lies is not to be assumed.
        return without_target(path.read_text()).replace(" dso_local ", " ")
    except FileNotFoundError:
        raise NotPossibleError(
            f"loading the user-space engine's runtime: {name} is missing from the package. "
            "Install xdplab again, or run scripts/test in a clone"
        ) from None


def without_target(text: str) -> str:
    """LLVM IR that leaves it to the target machine where the code runs: it may be a Mac."""
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("target "))


def runtime_module() -> ModuleRef:
    """The runtime as a new LLVM module for this machine, in llvmlite's global context.

    To be linked into a program's module, which consumes it; the caller drops what is not called.
    """
    import llvmlite.binding as llvm

    machine = target_machine()
    module = llvm.parse_assembly(_text())
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    return module


def _key() -> str:
    import llvmlite
    import llvmlite.binding as llvm

    parts = (
        _text(),
        llvmlite.__version__,
        llvm.get_default_triple(),
        llvm.get_host_cpu_name(),
        llvm.get_host_cpu_features().flatten(),
    )
    return "runtime-" + hashlib.sha256("\0".join(parts).encode()).hexdigest()


class RuntimeLibrary:
    """The runtime's machine code; made by `library()`, lives as long as the process.

    `object_code` is the relocatable object that it was loaded from.
    `cache` keeps it for the next process, in the user's cache folder unless another is given.
    """

    def __init__(self, cache: ObjectCache | None = None) -> None:
        import llvmlite.binding as llvm

        machine = _new_target_machine()
        # Compiling takes half a second, reading what was compiled once a few milliseconds.
        self._cache = cache or ObjectCache()
        key = _key()
        libc = ctypes.CDLL(None)
        for name in _LIBC:
            address = ctypes.cast(getattr(libc, name), ctypes.c_void_p).value
            llvm.add_symbol(name, address)
        module = runtime_module()
        names = [
            function.name
            for function in module.functions
            if not function.is_declaration and function.linkage.name == "external"
        ]
        self.object_code = b""

        def compiled(_module: ModuleRef, data: bytes) -> None:
            self.object_code = data
            self._cache.write(key, data)

        def kept(_module: ModuleRef) -> bytes | None:
            self.object_code = self._cache.read(key) or b""
            return self.object_code or None

        self._engine = llvm.create_mcjit_compiler(module, machine)
        self._engine.set_object_cache(compiled, kept)
        self._engine.finalize_object()
        self._addresses = {name: int(self._engine.get_function_address(name)) for name in names}
        for name, address in self._addresses.items():
            llvm.add_symbol(name, address)

    def address(self, symbol: str) -> int:
        """Address of one of the runtime's functions, such as "user_run"; KeyError otherwise."""
        return self._addresses[symbol]

    def symbols(self) -> dict[str, int]:
        """Every function of the runtime with its address."""
        return dict(self._addresses)

    def function(self, symbol: str, result: Any, *arguments: Any) -> Any:
        """One of the runtime's functions as a ctypes function of that type."""
        return ctypes.CFUNCTYPE(result, *arguments)(self.address(symbol))


@functools.cache
def library() -> RuntimeLibrary:
    """The process's copy of the runtime's machine code.

    NotPossibleError where this machine is not supported.
    """
    return RuntimeLibrary()


def adjust_head_variant(clear_head: ClearHead, move: Move = Move.MEMMOVE) -> str:
    """The function that does as bpf_xdp_adjust_head with these settings, and nothing else.

    To be called instead of "user_helper_xdp_adjust_head" where variants are compared: that one
    asks the state each time. ValueError where there is no such function (both changed).
    """
    if move is Move.WORDS:
        if clear_head is not ClearHead.NONE:
            raise ValueError(f"no variant both clears by {clear_head.name} and moves by words")
        return "user_variant_xdp_adjust_head_move_words"
    return f"user_variant_xdp_adjust_head_{clear_head.name.lower()}"


class Host:
    """A struct user_host with the memory behind it: clocks, trace buffer, routes.

    Several states may share it. `nr_cpus` is what programs see as possible CPUs.
    """

    def __init__(self, *, nr_cpus: int = 1, mtu: int = 1500) -> None:
        monotonic = time.CLOCK_MONOTONIC
        self._trace = ctypes.create_string_buffer(_TRACE_BYTES)
        self._routes = (UserRoute * 0)()
        self.struct = UserHost(
            clock_monotonic=monotonic,
            # Clocks that this system does not have are as good as the one it has.
            clock_boottime=getattr(time, "CLOCK_BOOTTIME", monotonic),
            clock_coarse=_COARSE if os.uname().sysname == "Linux" else monotonic,
            clock_tai=getattr(time, "CLOCK_TAI", time.CLOCK_REALTIME),
            nr_cpus=nr_cpus,
            mtu=mtu,
            trace=ctypes.addressof(self._trace),
            trace_bytes=_TRACE_BYTES,
        )

    def set_routes(self, routes: list[UserRoute]) -> None:
        """What bpf_fib_lookup answers from: the longest prefix wins, the first of equals."""
        self._routes = (UserRoute * len(routes))(*routes)
        self.struct.routes = ctypes.addressof(self._routes)
        self.struct.route_count = len(routes)

    def take_trace(self) -> list[str]:
        """The messages of bpf_trace_printk since the last call, one string each."""
        text = self._trace.raw[: self.struct.trace_used].decode(errors="replace")
        self.struct.trace_used = 0
        return text.splitlines()

    def new_state(self, *, cpu: int = 0, seed: int = 1) -> UserState:
        """A struct user_state that names this host, which must outlive it."""
        words = (ctypes.c_uint32 * 4)()
        for index in range(4):
            # splitmix32-like steps; xoshiro's state must not be all zero.
            seed = (seed * 0x9E3779B1 + 0x7F4A7C15) & 0xFFFFFFFF
            words[index] = seed | 1
        return UserState(cpu=cpu, random=words, host=ctypes.addressof(self.struct))


_COARSE = 6
"""CLOCK_MONOTONIC_COARSE (linux/time.h)."""
