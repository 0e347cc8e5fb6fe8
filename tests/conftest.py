"""What all tests share: who may use the kernel, and proof that nothing is left in it."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from xdplab.errors import NotPossibleError

# Whatever tests measure, also in processes of their own, is nothing for the store of whoever
# runs them.
_STORES = tempfile.mkdtemp(prefix="xdplab-tests-")
os.environ["XDPLAB_STORE"] = str(Path(_STORES) / "results.sqlite")

# Hypothesis would fail a test that takes 200 ms, which on a busy machine says nothing.
settings.register_profile("xdplab", deadline=None)
settings.load_profile("xdplab")


def _why_no_kernel() -> str:
    if sys.platform != "linux":
        return f"this is {sys.platform}, not Linux"
    from xdplab.kernel.features import require_kernel_engine

    try:
        require_kernel_engine()
    except NotPossibleError as error:
        return str(error)
    return ""


WHY_NO_KERNEL = _why_no_kernel()


def pytest_configure(config: pytest.Config) -> None:
    # A background job of a script ignores SIGINT and SIGQUIT, its children too, and runs that are
    # ended by them in these tests would go on for a minute each.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    config.addinivalue_line(
        "markers", "needs_kernel: loads programs into the running kernel; skips where it may not"
    )


def pytest_unconfigure() -> None:
    shutil.rmtree(_STORES, ignore_errors=True)


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the groups in the same hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        is_for_kernel = item.get_closest_marker("needs_kernel") is not None
        # Whole files, for their fixtures; and what measures in the kernel or looks at what is left
        # in it goes one after the other, while another worker does the rest.
        group = "kernel" if is_for_kernel else item.nodeid.partition("::")[0]
        item.add_marker(pytest.mark.xdist_group(group))
        if is_for_kernel and WHY_NO_KERNEL:
            item.add_marker(pytest.mark.skip(reason=WHY_NO_KERNEL))


def kernel_descriptors() -> list[str]:
    """This process's descriptors of BPF objects and network namespaces, as /proc names them."""
    names = []
    for entry in Path("/proc/self/fd").iterdir():
        try:
            name = str(entry.readlink())
        except OSError:
            continue
        if name.startswith(("anon_inode:bpf", "net:[")):
            names.append(name)
    return sorted(names)


@pytest.fixture(autouse=True, scope="module")
def _nothing_left_in_kernel() -> Iterator[None]:
    """A module that leaves a descriptor of a program, map, link or namespace open fails.

    Everything of xdplab in the kernel hangs on such a descriptor and goes with it.
    """
    if WHY_NO_KERNEL:
        yield
        return
    descriptors = kernel_descriptors()
    yield
    gc.collect()
    assert kernel_descriptors() == descriptors
