"""Anonymous network namespaces: held by a file descriptor alone, gone with the process.

Nothing is mounted or named, so that even kill -9 leaves nothing behind: the kernel frees the
namespace, its interfaces and the bpf_links on them when the last descriptor closes.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
from collections.abc import Iterator
from types import TracebackType

from xdplab.errors import KernelError, NotPossibleError

_CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)

LOOPBACK_IFINDEX = 1
"""ifindex of `lo`: the first device that the kernel registers in every namespace."""


_OWN = "/proc/thread-self/ns/net"


def _own_namespace() -> int:
    try:
        return os.open(_OWN, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise NotPossibleError(
            f"{_OWN} is not there, by which namespaces are held: mount /proc"
        ) from None


def _checked(tried: str, result: int) -> None:
    if result < 0:
        number = ctypes.get_errno()
        if number == errno.EPERM:
            raise NotPossibleError(
                f"{tried} was refused (EPERM): making a network namespace takes CAP_SYS_ADMIN. "
                "Run as root"
            )
        raise KernelError(tried, number)


@contextlib.contextmanager
def entered(descriptor: int) -> Iterator[None]:
    """The calling thread in the namespace of that descriptor, and back where it was."""
    home = _own_namespace()
    try:
        _checked("entering a network namespace", _libc.setns(descriptor, _CLONE_NEWNET))
        try:
            yield
        finally:
            _checked("returning to the first namespace", _libc.setns(home, _CLONE_NEWNET))
    finally:
        os.close(home)


class NetworkNamespace:
    """A new network namespace. `with ns:` moves the calling thread into it and back.

    The thread that makes it stays where it was. `close()` gives the namespace up.
    """

    def __init__(self) -> None:
        home = _own_namespace()
        try:
            _checked("making a network namespace", _libc.unshare(_CLONE_NEWNET))
            try:
                self.fd = _own_namespace()
            finally:
                _checked("returning to the first namespace", _libc.setns(home, _CLONE_NEWNET))
        finally:
            os.close(home)
        self._home = -1

    def __enter__(self) -> NetworkNamespace:
        self._home = _own_namespace()
        _checked("entering a network namespace", _libc.setns(self.fd, _CLONE_NEWNET))
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            _checked("returning to the first namespace", _libc.setns(self._home, _CLONE_NEWNET))
        finally:
            os.close(self._home)

    def close(self) -> None:
        """Give the namespace up; the kernel frees it when nobody else holds it."""
        os.close(self.fd)
