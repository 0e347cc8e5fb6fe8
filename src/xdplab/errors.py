"""The one error tree. A message says what was tried, what happened and what to do.

XdplabError                 exit_code 3 unless said otherwise
├── UsageError              2: an argument, a suite, a size or a file name is wrong
│   ├── ObjectError         2: an ELF object cannot be read
│   ├── CompileError        2: the compiler refused the source
│   ├── FrameError          2: a frame or a capture cannot be built or read
│   │   └── CaptureEndError 2: a capture ends in mid-packet, behind packets that are whole
│   └── TraitsError         2: bytes are no traits, or values do not make any
├── NotPossibleError        3: this machine, kernel or user may not do it; says the remedy
│   └── MissingFeatureError 3: the running kernel lacks a helper, kfunc or map type
├── KernelError             3: a system call failed
│   └── VerifierError       3: the verifier refused a program; summary here, whole log in a file
├── StoreError              3: the file of stored runs cannot be read or written
└── OutputError             3: a result could not be written; says where it is kept instead
"""

from __future__ import annotations

import errno as errno_module
import os
from pathlib import Path


class XdplabError(Exception):
    """Root of every error that a user may see; `str()` is the whole message."""

    exit_code = 3


class UsageError(XdplabError):
    """The request itself is wrong."""

    exit_code = 2


class ObjectError(UsageError):
    """An object file cannot be read."""


class CompileError(UsageError):
    """The compiler refused a program's source."""


class FrameError(UsageError):
    """A frame cannot be built as asked for."""


class CaptureEndError(FrameError):
    """A capture ends in the middle of a packet, as that of a capturer that was killed."""


class TraitsError(UsageError):
    """Bytes are no traits, or values cannot become some."""


class NotPossibleError(XdplabError):
    """The request is sound but cannot be met on this machine or by this user."""


class MissingFeatureError(NotPossibleError):
    """The running kernel lacks something that a program needs.

    `feature` names it in the kernel's own words, such as `bpf_xdp_pull_data`.
    """

    def __init__(self, feature: str, message: str) -> None:
        super().__init__(message)
        self.feature = feature


class KernelError(XdplabError):
    """A system call failed. `errno` is the positive error number."""

    def __init__(self, tried: str, errno: int, remedy: str = "") -> None:
        name = errno_module.errorcode.get(errno, str(errno))
        message = f"{tried}: {os.strerror(errno)} ({name})"
        if errno in {errno_module.EMFILE, errno_module.ENFILE}:
            # Whatever else could be the matter, this is.
            remedy = "Let it have more open files (ulimit -n)"
        super().__init__(f"{message}. {remedy}" if remedy else message)
        self.errno = errno


class VerifierError(KernelError):
    """The verifier refused a program.

    `log` is the whole verifier log; `log_path` is the file it was saved in, or None
    where no file could be written.
    """

    def __init__(
        self, tried: str, errno: int, summary: str, log: str, log_path: Path | None
    ) -> None:
        where = f"The whole log: {log_path}" if log_path else "The log could not be saved"
        super().__init__(tried, errno, f"The verifier says: {summary}. {where}")
        self.log = log
        self.log_path = log_path


class StoreError(XdplabError):
    """The file of stored runs cannot be read or written."""


class OutputError(XdplabError):
    """A result was measured but could not be written where it was asked for."""
