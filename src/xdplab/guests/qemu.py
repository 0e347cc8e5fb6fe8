"""Boots a kernel in QEMU, within a limit, and gives its console.

A guest has one CPU, no disk and no network. Under instruction counting (`-icount shift=0`) its
nanoseconds are its instructions, and everything that could make two boots differ is nailed down.
Whatever ends this process, SIGKILL included, ends QEMU: the kernel sends it SIGKILL then.
"""

from __future__ import annotations

import contextlib
import functools
import os
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from xdplab.errors import NotPossibleError, UsageError
from xdplab.guests.console import PREFIX, GuestError, tail
from xdplab.guests.initramfs import initramfs

PROGRAM = "qemu-system-x86_64"
INSTALL = "Debian and Ubuntu: apt-get install qemu-system-x86; Fedora: dnf install qemu-system-x86"

LIMIT_S = 120.0
"""Longest boot by default: a distribution's kernel takes 10 s to 20 s under instruction counting,
several times that where other work shares the CPU."""

PROBE_LIMIT_S = 10.0
MEMORY_MIB = 512
MAXIMUM_CONSOLE_BYTES = 16 << 20

_COUNTED_CPU = "qemu64"
_MACHINE = ("-M", "q35", "-m", str(MEMORY_MIB), "-smp", "1", "-nodefaults", "-no-user-config")
_CONSOLE = ("-display", "none", "-serial", "stdio", "-monitor", "none", "-no-reboot")
# Without these two a kernel calibrates busy loops against a clock, for ten seconds of counting.
_CALIBRATED = "nolapic lpj=4000000 tsc_early_khz=1000000"
_APPEND = "console=ttyS0 quiet nokaslr reboot=t panic=-1"

# An x86 kernel says so in its setup header (Documentation/arch/x86/boot.rst): "HdrS" at 0x202.
_MAGIC_AT, _MAGIC = 0x202, b"HdrS"

_DIES_WITH_US = """
import ctypes, os, signal, sys
# PR_SET_PDEATHSIG, which outlives exec; whoever is orphaned already must not begin.
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""
"""What becomes QEMU. A process of its own, since no Python may run between fork and exec of one
that has threads, as progress bars have."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What a guest runs on. `cpu` is a QEMU model, "" for the usual one; `append` is added to the
    kernel's command line. `counts`: instructions are counted, else KVM runs it in real time."""

    counts: bool = True
    cpu: str = ""
    append: str = ""
    limit_s: float = LIMIT_S

    @property
    def arguments(self) -> tuple[str, ...]:
        """QEMU's arguments besides kernel, initramfs and command line."""
        if self.counts:
            return (
                *("-accel", "tcg", "-cpu", self.cpu or _COUNTED_CPU),
                *_MACHINE,
                *_CONSOLE,
                *("-icount", "shift=0,sleep=off", "-seed", "1"),
                *("-rtc", "base=2025-01-01,clock=vm"),
            )
        return ("-accel", "kvm", "-cpu", self.cpu or "host", *_MACHINE, *_CONSOLE)

    @property
    def command_line(self) -> str:
        """The kernel's."""
        parts = (_APPEND, _CALIBRATED if self.counts else "", self.append)
        return " ".join(part for part in parts if part)


def find_qemu() -> str:
    """QEMU's path. NotPossibleError with the remedy where it is not installed."""
    path = shutil.which(PROGRAM)
    if path is None:
        raise NotPossibleError(
            f"booting a guest needs {PROGRAM}, which is not installed. Install it ({INSTALL})"
        )
    return path


@functools.cache
def qemu_version() -> str:
    """The first line of `--version`; counts are those of this QEMU."""
    result = subprocess.run(
        [find_qemu(), "--version"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return (result.stdout.splitlines() or ["QEMU of an unknown version"])[0].strip()


def check_kernel(path: Path) -> None:
    """UsageError where the file is no x86 kernel that QEMU can boot."""
    try:
        with path.open("rb") as file:
            head = file.read(_MAGIC_AT + len(_MAGIC))
    except OSError as error:
        raise UsageError(
            f"reading the kernel {path} failed: {error.strerror}. Give a bzImage or a vmlinuz file"
        ) from None
    if head[_MAGIC_AT:] != _MAGIC:
        what = " but an uncompressed one (vmlinux)" if head[:4] == b"\x7fELF" else ""
        raise UsageError(
            f"{path} is no bootable x86 kernel{what}: it has no setup header. Give a bzImage "
            "(arch/x86/boot/bzImage of a build) or a vmlinuz file of a distribution"
        )


def boot(
    kernel: Path,
    bundle: bytes,
    machine: Machine,
    asked_to_stop: Callable[[], bool] = lambda: False,
    extra: Sequence[str] = (),
) -> str:
    """Boot `kernel` with `bundle` and give all that its console said until it ended itself.

    `extra` are further arguments of QEMU's.

    GuestError, with the console's last lines, where it takes longer than the limit or says more
    than MAXIMUM_CONSOLE_BYTES, and where QEMU refuses. KeyboardInterrupt when asked to stop.
    """
    qemu = find_qemu()
    check_kernel(kernel)
    with tempfile.TemporaryDirectory(prefix="xdplab-guest-") as scratch:
        image = Path(scratch, "initramfs.gz")
        image.write_bytes(initramfs(bundle))
        files = ("-kernel", str(kernel.resolve()), "-initrd", str(image))
        argv = [qemu, *machine.arguments, *extra, *files, "-append", machine.command_line]
        with _started(argv) as process:
            return _console(process, kernel, machine.limit_s, asked_to_stop)


def can_use_kvm(kernel: Path) -> bool:
    """Whether a guest runs under KVM here: /dev/kvm opens in places where none does.

    A guest is booted with an empty bundle, and must say its first line in PROBE_LIMIT_S.
    """
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return False
    try:
        said = boot(kernel, b"", Machine(counts=False, limit_s=PROBE_LIMIT_S))
    except GuestError:
        return False
    return PREFIX in said


@contextlib.contextmanager
def _started(argv: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """QEMU in a session of its own, so that Ctrl-C is ours to handle; ended with the block."""
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _DIES_WITH_US, str(os.getpid()), *argv],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise NotPossibleError(
            f"starting {argv[0]} failed: {error.strerror}. Install it again ({INSTALL})"
        ) from None
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _console(
    process: subprocess.Popen[bytes],
    kernel: Path,
    limit_s: float,
    asked_to_stop: Callable[[], bool],
) -> str:
    assert process.stdout is not None
    until = time.monotonic() + limit_s
    said = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            if asked_to_stop():
                raise KeyboardInterrupt
            left_s = until - time.monotonic()
            if left_s <= 0 or len(said) > MAXIMUM_CONSOLE_BYTES:
                what = (
                    f"was not done within {limit_s:g} s and was ended; --limit gives it longer"
                    if left_s <= 0
                    else f"said more than {MAXIMUM_CONSOLE_BYTES} bytes and was ended"
                )
                text = said.decode(errors="replace")
                raise GuestError(f"{kernel} {what}.{tail(text) or ' It said nothing until then.'}")
            if not selector.select(min(left_s, 0.2)):
                continue
            data = os.read(process.stdout.fileno(), 1 << 16)
            if not data:
                break
            said += data
    text = said.decode(errors="replace")
    if process.wait() != 0:
        raise GuestError(
            f"QEMU could not run {kernel} (exit status {process.returncode}).{tail(text)}"
        )
    return text
