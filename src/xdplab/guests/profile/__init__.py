"""Where a guest's instructions go: a plugin of QEMU counts them by address, functions by name.

The plugin is compiled on demand by the system's compiler and kept in the cache: it must be of the
machine that QEMU runs on, and only who asks for it needs it.
"""

from __future__ import annotations

import bisect
import contextlib
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from xdplab.errors import NotPossibleError
from xdplab.guests.console import GuestError
from xdplab.guests.debian import cache_folder

OLDEST_INTERFACE = 1
"""Of QEMU's plugin interface; newer ones say by themselves which they want."""

BPF = "[BPF program]"
KERNEL = "[kernel, unnamed]"
USER = "[runner]"

_COMPILERS = ("cc", "gcc", "clang")
_TEXT_BYTES = 1 << 30
"""Longest distance of code from the function before it: x86-64 kernels' text ends earlier."""
_MODULES = 0xFFFF_FFFF_A000_0000
"""Where modules and what the JIT made lie (Documentation/arch/x86/x86_64/mm.rst)."""
_USER_END = 1 << 47
_WANTS = re.compile(r"supports only a minimum version of (\d+)")

Window = Mapping[int, int]
"""Address -> how often the instruction there ran."""


def plugin(interface: int = OLDEST_INTERFACE, folder: Path | None = None) -> Path:
    """The plugin for that interface of QEMU, compiled where it is not in the cache.

    NotPossibleError where there is no C compiler, or where it fails, with its first error.
    """
    source = resources.files("xdplab").joinpath("guests", "profile", "profile.c").read_bytes()
    compiler = next(filter(None, map(shutil.which, _COMPILERS)), None)
    if compiler is None:
        raise NotPossibleError(
            "--why needs a C compiler for its plugin of QEMU, and none of "
            f"{', '.join(_COMPILERS)} is installed. Install one (Debian and Ubuntu: apt-get "
            "install gcc)"
        )
    key = hashlib.sha256(source + compiler.encode() + bytes([interface])).hexdigest()[:16]
    folder = folder or cache_folder().parent / "plugins"
    place = folder / f"profile-{key}.so"
    if place.exists():
        return place
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".compiling-", dir=folder) as scratch:
        written, made = Path(scratch, "profile.c"), Path(scratch, "profile.so")
        written.write_bytes(source)
        flags = ["-O2", "-shared", "-fPIC", "-fvisibility=hidden", f"-DINTERFACE={interface}"]
        done = subprocess.run(
            [compiler, *flags, "-o", str(made), str(written)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode or not made.exists():
            said = next((line for line in done.stderr.splitlines() if "error" in line), "no reason")
            raise NotPossibleError(
                f"compiling the plugin of QEMU with {compiler} failed: {said.strip()[:300]}. "
                "Does it compile C for this machine?"
            )
        # Whole or not at all, whoever else compiles it.
        made.replace(place)
    return place


def interface_wanted(error: GuestError) -> int | None:
    """The plugin interface that this QEMU asked for when it refused an older one, else None."""
    found = _WANTS.search(str(error))
    return int(found[1]) if found else None


@contextlib.contextmanager
def scratch_file() -> Iterator[Path]:
    """Where the plugin writes to during one boot."""
    with tempfile.TemporaryDirectory(prefix="xdplab-profile-") as scratch:
        yield Path(scratch, "windows")


def arguments(plugin_file: Path, output: Path) -> tuple[str, ...]:
    """QEMU's, for a boot that is profiled."""
    # A comma in a path would begin another property.
    file, out = (os.fspath(path).replace(",", ",,") for path in (plugin_file, output))
    return ("-plugin", f"file={file},out={out}")


def read_windows(text: str) -> Sequence[Window]:
    """The windows that the plugin wrote, in their order. GuestError where it did not end."""
    windows: list[dict[int, int]] = []
    ended = False
    try:
        for line in text.splitlines():
            word, _, number = line.partition(" ")
            if word == "window":
                windows.append({})
            elif word == "end":
                ended = int(number) == len(windows)
            else:
                windows[-1][int(word, 16)] = int(number)
    except (ValueError, IndexError):
        ended = False
    if not ended:
        raise GuestError(
            "reading what QEMU's plugin counted failed: its file is damaged or ends early. Is "
            "there room for temporary files?"
        )
    return windows


@dataclass(frozen=True, slots=True)
class Functions:
    """A kernel's functions by address, in order."""

    addresses: Sequence[int]
    names: Sequence[str]

    @classmethod
    def of(cls, symbols: Sequence[tuple[int, str]]) -> Functions:
        """From (address, name) in any order; of several names of one address the first counts."""
        by_address: dict[int, str] = {}
        for address, name in symbols:
            by_address.setdefault(address, name)
        ordered = sorted(by_address)
        return cls(ordered, [by_address[address] for address in ordered])

    def name(self, address: int) -> str:
        """The function that an address lies in, or what else it is, in brackets."""
        if address < _USER_END:
            return USER
        if address >= _MODULES:
            return BPF
        place = bisect.bisect_right(self.addresses, address) - 1
        if place < 0 or address - self.addresses[place] > _TEXT_BYTES:
            return KERNEL
        return self.names[place]


LEAST_REPEAT = 2
"""Runs of a shorter window at the least (runner.c, profile)."""


def per_run(windows: Sequence[Window], repeat: int, functions: Functions) -> dict[str, float]:
    """Function -> instructions of one run, from windows of one and two times `repeat` runs in turn.

    What a call is begun and ended with is in both, and falls out; of windows of one length the
    least of each function counts, as a timer's tick only adds.
    """
    shorter, longer = (
        [_by_function(window, functions) for window in windows[first::2]] for first in (0, 1)
    )
    names = {name for window in (*shorter, *longer) for name in window}
    least = {
        name: min(window[name] for window in longer) - min(window[name] for window in shorter)
        for name in names
    }
    runs = max(repeat, LEAST_REPEAT)
    return {name: count / runs for name, count in least.items() if count}


def _by_function(window: Window, functions: Functions) -> Counter[str]:
    found: Counter[str] = Counter()
    for address, count in window.items():
        found[functions.name(address)] += count
    return found
