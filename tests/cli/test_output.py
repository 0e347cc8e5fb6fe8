"""Where standard output is full or closed: one sentence or nothing, and nothing is lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import assert_clean_error, redirected
from xdplab.documents import document_from_json

RUN = ("run", "adjust-head", "--engine", "user", "--time", "0.05", "--sizes", "20")

TEXTS = [("--help",), ("--version",), ("run", "--help"), ("doctor",)]
TABLES = [RUN, (*RUN, "--format", "markdown"), (*RUN, "--format", "org")]

needs_dev_full = pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="this system has no /dev/full"
)


def _messages(stderr: str) -> list[str]:
    """What was said besides what is being measured."""
    return [line for line in stderr.splitlines() if not line.startswith("measuring ")]


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
