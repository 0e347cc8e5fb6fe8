"""C source to BPF object, and the user-space engine's runtime to LLVM IR.

The build hook loads this file before any dependency is installed, so it imports the
standard library and `xdplab.errors` only.

Objects are reproducible: the compiler runs in the source's own directory, that directory's
name is mapped away, and include directories are passed relative to it. One source
gives one sequence of bytes with one compiler, wherever the tree lies.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from xdplab.errors import CompileError, NotPossibleError

CLANG_VARIABLE = "XDPLAB_CLANG"

_ZIGLANG = "ziglang==0.17.1"
"""The release that pyproject.toml has, for the package's own objects and the extra `compile`."""

_REMEDY = (
    f"Install clang, or run `{shlex.quote(sys.executable)} -m pip install {_ZIGLANG}`, "
    f"or let {CLANG_VARIABLE} name a clang that has the bpf target"
)

# v3 has 32-bit jumps and atomics and is what every kernel since 5.12 runs. DWARF (-g) is
# what clang makes BTF from. Unwind tables would add a section that no loader reads.
CODE_FLAGS = ("-O2", "-g", "-mcpu=v3")
"""Those of every BPF object that decide which instructions come of a source."""

_COMMON_FLAGS = (*CODE_FLAGS, "-fno-unwind-tables", "-fno-asynchronous-unwind-tables")

# For machine code that a JIT places and other modules call: no unwind tables, no stack guards, no
# assumption about where symbols lie, none about the types that memory holds (programs
# read it as they like), and no system header. No vector registers, as in a kernel: what a helper
# costs is to be compared with the kernel's.
_NATIVE_FLAGS = (
    *("-std=gnu11", "-O2", "-g0", "-S", "-emit-llvm", "-nostdinc", "-fno-pic"),
    *("-fno-strict-aliasing", "-fno-sanitize=all", "-fno-stack-protector"),
    *(
        "-mno-implicit-float",
        "-fomit-frame-pointer",
        "-fno-unwind-tables",
        "-fno-asynchronous-unwind-tables",
    ),
    *("-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"),
    # zig adds -c, which -S makes superfluous.
    "-Wno-unused-command-line-argument",
)

# For a program that needs no C library, run as a kernel's first process. No vector registers: a
# kernel that is counted must not save them.
_STATIC_FLAGS = (
    *("-std=gnu11", "-O2", "-g0", "-s", "-static", "-nostdlib", "-ffreestanding"),
    *("-fno-builtin", "-fno-sanitize=all", "-fno-stack-protector", "-mno-sse"),
    *("-fno-unwind-tables", "-fno-asynchronous-unwind-tables", "-Wl,--build-id=none"),
    *("-Wall", "-Wextra", "-Werror"),
)

# Which processor the code is for is the JIT's to say.
_NATIVE_DROPPED = re.compile(r' "(?:target-cpu|target-features|tune-cpu)"="[^"]*"')

_TIMEOUT_S = 120

_SCRATCH_PREFIX = "xdplab-cc-"

_ABANDONED_S = 2 * _TIMEOUT_S
"""No compilation takes that long: older ones without a lock are of processes that were killed."""


@dataclass(frozen=True, slots=True)
class _Compiler:
    """`argv` compiles when flags are appended; `prefixes` are directories to map away."""

    argv: tuple[str, ...]
    flags: tuple[str, ...]
    prefixes: tuple[tuple[str, str], ...] = ()
    label: str = ""


def compile_object(
    source: Path, *, include: Sequence[Path] = (), defines: Mapping[str, str] | None = None
) -> bytes:
    """Compile one `.bpf.c` file to a little-endian BPF ELF object with BTF and line info.

    `#include "..."` is looked up beside the source, then in each directory of `include`.
    `defines` maps macro names to their replacement text ("" for none).

    The compiler is the one that XDPLAB_CLANG names, else that of the package `ziglang`,
    else the `clang` on PATH; each finds libbpf's headers where distributions put them.
    The result is the same for the same text, whatever the directory. Safe to call from several
    processes at once; writes only to a temporary directory.

    Raises CompileError: the source is missing, there is no compiler, or the compiler
    refused the source (its diagnostics are in the message). NotPossibleError where there is no
    directory for temporary files.
    """
    compiler = _find_compiler()
    directory = source.resolve().parent
    flags = [
        *_COMMON_FLAGS,
        *compiler.flags,
        *(f"-I{os.path.relpath(path.resolve(), directory)}" for path in include),
        *(f"-D{name}={text}" for name, text in (defines or {}).items()),
        *(f"-ffile-prefix-map={old}={new}" for old, new in compiler.prefixes),
        f"-ffile-prefix-map={directory}=",
        "-c",
    ]
    return _compile(compiler, source, flags)


def compile_native(source: Path, architecture: str, *, builtins: bool = True) -> str:
    """Compile one freestanding C file to textual LLVM IR for a 64-bit Linux machine.

    `architecture` is as in a target triple: "x86_64" or "aarch64". Without `builtins` no loop
    becomes a call of memset or memcpy. The text names no processor and is the same wherever it
    is compiled; the compiler is found as by `compile_object` and must be of the LLVM release that
    will read the text, or an older one.

    Raises CompileError as `compile_object` does; warnings count as refusals.
    """
    compiler = _find_compiler()
    flags = ["-target", f"{architecture}-linux-musl", *_NATIVE_FLAGS]
    if not builtins:
        flags.append("-fno-builtin")
    text = _compile(compiler, source, flags).decode()
    return _NATIVE_DROPPED.sub("", text)


def compile_static(source: Path, architecture: str) -> bytes:
    """Compile one freestanding C file with a `_start` to a static ELF program for 64-bit Linux.

    `architecture` is as in a target triple. The compiler is found as by `compile_object`; raises
    CompileError as that does; warnings count as refusals.
    """
    flags = ["-target", f"{architecture}-linux-musl", *_STATIC_FLAGS]
    return _compile(_find_compiler(), source, flags)


def _compile(compiler: _Compiler, source: Path, flags: Sequence[str]) -> bytes:
    if not source.is_file():
        raise CompileError(f"Compiling {source}: there is no such file. Check the path")
    directory = source.resolve().parent
    with _scratch(f"Compiling {source}") as scratch:
        output = Path(scratch, "out")
        argv = [*compiler.argv, *flags, source.name, "-o", str(output)]
        result = _run(argv, f"Compiling {source}", directory=directory, scratch=scratch)
        if result.returncode != 0 or not output.is_file():
            diagnostics = result.stderr.strip() or f"exit code {result.returncode}, no output"
            raise CompileError(
                f"Compiling {source} with {compiler.label} failed:\n{diagnostics}"
                f"{_hint(diagnostics)}"
            )
        return output.read_bytes()


@contextlib.contextmanager
def _scratch(tried: str) -> Iterator[str]:
    try:
        directory = tempfile.TemporaryDirectory(prefix=_SCRATCH_PREFIX)
    except OSError as error:
        raise NotPossibleError(
            f"{tried}: there is no directory for temporary files ({error.strerror or error}). "
            "Let TMPDIR name one that can be written"
        ) from None
    with directory as scratch, _held(scratch):
        _clear_abandoned(Path(scratch))
        yield scratch


@contextlib.contextmanager
def _held(directory: str) -> Iterator[None]:
    """A lock that ends with this process, however that ends."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _clear_abandoned(own: Path) -> None:
    """Remove what compilations left that were killed: old, ours, and held by nobody."""
    for other in own.parent.glob(f"{_SCRATCH_PREFIX}*"):
        with contextlib.suppress(OSError):
            status = other.lstat()
            is_old = time.time() - status.st_mtime > _ABANDONED_S
            if other == own or not is_old or status.st_uid != os.geteuid():
                continue
            descriptor = os.open(other, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(other, ignore_errors=True)
            finally:
                os.close(descriptor)


def _hint(diagnostics: str) -> str:
    missing = re.search(r"'([^']+)' file not found", diagnostics)
    if missing is None:
        return ""
    name = missing[1]
    if name.startswith("bpf/"):
        return (
            "\nThese headers are libbpf's: install them (apt-get install libbpf-dev, "
            "dnf install libbpf-devel), or name the directory that has them with -I"
        )
    if name.endswith("vmlinux.h"):
        return (
            "\nMake it: bpftool btf dump file /sys/kernel/btf/vmlinux format c > vmlinux.h, and "
            "name its directory with -I where that is not the source's own"
        )
    return "\nName the directory that has it with -I"


def compiler_version() -> str | None:
    """The first line of the compiler's `--version`, with ziglang's own version where it
    is the compiler; None where there is no compiler or it does not answer."""
    try:
        compiler = _find_compiler()
        return _version_of(compiler.argv, compiler.label)
    except (CompileError, NotPossibleError):
        return None


@functools.cache
def _version_of(argv: tuple[str, ...], label: str) -> str | None:
    tried = f"Asking {label} for its version"
    with _scratch(tried) as scratch:
        result = _run([*argv, "--version"], tried, directory=Path(scratch), scratch=scratch)
    lines = result.stdout.splitlines()
    if result.returncode != 0 or not lines:
        return None
    return f"{lines[0].strip()} ({label})"


def _find_compiler() -> _Compiler:
    named = os.environ.get(CLANG_VARIABLE)
    if named:
        path = shutil.which(named)
        if path is None:
            raise CompileError(
                f"Looking for the compiler: {CLANG_VARIABLE} is {named!r}, which cannot be run. "
                "Correct or unset it"
            )
        return _clang(path)
    zig = importlib.util.find_spec("ziglang")
    if zig is not None and zig.origin is not None:
        return _zig(Path(zig.origin).parent)
    path = shutil.which("clang")
    if path is None:
        raise CompileError(
            "Looking for the compiler: neither the package ziglang nor clang is installed. "
            f"{_REMEDY}; or compile elsewhere and give the object: clang -target bpf "
            f"{' '.join(CODE_FLAGS)} -c NAME.bpf.c -o NAME.bpf.o"
        )
    return _clang(path)


def _clang(path: str) -> _Compiler:
    # Debian and its kin keep <asm/types.h> below the host's triplet, where -target bpf
    # does not look; elsewhere the directory is absent.
    triplet = sysconfig.get_config_var("MULTIARCH")
    headers = Path("/usr/include", triplet) if triplet else None
    flags = ["-target", "bpfel"]
    if headers is not None and headers.is_dir():
        flags += ["-idirafter", str(headers)]
    return _Compiler((path,), tuple(flags), label=Path(path).name)


def _zig(package: Path) -> _Compiler:
    from importlib.metadata import PackageNotFoundError, version

    headers = package / "lib" / "libc" / "include"
    # Always x86's asm/*.h: what they say to a BPF program (types, little-endian byte
    # order) is the same on every 64-bit little-endian machine, and taking one gives one
    # object whichever machine built it.
    flags = ["-target", "bpfel-freestanding"]
    for name in ("x86-linux-any", "any-linux-any"):
        flags += ["-isystem", str(headers / name)]
    # libbpf's headers are the distribution's, where clang would find them itself. Behind all
    # others, so that nothing that the package has is taken from the machine.
    for name in ("/usr/local/include", "/usr/include"):
        flags += ["-idirafter", name]
    try:
        label = f"ziglang {version('ziglang')}"
    except PackageNotFoundError:
        label = "ziglang"
    # Not `python -m ziglang`, which would import whatever lies beside the source.
    argv = (str(package / "zig"), "cc")
    return _Compiler(argv, tuple(flags), ((str(package), "ziglang"),), label)


def _run(
    argv: Sequence[str], tried: str, *, directory: Path, scratch: str
) -> subprocess.CompletedProcess[str]:
    # zig caches under HOME unless told otherwise; a cold cache costs a few milliseconds
    # here, and one of its own per call can neither be read-only nor be shared.
    environment = os.environ | {
        "ZIG_GLOBAL_CACHE_DIR": scratch,
        "ZIG_LOCAL_CACHE_DIR": scratch,
        "LC_ALL": "C",
    }
    try:
        return subprocess.run(
            argv,
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise CompileError(
            f"{tried}: no answer from {argv[0]} within {_TIMEOUT_S} s. Try again, or {_REMEDY}"
        ) from None
    except OSError as error:
        raise CompileError(
            f"{tried}: {argv[0]} cannot be started: {error.strerror}. {_REMEDY}"
        ) from None
