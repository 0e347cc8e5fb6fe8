"""The memory barrier of a ring, where the processor needs one.

A ring's index tells that entries are written, so both sides must see them in that order. x86
keeps loads among themselves and stores among themselves in order by itself; what is left (a
load before an earlier store) no index of a ring depends on. Other processors need an
instruction for it, which Python has no word for: LLVM makes it.
"""

from __future__ import annotations

import ctypes
import functools
import platform
from collections.abc import Callable

_IR = """
define void @fence() {
  fence seq_cst
  ret void
}
"""

_IN_ORDER = frozenset({"x86_64", "AMD64", "i686"})
"""Machines that never reorder two loads or two stores, as platform.machine() names them."""


def ring_fence() -> Callable[[], object] | None:
    """What to call between an index and the entries that it tells of; None: nothing is needed."""
    return None if platform.machine() in _IN_ORDER else compiled_fence()


@functools.cache
def compiled_fence() -> Callable[[], object]:
    """A full barrier of this processor as a function."""
    # A quarter of a second, which only machines that need it should pay.
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(_IR), machine)
    engine.finalize_object()
    function = ctypes.CFUNCTYPE(None)(engine.get_function_address("fence"))

    def fence() -> None:
        # The engine owns the code: it lives as long as this function does.
        assert engine is not None
        function()

    return fence
