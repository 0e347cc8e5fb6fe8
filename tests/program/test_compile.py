"""Compiling: the same bytes everywhere, and errors that say what to do."""

from __future__ import annotations

import fcntl
import importlib.util
import os
import stat
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.program.sources import HEADER, SOURCE
from xdplab.errors import CompileError, NotPossibleError
from xdplab.program import compile_object, compiler_version, read_object

needs_compiler = pytest.mark.skipif(
    compiler_version() is None, reason="no BPF compiler: neither ziglang nor clang is installed"
)


def tree(root: Path) -> tuple[Path, Path]:
    """A source and its include directory below `root`."""
    include, sources = root / "include", root / "src"
    include.mkdir(parents=True)
    sources.mkdir()
    (include / "common.h").write_text(HEADER)
    path = sources / "everything.bpf.c"
    path.write_text(SOURCE)
    return path, include


@needs_compiler
def test_same_bytes_from_any_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiled: bytes
) -> None:
    first, include = tree(tmp_path / "a")
    second, other_include = tree(tmp_path / "somewhere" / "else")
    one = compile_object(first, include=[include])
    monkeypatch.chdir(second.parent)
    two = compile_object(Path(second.name), include=[other_include])
    assert one == two
    assert str(tmp_path).encode() not in one
    # What a loader sees of the paths is relative; the line text of headers is there too.
    lines = read_object(one).programs["main_prog"].line_info
    assert {line.file for line in lines} == {"everything.bpf.c", "../include/common.h"}
    assert all(line.text for line in lines)


@needs_compiler
def test_home_may_be_read_only_and_builds_may_overlap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source_path: Path, compiled: bytes
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "absent"))
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(compile_object, [source_path] * 4))
    assert results == [compiled] * 4
    assert not (tmp_path / "absent").exists()


@needs_compiler
def test_defines(tmp_path: Path) -> None:
    source = tmp_path / "define.bpf.c"
    source.write_text('__attribute__((section("xdp"))) int prog(void *c) { return VALUE; }\n')
    spec = read_object(compile_object(source, defines={"VALUE": "7"}))
    assert spec.programs["prog"].insns[4] == 7
    with pytest.raises(CompileError, match=r"define\.bpf\.c:1:\d+: error: .*VALUE"):
        compile_object(source)


def test_missing_source(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="there is no such file"):
        compile_object(tmp_path / "absent.bpf.c")


def test_named_compiler_must_exist(monkeypatch: pytest.MonkeyPatch, source_path: Path) -> None:
    monkeypatch.setenv("XDPLAB_CLANG", "no-such-clang")
    with pytest.raises(CompileError, match="XDPLAB_CLANG is 'no-such-clang'.*Correct or unset"):
        compile_object(source_path)
    assert compiler_version() is None


def test_no_compiler_at_all(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source_path: Path
) -> None:
    monkeypatch.delenv("XDPLAB_CLANG", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CompileError, match="pip install ziglang==") as caught:
        compile_object(source_path)
    # Whoever may install nothing here is told how to make the object elsewhere.
    assert "clang -target bpf -O2 -g -mcpu=v3 -c NAME.bpf.c -o NAME.bpf.o" in str(caught.value)
    assert compiler_version() is None


def fake_clang(directory: Path, body: str) -> Path:
    """A clang that is a Python script."""
    path = directory / "clang"
    path.write_text(f"#!{sys.executable}\nimport sys, time\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_clang_on_path_is_the_last_resort(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source_path: Path
) -> None:
    body = (
        "if '--version' in sys.argv: print('clang version 99')\n"
        "else: open(sys.argv[-1], 'w').write(' '.join(sys.argv[1:]))"
    )
    fake_clang(tmp_path, body)
    monkeypatch.delenv("XDPLAB_CLANG", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    arguments = compile_object(source_path).decode().split()
    assert {"-target", "bpfel", "-g", "-mcpu=v3"} <= set(arguments)
    assert compiler_version() == "clang version 99 (clang)"


def test_a_compiler_that_writes_nothing_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source_path: Path
) -> None:
    path = fake_clang(tmp_path, "")
    monkeypatch.setenv("XDPLAB_CLANG", os.fspath(path))
    with pytest.raises(CompileError, match="with clang failed:\nexit code 0, no output"):
        compile_object(source_path)


LIBBPF = (
    "#include <linux/bpf.h>\n#include <bpf/bpf_helpers.h>\n"
    'SEC("xdp") int prog(struct xdp_md *ctx) { return XDP_DROP; }\n'
)


@needs_compiler
@pytest.mark.skipif(
    not Path("/usr/include/bpf/bpf_helpers.h").exists(), reason="libbpf's headers are not installed"
)
def test_the_distributions_libbpf_headers_are_found(tmp_path: Path) -> None:
    source = tmp_path / "helpers.bpf.c"
    source.write_text(LIBBPF)
    assert read_object(compile_object(source)).programs["prog"].section == "xdp"


@pytest.mark.parametrize(
    ("header", "hint"),
    [
        ("bpf/bpf_helpers.h", "libbpf-dev"),
        ("vmlinux.h", "bpftool btf dump file"),
        ("my.h", "Name the directory that has it with -I"),
    ],
)
def test_a_header_that_is_missing_has_its_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source_path: Path, header: str, hint: str
) -> None:
    path = fake_clang(tmp_path, f"sys.exit(\"a.c:1:10: fatal error: '{header}' file not found\")")
    monkeypatch.setenv("XDPLAB_CLANG", os.fspath(path))
    with pytest.raises(CompileError, match=f"'{header}' file not found\n.*{hint}"):
        compile_object(source_path)


@needs_compiler
def test_what_killed_compilations_left_is_removed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    names = ("xdplab-cc-abandoned", "xdplab-cc-recent", "xdplab-cc-held", "of-another")
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "out").write_text("half an object")
        if name != "xdplab-cc-recent":
            os.utime(tmp_path / name, (0, 0))
    descriptor = os.open(tmp_path / "xdplab-cc-held", os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        compile_object(source_path)
    finally:
        os.close(descriptor)
    assert {path.name for path in tmp_path.iterdir()} == set(names[1:])


def test_without_a_temporary_directory_it_is_not_the_output_that_failed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source_path: Path
) -> None:
    monkeypatch.setenv("XDPLAB_CLANG", os.fspath(fake_clang(tmp_path, "")))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "absent"))
    with pytest.raises(NotPossibleError, match=r"^Compiling .* temporary files .* TMPDIR"):
        compile_object(source_path)
    assert compiler_version() is None
