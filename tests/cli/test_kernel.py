"""`xdplab kernel` in this process: recorded consoles in place of boots, and what goes wrong."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.guests.recorded import console
from xdplab.before_after import run as runs
from xdplab.before_after import why
from xdplab.before_after.plan import Planned
from xdplab.cli.kernel import command
from xdplab.documents import documents_from_text
from xdplab.errors import NotPossibleError, UsageError
from xdplab.guests import debian, qemu
from xdplab.store.store import Store

Kernel = Callable[..., Result]


def invoke(*arguments: str) -> Result:
    """The command; an error of ours is raised."""
    result = CliRunner().invoke(command, list(arguments), standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Kernel:
    """Runs the command where a boot of the file NAME says what NAME's recording has."""
    real = runs.run

    def with_recordings(kernels: Sequence[Path], planned: Planned, *more: Any) -> Any:
        def boot(kernel: Path, *_: object) -> str:
            return console(kernel.name, planned)

        return functools.partial(real, boot_once=boot)(kernels, planned, *more)

    monkeypatch.setattr(runs, "run", with_recordings)
    monkeypatch.setattr(qemu, "find_qemu", lambda: "qemu")
    monkeypatch.setattr(qemu, "qemu_version", lambda: "QEMU")
    for name in ("before", "after"):
        (tmp_path / name).write_bytes(bytes(0x202) + b"HdrS")

    def called(*arguments: str) -> Result:
        words = [
            str(tmp_path / word) if word in {"before", "after"} else word for word in arguments
        ]
        return invoke("run", "--unit", "insns", *words)

    return called


def test_a_patch_has_its_table_its_documents_and_its_place_in_the_store(
    recorded: Kernel, tmp_path: Path
) -> None:
    store, target = tmp_path / "runs.sqlite", tmp_path / "out.json"
    result = recorded(
        *("--a", "before", "--b", "after", "adjust-head", "--format", "markdown"),
        *("--store", str(store), "--json", str(target)),
    )
    assert result.return_value == 0
    (row,) = [line for line in result.output.splitlines() if line.startswith("| helper, 200 B ")][
        :1
    ]
    figures = [word.strip() for word in row.split("|")[2:5]]
    assert int(figures[1]) - int(figures[0]) == int(figures[2]) > 0
    assert figures[2].startswith("+")
    documents = documents_from_text(target.read_text(), "out")
    assert [one.environment["guest"]["label"] for one in documents] == ["A", "B"]
    assert {r.engine for one in documents for r in one.results} == {"guest"}
    with Store(store) as opened:
        notes = {summary.run.note for summary in opened.runs()}
    assert notes == {f"kernel A: {tmp_path / 'before'}", f"kernel B: {tmp_path / 'after'}"}


def test_what_was_counted_is_kept_where_it_cannot_be_profiled(
    recorded: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise NotPossibleError("this QEMU takes no plugins")

    monkeypatch.setattr(why, "function_results", refuse)
    store = tmp_path / "runs.sqlite"
    with pytest.raises(NotPossibleError, match="takes no plugins"):
        recorded("--a", "before", "--b", "after", "adjust-head", "--why", "--store", str(store))
    with Store(store) as opened:
        assert [summary.run.complete for summary in opened.runs()] == [False, False]


def test_one_kernel_is_one_document(recorded: Kernel, tmp_path: Path) -> None:
    target = tmp_path / "one.json"
    result = recorded("--a", "before", "adjust-head", "--no-store", "--json", str(target))
    assert "difference" not in result.output
    assert json.loads(target.read_text())["environment"]["guest"]["counts_instructions"] is True


def test_without_qemu_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xdplab.guests.qemu.shutil.which", lambda _name: None)
    with pytest.raises(NotPossibleError, match="apt-get install qemu-system-x86"):
        invoke("run", "--a", "bzImage")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "No such file"),
        (b"", "no bootable x86 kernel"),
        (b"\x7fELF" + bytes(0x300), "uncompressed one"),
    ],
)
def test_a_file_that_is_no_kernel_is_refused_before_any_boot(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes | None, words: str
) -> None:
    monkeypatch.setattr(qemu, "find_qemu", lambda: "qemu")
    monkeypatch.setattr(qemu, "boot", None)
    kernel = tmp_path / "bzImage"
    if content is not None:
        kernel.write_bytes(content)
    with pytest.raises(UsageError, match=words):
        invoke("run", "--a", str(kernel), "--no-store")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--frame", "ipv4:64"), "give --prog"),
        (("veth",), "no suite 'veth' for guest kernels"),
    ],
)
def test_requests_that_make_no_sense_are_refused(
    recorded: Kernel, arguments: tuple[str, ...], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        recorded("--a", "before", *arguments)


def test_only_names_of_kernel_packages_are_fetched(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no name of a kernel package"):
        debian.fetch("bash; rm -rf /", tmp_path)


def test_fetching_needs_apt_and_leaves_nothing_half_done(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("xdplab.guests.debian.shutil.which", lambda _name: None)
    with pytest.raises(NotPossibleError, match="apt-get"):
        debian.fetch(folder=tmp_path / "kernels")
    monkeypatch.setattr("xdplab.guests.debian.shutil.which", lambda name: name)

    def answers(argv: list[str], tried: str, directory: Path) -> str:
        if argv[0] == "dpkg":
            raise NotPossibleError(f"{tried} failed")
        if argv[0] == "apt-get":
            (directory / "kernel.deb").write_bytes(b"half")
        return "  Candidate: 1\n"

    monkeypatch.setattr(debian, "_run", answers)
    with pytest.raises(NotPossibleError, match="unpacking"):
        debian.fetch(folder=tmp_path / "kernels")
    assert not list((tmp_path / "kernels").iterdir())

    def whole(argv: list[str], tried: str, directory: Path) -> str:
        if argv[0] == "dpkg":
            boot = directory / "unpacked" / "boot"
            boot.mkdir(parents=True)
            (boot / "vmlinuz-6").write_bytes(b"kernel")
            return ""
        return answers(argv, tried, directory)

    monkeypatch.setattr(debian, "_run", whole)
    found = debian.fetch(folder=tmp_path / "kernels")
    assert found.read_bytes() == b"kernel"
    monkeypatch.setattr(debian, "_run", _only_looks_up)
    assert debian.fetch(folder=tmp_path / "kernels") == found


def _only_looks_up(argv: list[str], _tried: str, _directory: Path) -> str:
    assert argv[0] == "apt-cache", argv
    return "  Candidate: 1\n"
