"""An initramfs: the files that a kernel finds before any disk, as cpio "newc" in gzip.

The layout is that of the kernel's Documentation/driver-api/early-userspace/buffer-format.rst. One
set of files gives one sequence of bytes: a guest that counts instructions counts unpacking, too.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from importlib import resources

from xdplab.errors import XdplabError

_DIRECTORY, _CHARACTER_DEVICE, _FILE = 0o040755, 0o020600, 0o100755
_CONSOLE = (5, 1)
"""Major and minor number of /dev/console, which the kernel opens for PID 1."""


def runner() -> bytes:
    """The static program that is PID 1, as it was compiled when the package was built."""
    path = resources.files("xdplab").joinpath("guests", "runner", "objects", "runner.x86_64")
    try:
        return path.read_bytes()
    except OSError as error:
        raise XdplabError(
            f"reading the guests' own program failed: {error.strerror}. It is compiled when the "
            "package is built: install xdplab again (pip install . in its folder)"
        ) from None


def initramfs(bundle: bytes) -> bytes:
    """What a guest boots with: the runner as /init, `bundle` as /bundle."""
    return pack({"init": runner(), "bundle": bundle})


def pack(files: Mapping[str, bytes]) -> bytes:
    """Files by name, and the places that PID 1 mounts on, in gzip."""
    entries = [_entry(name, _DIRECTORY) for name in ("dev", "proc", "sys")]
    entries.append(_entry("dev/console", _CHARACTER_DEVICE, device=_CONSOLE))
    entries += [_entry(name, _FILE, data) for name, data in files.items()]
    archive = b"".join(
        entry.replace(b"#INODE##", b"%08X" % number, 1) for number, entry in enumerate(entries, 1)
    )
    # Fast: unpacking takes the guest longer the better it is packed.
    return gzip.compress(archive + _entry("TRAILER!!!", 0), compresslevel=1, mtime=0)


def _entry(name: str, mode: int, data: bytes = b"", device: tuple[int, int] = (0, 0)) -> bytes:
    encoded = name.encode() + b"\0"
    # ino, mode, uid, gid, nlink, mtime, filesize, devmajor, devminor, rdevmajor, rdevminor,
    # namesize, check
    numbers = (mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(encoded), 0)
    inode = b"#INODE##" if mode else b"00000000"
    head = b"070701" + inode + b"".join(b"%08X" % number for number in numbers)
    return _padded(head + encoded) + _padded(data)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
