"""Where standard output or standard error is full, closed or without a reader: one sentence or
nothing, nothing is lost, and the exit status is what it would be.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import XDPLAB, assert_clean_error, environment, redirected
from xdplab.cli.main import main
from xdplab.documents import document_from_json

RUN = ("run", "adjust-head", "--engine", "user", "--time", "0.05", "--sizes", "20")

TEXTS = [("--help",), ("--version",), ("run", "--help"), ("doctor",)]
TABLES = [RUN, (*RUN, "--format", "markdown"), (*RUN, "--format", "org")]

needs_dev_full = pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="this system has no /dev/full"
)


def _messages(stderr: str) -> list[str]:
    """What was said besides what is being measured, and where it is kept."""
    usual = ("measuring ", "xdplab: kept as ")
    return [line for line in stderr.splitlines() if not line.startswith(usual)]


@needs_dev_full
@pytest.mark.parametrize("arguments", TEXTS, ids=" ".join)
def test_a_full_output_is_one_sentence(arguments: tuple[str, ...]) -> None:
    result = redirected("> /dev/full", *arguments)
    assert_clean_error(result, 3)
    assert _messages(result.stderr) == [
        "xdplab: writing the output failed: No space left on device"
    ]


@needs_dev_full
@pytest.mark.parametrize("arguments", TABLES, ids=" ".join)
def test_where_tables_have_no_room_the_document_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    result = redirected("> /dev/full", *arguments)
    assert_clean_error(result, 3)
    (message,) = _messages(result.stderr)
    (kept,) = tmp_path.iterdir()
    assert message == (
        "xdplab: writing the output failed: No space left on device; the result document has "
        f"its figures. It is kept: mv {kept} WHERE-YOU-WANT-IT"
    )
    results = document_from_json(json.loads(kept.read_text())).results
    assert any(figure.estimate for figure in results)


@pytest.mark.parametrize("arguments", [*TEXTS, *TABLES], ids=" ".join)
def test_a_closed_output_has_nobody_to_tell(arguments: tuple[str, ...]) -> None:
    result = redirected(">&-", *arguments)
    assert_clean_error(result, 0)
    assert _messages(result.stderr) == []


@pytest.mark.parametrize(
    ("redirection", "status"),
    [pytest.param("> /dev/full", 3, marks=needs_dev_full), (">&-", 0)],
)
def test_the_document_is_written_whatever_becomes_of_the_tables(
    tmp_path: Path, redirection: str, status: int
) -> None:
    target = tmp_path / "run.json"
    result = redirected(redirection, *RUN, "--json", str(target))
    assert_clean_error(result, status)
    document = document_from_json(json.loads(target.read_text()))
    assert any(figure.estimate for figure in document.results)
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize(
    ("redirection", "why"),
    [
        pytest.param("> /dev/full", "No space left on device", marks=needs_dev_full),
        (">&-", "it is closed"),
    ],
)
def test_a_document_that_standard_output_does_not_take_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redirection: str, why: str
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    result = redirected(redirection, *RUN, "--json", "-")
    assert_clean_error(result, 3, why)
    (message,) = _messages(result.stderr)
    (kept,) = tmp_path.iterdir()
    assert str(kept) in message
    assert document_from_json(json.loads(kept.read_text())).run.complete


@needs_dev_full
def test_a_wrong_request_is_told_even_so() -> None:
    for redirection in ("> /dev/full", ">&-"):
        assert_clean_error(redirected(redirection, "run", "no-such-suite"), 2, "no-such-suite")


# --- standard error

STATUSES = [
    (("run", "no-such-suite"), 2),
    (("run", "--no-such-option"), 2),
    (("run", "--time", "never"), 2),
    (("run", "--json", "/"), 2),
    (("count",), 2),
    (("count", "/nowhere.bpf.o"), 2),
    (("doctor", "--json", "/nowhere/at/all.json"), 2),
    (("no-such-command",), 2),
    ((), 2),
    (("doctor",), 0),
    (RUN, 0),
]


@pytest.mark.parametrize(
    "redirection", [pytest.param("2> /dev/full", marks=needs_dev_full), "2>&-"]
)
@pytest.mark.parametrize(("arguments", "status"), STATUSES, ids=str)
def test_what_cannot_be_said_leaves_the_status(
    redirection: str, arguments: tuple[str, ...], status: int
) -> None:
    result = redirected(redirection, *arguments)
    assert (result.returncode, result.stderr) == (status, "")
    assert ("adjust_head" in result.stdout) == (arguments == RUN)


@needs_dev_full
def test_neither_output_nor_error_can_be_written() -> None:
    assert redirected("> /dev/full 2>&1", "doctor").returncode == 3
    assert redirected("> /dev/full 2>&1", "run", "no-such-suite").returncode == 2


@pytest.mark.parametrize(("arguments", "status"), [(("run", "no-such-suite"), 2), (RUN, 0)])
def test_an_error_stream_without_a_reader_leaves_the_status(
    arguments: tuple[str, ...], status: int
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    result = subprocess.run(
        [XDPLAB, *arguments],
        stdout=subprocess.DEVNULL,
        stderr=writer,
        env=environment(),
        check=False,
        timeout=120,
    )
    os.close(writer)
    assert result.returncode == status


@needs_dev_full
def test_ctrl_c_is_ctrl_c_where_nobody_can_be_told() -> None:
    code = (
        "import signal, xdplab.cli.run\n"
        "from xdplab.cli.main import main\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "xdplab.cli.run.choose_suites = lambda names: signal.raise_signal(signal.SIGINT)\n"
        "main(['run'])\n"
    )
    with Path("/dev/full").open("w") as full:
        result = subprocess.run([sys.executable, "-c", code], stderr=full, check=False, timeout=120)
    assert result.returncode == 128 + signal.SIGINT


@pytest.mark.parametrize(
    ("error", "wanted"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "writing the output failed: No space"),
        (
            FileNotFoundError(errno.ENOENT, "No such file or directory", "/sys/class/net"),
            "'/sys/class/net' could not be used: No such file or directory. Is /sys mounted here?",
        ),
        (OSError(errno.EMFILE, "Too many open files"), "ulimit -n"),
        (OSError(errno.ENODEV, "No such device"), "an interface was removed meanwhile"),
    ],
)
def test_an_error_of_the_system_is_not_taken_for_another(
    error: OSError, wanted: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(**_options: object) -> None:
        raise error

    monkeypatch.setattr("xdplab.cli.main.cli.main", fail)
    monkeypatch.setattr("xdplab.cli.main._silence_stdout", lambda: None)
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 3
    assert wanted in capsys.readouterr().err
