from __future__ import annotations

import errno
import os
import shlex
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from xdplab.errors import NotPossibleError
from xdplab.kernel import bpf, features, kernel_btf
from xdplab.kernel.features import Probe, ProbeOutcome

_ROOT_MAP = "         0          0 4294967295\n"
_FULL = "CapEff:\t000001ffffffffff\nSeccomp:\t0\n"
_NONE = "CapEff:\t0000000000000000\nSeccomp:\t0\n"


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    features._conclusive.clear()
    yield
    features._conclusive.clear()


@pytest.fixture
def linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")


@pytest.fixture
def refuse(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, linux: None
) -> Callable[[int, str, str], None]:
    """Makes every load fail so, in a process with that status and user id map."""

    def prepare(number: int, status: str = _NONE, uid_map: str = _ROOT_MAP) -> None:
        def load(*args: object, **options: object) -> tuple[int, str]:
            raise OSError(number, os.strerror(number))

        (tmp_path / "status").write_text(status)
        (tmp_path / "uid_map").write_text(uid_map)
        monkeypatch.setattr(features, "_STATUS", tmp_path / "status")
        monkeypatch.setattr(features, "_UID_MAP", tmp_path / "uid_map")
        monkeypatch.setattr(bpf, "prog_load", load)

    return prepare


@pytest.mark.parametrize(
    ("number", "status", "uid_map", "outcome", "reason"),
    [
        (errno.ENOSYS, _FULL, _ROOT_MAP, Probe.NOT_SUPPORTED, "no bpf(2)"),
        (errno.EPERM, _NONE, _ROOT_MAP, Probe.UNKNOWN, "lacks CAP_BPF and CAP_NET_ADMIN"),
        (errno.EPERM, _FULL, "0 1000 1\n", Probe.UNKNOWN, "user namespace"),
        (
            errno.EPERM,
            _FULL.replace("Seccomp:\t0", "Seccomp:\t2"),
            _ROOT_MAP,
            Probe.UNKNOWN,
            "seccomp",
        ),
        (errno.EPERM, _FULL, _ROOT_MAP, Probe.UNKNOWN, "lockdown"),
        (errno.ENOMEM, _FULL, _ROOT_MAP, Probe.UNKNOWN, "memory"),
    ],
)
def test_why_bpf_is_refused(
    refuse: Callable[[int, str, str], None],
    number: int,
    status: str,
    uid_map: str,
    outcome: Probe,
    reason: str,
) -> None:
    refuse(number, status, uid_map)
    found = features.probe("bpf_syscall")
    assert found.probe is outcome
    assert reason in found.reason
    with pytest.raises(NotPossibleError) as error:
        features.require_kernel_engine()
    assert reason in str(error.value)
    assert "\n" not in str(error.value)


def _command_of(remedy: str) -> list[str]:
    """The words of the command that a remedy ends with."""
    sudo, *words = shlex.split(remedy[remedy.index("sudo ") :])
    assert sudo == "sudo"
    return words


def _called(directory: Path, name: str) -> Path:
    """A command that may be executed."""
    path = directory / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("how", ["by its path", "by a relative path", "by its name", "by a link"])
def test_the_remedy_is_what_was_called_by_its_whole_path_with_its_arguments(
    refuse: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, how: str
) -> None:
    directory = tmp_path / "a folder"
    directory.mkdir()
    path = _called(directory, "xdplab")
    (tmp_path / "link").symlink_to(path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(directory))
    called, expected = {
        "by its path": (str(path), path),
        "by a relative path": ("a folder/xdplab", path),
        "by its name": ("xdplab", path),
        # The link is kept: beside it may lie the Python that it belongs to.
        "by a link": ("./link", tmp_path / "link"),
    }[how]
    monkeypatch.setattr("sys.argv", [called, "run", "--json", "my run.json"])
    refuse(errno.EPERM)
    remedy = features.probe("bpf_syscall").remedy
    assert _command_of(remedy) == [str(expected), "run", "--json", "my run.json"]
    for capability in ("CAP_BPF", "CAP_NET_ADMIN", "CAP_SYS_ADMIN"):
        assert capability in remedy


@pytest.mark.parametrize("name", ["xdplab", "pytest"])
def test_called_as_a_module_the_remedy_calls_it_so(
    refuse: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    module = tmp_path / name / "__main__.py"
    module.parent.mkdir()
    module.write_text("")
    monkeypatch.setattr("sys.argv", [str(module), "run", "adjust-head"])
    refuse(errno.EPERM)
    command = _command_of(features.probe("bpf_syscall").remedy)
    assert command == [sys.executable, "-m", name, "run", "adjust-head"]


def test_called_by_a_script_the_remedy_calls_that(
    refuse: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = tmp_path / "mine.py"
    script.write_text("")
    monkeypatch.setattr("sys.argv", [str(script), "x"])
    refuse(errno.EPERM)
    assert _command_of(features.probe("bpf_syscall").remedy) == [sys.executable, str(script), "x"]


def test_what_could_not_be_told_is_tried_again(refuse: Callable[[int, str, str], None]) -> None:
    refuse(errno.EPERM, _NONE, _ROOT_MAP)
    assert features.probe("bpf_syscall").probe is Probe.UNKNOWN
    refuse(errno.ENOSYS, _NONE, _ROOT_MAP)
    assert features.probe("bpf_syscall").probe is Probe.NOT_SUPPORTED
    refuse(errno.EPERM, _NONE, _ROOT_MAP)
    assert features.probe("bpf_syscall").probe is Probe.NOT_SUPPORTED


def test_what_needs_a_program_follows_from_none(refuse: Callable[[int, str, str], None]) -> None:
    refuse(errno.ENOSYS, _FULL, _ROOT_MAP)
    found = features.probe_all()
    for name in ("jit", "test_run", "xdp_frags"):
        assert found[name].probe is Probe.NOT_SUPPORTED


def test_outside_linux_nothing_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    found = features.probe_all()
    assert {outcome.probe for outcome in found.values()} == {Probe.NOT_SUPPORTED}
    with pytest.raises(NotPossibleError, match=r"darwin, not Linux\. Run xdplab on Linux"):
        features.require_kernel_engine()


@pytest.mark.parametrize("missing", ["bpf_syscall", "libbpf", "netns", "test_run"])
def test_the_engine_names_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, linux: None, missing: str
) -> None:
    def answer(name: str) -> ProbeOutcome:
        if name == missing:
            return ProbeOutcome(Probe.UNKNOWN, f"no {name}", "do this")
        return ProbeOutcome(Probe.SUPPORTED, "there")

    monkeypatch.setattr(features, "probe", answer)
    with pytest.raises(NotPossibleError, match=rf"no {missing}\. Do this"):
        features.require_kernel_engine()


@pytest.mark.parametrize(
    ("bits", "missing"),
    [
        (0, ("CAP_BPF", "CAP_NET_ADMIN")),
        (1 << 39, ("CAP_NET_ADMIN",)),
        (1 << 12, ("CAP_BPF",)),
        (1 << 12 | 1 << 39, ()),
        (1 << 21, ()),
    ],
)
def test_capabilities(bits: int, missing: tuple[str, ...]) -> None:
    status = f"Name:\tx\nCapEff:\t{bits:016x}\nCapBnd:\t0\n"
    assert features.missing_capabilities(status, ("CAP_BPF", "CAP_NET_ADMIN")) == missing


def _raw_btf(order: str, kind: int, linkage: int) -> bytes:
    """BTF with an int named "size" and one type of `kind` named "wanted"."""
    strings = b"\0size\0wanted\0"
    types = struct.pack(f"{order}4I", 1, 1 << 24, 4, 32)
    types += struct.pack(f"{order}3I", 6, kind << 24 | linkage, 1)
    header = struct.pack(f"{order}HBB5I", 0xEB9F, 1, 0, 24, 0, len(types), len(types), len(strings))
    return header + types + strings


@pytest.mark.parametrize("order", ["<", ">"])
def test_functions_in_btf(order: str) -> None:
    function = _raw_btf(order, 12, 1)
    assert kernel_btf.btf_has_function(function, "wanted")
    assert not kernel_btf.btf_has_function(function, "want")
    assert not kernel_btf.btf_has_function(function, "size")
    # A typedef of that name is no function.
    assert not kernel_btf.btf_has_function(_raw_btf(order, 8, 0), "wanted")


def test_everything_on_this_machine() -> None:
    found = features.probe_all()
    if found["bpf_syscall"].probe is not Probe.SUPPORTED:
        pytest.skip(found["bpf_syscall"].reason)
    assert found["test_run"].probe is Probe.SUPPORTED
    for outcome in found.values():
        assert outcome.reason


def test_probing_leaves_nothing_behind() -> None:
    if not Path("/proc/self/fd").exists():
        pytest.skip("open files are counted in /proc")
    features.probe_all()
    features._conclusive.clear()
    before = len(list(Path("/proc/self/fd").iterdir()))
    features.probe_all()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
