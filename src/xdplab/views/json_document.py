"""Documents as JSON, to a file or to standard output, so that nothing measured is lost."""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import shlex
import stat
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from xdplab.errors import OutputError, UsageError
from xdplab.records import Document, Json

_STDOUT = frozenset({"-", "/dev/stdout"})


def check_target(target: str) -> None:
    """UsageError if `target` could not be written now: to be asked before measuring.

    A target is a path or "-" for standard output.
    """
    if target in _STDOUT:
        return
    try:
        path = _real(target)
    except OSError as error:
        raise UsageError(
            f"the result cannot be written to {target}: {error.strerror} (the working directory)"
        ) from None
    tried = f"the result cannot be written to {target or 'an empty name'}"
    if not target or os.path.isdir(path):  # noqa: PTH112 - a name too long is none
        raise UsageError(f"{tried}: that is no file. Give a file's path, or - for standard output")
    try:
        if _is_special(path):
            if not os.access(path, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            return
        # A name may be too long where its scratch file's is not.
        with contextlib.suppress(FileNotFoundError):
            path.stat()
        descriptor, scratch = _scratch(path)
        os.close(descriptor)
        scratch.unlink()
    except OSError as error:
        raise UsageError(
            f"{tried}: {error.strerror} ({path.parent}). Give a directory that is there and "
            "that you may write to"
        ) from None


def write(document: Document, target: str) -> None:
    """Write a result document; see `write_json`."""
    write_json(document.to_json(), target)


def write_json(data: Json | list[Json], target: str) -> None:
    """Write JSON to a file, all of it or nothing, or to standard output for "-".

    Where that fails the text is kept in another directory, or at last sent to standard
    error, and OutputError says where. Numbers that JSON does not have become null.
    """
    write_text(dumps(data), target)


def write_text(text: str, target: str) -> None:
    """The same of a text."""
    try:
        if target in _STDOUT:
            _to_stdout(text)
        else:
            _to_file(text, _real(target))
    except OSError as error:
        name = "standard output" if target in _STDOUT else target
        failure = f"writing the result to {name} failed: {error.strerror}"
        raise _kept_elsewhere(text, failure) from None


def kept(document: Document, failure: str) -> OutputError:
    """Keep a document that has no other place; the error to raise says where it is."""
    return _kept_elsewhere(dumps(document.to_json()), failure)


def dumps(data: Json | list[Json]) -> str:
    """JSON of one key a line, with samples and other plain lists on one line each."""
    return _indented(_jsonable(data), "") + "\n"


def _jsonable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _jsonable(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_jsonable(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _indented(value: Any, indent: str) -> str:
    inner = f"{indent}  "
    if isinstance(value, dict) and value:
        items = [
            f"{json.dumps(key)}: {_compact(item) if key == 'samples' else _indented(item, inner)}"
            for key, item in value.items()
        ]
        return "{\n" + ",\n".join(inner + item for item in items) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        items = [_indented(item, inner) for item in value]
        return "[\n" + ",\n".join(inner + item for item in items) + f"\n{indent}]"
    return json.dumps(value, allow_nan=False)


def _compact(value: Any) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def _real(target: str) -> Path:
    # Renaming over a symbolic link would replace the link, not what it names. What a shell's
    # >(...) names exists by that name alone.
    path = Path(target)
    return path if _is_special(path) else Path(os.path.realpath(path))


def _is_special(path: Path) -> bool:
    """A device, a pipe or a socket: to be written into, never to be replaced."""
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return False


def _scratch(path: Path) -> tuple[int, Path]:
    descriptor, name = tempfile.mkstemp(prefix=".xdplab-", dir=path.parent)
    return descriptor, Path(name)


def _to_stdout(text: str) -> None:
    if sys.stdout is None:
        raise OSError(errno.EBADF, "it is closed")
    try:
        sys.stdout.flush()
        # An unbuffered stream writes what fits and says how much: ask until all is written.
        rest = memoryview(text.encode())
        while rest:
            rest = rest[sys.stdout.buffer.write(rest) or 0 :]
        sys.stdout.buffer.flush()
    except OSError:
        # The interpreter flushes once more at its end and would complain once more.
        with contextlib.suppress(OSError):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, sys.stdout.fileno())
            os.close(null)
        raise


def _to_file(text: str, path: Path) -> None:
    if _is_special(path):
        # A FIFO that nobody reads would hold us up for good: then it is an error (ENXIO).
        descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        os.set_blocking(descriptor, True)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        return
    descriptor, scratch = _scratch(path)
    try:
        with os.fdopen(descriptor, "w") as file:
            os.fchmod(file.fileno(), _mode(path))
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            scratch.unlink()
        raise


def _mode(path: Path) -> int:
    """The replaced file's permissions, or those that open() would give a new one."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


def _kept_elsewhere(text: str, failure: str) -> OutputError:
    for directory in (tempfile.gettempdir, lambda: str(Path.home()), lambda: "."):
        # Path.home() raises RuntimeError where there is none.
        with contextlib.suppress(OSError, RuntimeError):
            path = shlex.quote(str(_keep(text, directory())))
            return OutputError(f"{failure}. It is kept: mv {path} WHERE-YOU-WANT-IT")
    with contextlib.suppress(OSError):
        sys.stderr.write(text)
        sys.stderr.flush()
        return OutputError(
            f"{failure}, and no other directory took it. It stands above, on standard error: "
            "copy it from there"
        )
    return OutputError(f"{failure}, and neither a directory nor standard error took it: it is lost")


def _keep(text: str, directory: str) -> Path:
    with tempfile.NamedTemporaryFile(
        "w", prefix="xdplab-", suffix=".json", dir=directory, delete=False
    ) as file:
        try:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            Path(file.name).unlink()
            raise
    return Path(file.name).resolve()
