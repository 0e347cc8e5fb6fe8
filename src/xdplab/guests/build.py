"""Kernels for guests, built from a source tree: as it is, and with patches.

The tree is never touched: what is built is a copy of it, kept in the cache with its build folder,
so that the next patch compiles only the files that it changes. A kernel is kept by all that it was
made of (source, patches, configuration, compiler), and appears in the cache when it is whole.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import signal
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from xdplab.errors import NotPossibleError, UsageError, XdplabError
from xdplab.guests.debian import cache_folder

TOOLS = ("make", "gcc", "ld", "flex", "bison", "bc", "patch", "cp")
INSTALL = "apt-get install build-essential flex bison bc libelf-dev libssl-dev patch"

# What a build writes down about who made it would make every one another.
_REPRODUCIBLE = {
    "KBUILD_BUILD_USER": "xdplab",
    "KBUILD_BUILD_HOST": "xdplab",
    "KBUILD_BUILD_TIMESTAMP": "2025-01-01",
    "KBUILD_BUILD_VERSION": "1",
    "LC_ALL": "C",
}
_STEPS = 1500
"""About so many lines a small kernel's build prints; for a bar, not for a figure."""

_ERROR = re.compile(rb"(: (fatal )?error: |\*\*\* |undefined reference|No such file or directory)")
_KEPT = (("arch/x86/boot/bzImage", "bzImage"), ("System.map", "System.map"), (".config", "config"))

_GRACE_S = 10.0

Progress = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class Request:
    """What to build: `tree` is a folder or a tar archive, `patches` are applied in their order,
    `fragments` are added to the configuration that comes with this package."""

    tree: Path
    patches: tuple[Path, ...] = ()
    fragments: tuple[Path, ...] = ()


def build(
    request: Request,
    asked_to_stop: Callable[[], bool],
    progress: Progress,
    folder: Path | None = None,
) -> list[Path]:
    """The bzImage of the tree and, where there are patches, that of the patched tree.

    UsageError where the tree is none or a patch does not apply; NotPossibleError where tools are
    missing; XdplabError where the build fails (its first error is in the message, the whole log in
    a file). KeyboardInterrupt when asked to stop; nothing half built is kept then.
    """
    _check(request)
    folder = folder or cache_folder()
    state = _tree_state(request.tree)
    base = _digest(state, _compiler(), *map(_content, _fragments(request)))
    patched = _digest(base, *(path.read_bytes() for path in request.patches))
    wanted = [folder / f"built-{base}"]
    if request.patches:
        wanted.append(folder / f"built-{patched}")
    if all((one / "bzImage").exists() for one in wanted):
        return [one / "bzImage" for one in wanted]
    folder.mkdir(parents=True, exist_ok=True)
    with _Work(folder / f"work-{base}", request, asked_to_stop, progress) as work:
        if not (wanted[0] / "bzImage").exists():
            work.make("A")
            work.keep(wanted[0])
        if request.patches:
            with work.patched():
                work.make("B")
                work.keep(wanted[1])
    return [one / "bzImage" for one in wanted]


def _check(request: Request) -> None:
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        raise NotPossibleError(
            f"building a kernel needs {', '.join(missing)}, which is not installed. Install what "
            f"builds kernels (Debian and Ubuntu: {INSTALL})"
        )
    for path in (request.tree, *request.patches, *request.fragments):
        if not path.exists():
            raise UsageError(f"there is no {path}. Check the path")
    is_tree = (request.tree / "Kbuild").exists() and (request.tree / "arch").is_dir()
    if request.tree.is_dir() and not is_tree:
        raise UsageError(f"{request.tree} is no kernel source tree: it has no Kbuild and no arch/")


def _fragments(request: Request) -> list[Path]:
    own = resources.files("xdplab").joinpath("guests", "guest.config")
    return [Path(str(own)), *request.fragments]


def _content(path: Path) -> bytes:
    return path.read_bytes()


def _digest(*parts: str | bytes) -> str:
    whole = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        whole.update(len(data).to_bytes(8, "little") + data)
    return whole.hexdigest()[:16]


def _compiler() -> str:
    said = subprocess.run(["gcc", "--version"], capture_output=True, text=True, check=False).stdout
    linked = subprocess.run(["ld", "--version"], capture_output=True, text=True, check=False).stdout
    return "\n".join(text.partition("\n")[0] for text in (said, linked))


def _tree_state(tree: Path) -> str:
    """What tells this state of the sources from any other: names, sizes and times of all files, or
    an archive's content."""
    whole = hashlib.sha256()
    if tree.is_file():
        with tree.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    for place, folders, names in os.walk(tree):
        folders[:] = sorted(name for name in folders if name != ".git")
        for name in sorted(names):
            path = Path(place, name)
            status = path.lstat()
            where = path.relative_to(tree)
            whole.update(f"{where} {status.st_size} {status.st_mtime_ns}\n".encode())
    return f"{tree.resolve()} {whole.hexdigest()}"


class _Work:
    """A copy of a tree with its build folder, in the cache; one process at a time has it.

    `clean` is there while the copy is as its tree: where a build was killed in between it is not,
    and the copy is made anew.
    """

    def __init__(
        self,
        folder: Path,
        request: Request,
        asked_to_stop: Callable[[], bool],
        progress: Progress,
    ) -> None:
        self._folder = folder
        self._request = request
        self._asked_to_stop = asked_to_stop
        self._progress = progress
        self._source, self._out = folder / "source", folder / "out"
        self._clean = folder / "clean"
        self._exit = contextlib.ExitStack()

    def __enter__(self) -> _Work:
        self._folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        self._exit.callback(os.close, descriptor)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        try:
            if not self._clean.exists():
                self._copy()
        except BaseException:
            self._exit.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._exit.close()

    def _copy(self) -> None:
        self._progress("copying the source", 0.0)
        for old in (self._source, self._out):
            shutil.rmtree(old, ignore_errors=True)
        tree = self._request.tree
        if tree.is_dir():
            # Extended attributes and owners are nothing to a compiler; times are what make goes by.
            argv = ["cp", "-R", "--preserve=mode,timestamps,links", "--reflink=auto"]
            self._run([*argv, str(tree.resolve()), str(self._source)], "copying the tree")
            # What was built in the tree itself would be in the way of a build elsewhere.
            self._run(["make", "-C", str(self._source), "mrproper"], "cleaning the copy")
        else:
            self._unpack(tree)
        self._out.mkdir()
        self._clean.touch()

    def _unpack(self, archive: Path) -> None:
        if not tarfile.is_tarfile(archive):
            raise UsageError(
                f"{archive} is neither a folder nor a tar archive of a kernel's source"
            )
        scratch = self._folder / "unpacked"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        argv = ["tar", "--no-same-owner", "-xf", str(archive.resolve()), "-C", str(scratch)]
        self._run(argv, f"unpacking {archive}")
        inside = list(scratch.iterdir())
        if len(inside) != 1 or not (inside[0] / "Kbuild").exists():
            raise UsageError(f"{archive} holds no kernel source in one folder")
        inside[0].rename(self._source)
        scratch.rmdir()

    def make(self, label: str) -> None:
        """Configure where that was not done, and build."""
        make = ["make", "-C", str(self._source), f"O={self._out}", "LOCALVERSION="]
        if not (self._out / "configured").exists():
            self._run([*make, "tinyconfig"], "configuring the kernel")
            merge = ["sh", str(self._source / "scripts/kconfig/merge_config.sh"), "-m", "-O"]
            fragments = map(str, map(Path.resolve, _fragments(self._request)))
            self._run(
                [*merge, str(self._out), str(self._out / ".config"), *fragments],
                "merging the configuration",
            )
            self._run([*make, "olddefconfig"], "configuring the kernel")
            (self._out / "configured").touch()
        jobs = len(os.sched_getaffinity(0))
        self._run([*make, f"-j{jobs}", "bzImage"], f"building kernel {label}")

    @contextlib.contextmanager
    def patched(self) -> Iterator[None]:
        """The copy with the patches in it; as it was behind the block."""
        self._clean.unlink(missing_ok=True)
        applied: list[Path] = []
        patch = ["patch", "-p1", "--no-backup-if-mismatch", "-f", "-d", str(self._source), "-i"]
        try:
            for path in self._request.patches:
                self._dry_run(patch, path)
                self._run([*patch, str(path.resolve())], f"applying {path}")
                applied.append(path)
            yield
        finally:
            for path in reversed(applied):
                subprocess.run(
                    [*patch, str(path.resolve()), "-R"], stdout=subprocess.DEVNULL, check=False
                )
        self._clean.touch()

    def _dry_run(self, patch: Sequence[str], path: Path) -> None:
        tried = subprocess.run(
            [*patch, str(path.resolve()), "--dry-run"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if tried.returncode:
            said = [line for line in tried.stdout.splitlines() if re.search("FAILED|can't", line)]
            raise UsageError(
                f"the patch {path} does not apply to {self._request.tree}: "
                f"{(said or ['patch says no more'])[0]}. Port it to this tree"
            )

    def keep(self, place: Path) -> None:
        """Put the kernel into the cache, all of it or nothing."""
        with tempfile.TemporaryDirectory(prefix=".keeping-", dir=place.parent) as scratch:
            whole = Path(scratch, "whole")
            whole.mkdir()
            for made, name in _KEPT:
                shutil.copyfile(self._out / made, whole / name)
            shutil.rmtree(place, ignore_errors=True)
            whole.rename(place)

    def _run(self, argv: Sequence[str], tried: str) -> None:
        """Run one step; its output goes to build.log, its lines move the progress."""
        log_path = self._folder / "build.log"
        environment: Mapping[str, str] = os.environ | _REPRODUCIBLE
        lines = 0
        with (
            log_path.open("ab") as log,
            subprocess.Popen(
                argv,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            ) as process,
        ):
            # Who is killed closes the pipe: whatever still runs of a build ends when it next says
            # what it compiles.
            assert process.stdout is not None
            first = log.tell()
            try:
                for line in process.stdout:
                    log.write(line)
                    lines += 1
                    self._progress(tried, min(lines / _STEPS, 0.99))
                    if self._asked_to_stop():
                        raise KeyboardInterrupt
            except BaseException:
                _end(process)
                raise
        if process.returncode:
            raise XdplabError(
                f"{tried} failed: {_first_error(log_path, first)}. The whole log: {log_path}"
            )


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a build with all that it started: asked first, so that make removes what is half made."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
        os.killpg(process.pid, signal.SIGKILL)


def _first_error(log_path: Path, start: int) -> str:
    with log_path.open("rb") as log:
        log.seek(start)
        lines = log.read().splitlines()
    found = next((line for line in lines if _ERROR.search(line)), lines[-1] if lines else b"")
    return found.decode(errors="replace").strip()[:300] or "it said nothing"
