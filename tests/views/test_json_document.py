from __future__ import annotations

import io
import json
import math
import os
import re
import resource
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.views.tables import estimates
from xdplab import records
from xdplab.documents import document_from_json
from xdplab.errors import OutputError, UsageError
from xdplab.records import Document, Result, RunInfo, Trial
from xdplab.views.json_document import check_target, dumps, write, write_json

_RUN = RunInfo("id", "2025-01-01T00:00:00Z", 1.5, ("xdplab", "run"), "0.1.0")
_DOCUMENT = Document(_RUN, {"cpu": {"model": "x"}}, ())

_words = st.text(max_size=10)
_counts = st.lists(st.integers(0, 2**63), max_size=6).map(tuple)
_trials = st.builds(
    Trial,
    baseline_ns=_counts,
    variant_ns=_counts,
    placement=st.tuples(st.integers(-1, 63), st.integers(-1, 63)),
    interrupted=st.integers(0, 9),
    preempted=st.integers(0, 9),
    duration_ns=st.none() | st.integers(0, 2**32 - 1),
    clock_ghz=st.none() | st.floats(0.1, 10),
)
_results = st.builds(
    Result,
    suite=_words,
    engine=_words,
    variant=_words,
    baseline=st.none() | _words,
    parameters=st.dictionaries(_words, st.integers() | _words, max_size=3),
    metric=_words,
    method=_words,
    estimate=st.none() | estimates(),
    resolution=st.none() | st.floats(0, 1e9),
    verdict=_words,
    operations_per_call=st.integers(1, 10**6),
    trials=st.lists(_trials, max_size=3).map(tuple),
    note=_words,
    cycles=st.none() | estimates(),
)
_documents = st.builds(
    Document,
    run=st.just(_RUN),
    environment=st.dictionaries(_words, st.none() | st.booleans() | _words, max_size=3),
    results=st.lists(_results, max_size=3).map(tuple),
    warnings=st.lists(st.builds(records.Warning, _words, _words, _words), max_size=2).map(tuple),
)


@given(_documents)
def test_a_document_comes_back_as_it_was(document: Document) -> None:
    text = dumps(document.to_json())
    assert document_from_json(json.loads(text, parse_constant=pytest.fail)) == document
    assert text.isascii()


_json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | _words,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(_words | st.just("samples"), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(st.dictionaries(_words, _json_values, max_size=3))
def test_the_layout_changes_no_value(data: dict[str, Any]) -> None:
    assert json.loads(dumps(data)) == data


def test_layout() -> None:
    data = {"a": {"b": [1, 2]}, "results": [{"samples": {"trials": [{"ns": [1, 2]}]}}], "c": {}}
    assert dumps(data) == (
        '{\n  "a": {\n    "b": [1, 2]\n  },\n  "results": [\n    {\n'
        '      "samples": {"trials":[{"ns":[1,2]}]}\n    }\n  ],\n  "c": {}\n}\n'
    )


def test_numbers_that_json_lacks_become_null() -> None:
    data = {"a": math.nan, "samples": [math.inf, 1.0], "b": [-math.inf]}
    assert json.loads(dumps(data)) == {"a": None, "samples": [None, 1.0], "b": [None]}


def test_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    check_target("-")
    write(_DOCUMENT, "-")
    assert json.loads(capsys.readouterr().out) == _DOCUMENT.to_json()


def test_a_file_is_made_as_open_would_make_it(tmp_path: Path) -> None:
    target = tmp_path / "result.json"
    check_target(str(target))
    assert list(tmp_path.iterdir()) == []
    before = os.umask(0o027)
    try:
        write(_DOCUMENT, str(target))
    finally:
        os.umask(before)
    assert json.loads(target.read_text()) == _DOCUMENT.to_json()
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    assert list(tmp_path.iterdir()) == [target]


def test_a_replaced_file_keeps_its_mode_and_its_link(tmp_path: Path) -> None:
    target, link = tmp_path / "real.json", tmp_path / "link.json"
    target.write_text("old")
    target.chmod(0o600)
    link.symlink_to(target)
    check_target(str(link))
    assert target.read_text() == "old"
    write(_DOCUMENT, str(link))
    assert link.is_symlink()
    assert json.loads(target.read_text()) == _DOCUMENT.to_json()
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


def test_devices_are_written_into_and_never_replaced(tmp_path: Path) -> None:
    check_target(os.devnull)
    write(_DOCUMENT, os.devnull)
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)


def test_what_a_shell_hands_over_as_a_pipe(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    try:
        target = f"/dev/fd/{writer}"
        if not Path(target).exists():
            pytest.skip("this system has no /dev/fd")
        check_target(target)
        write(_DOCUMENT, target)
        assert json.loads(os.read(reader, 1 << 16)) == _DOCUMENT.to_json()
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.parametrize("name", ["", ".", "missing/result.json", "file/result.json", "n" * 300])
def test_bad_targets_are_told_before_measuring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        check_target(name)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_an_unwritable_directory_is_told_before_measuring(tmp_path: Path) -> None:
    # Not even root may make files in /proc.
    if os.geteuid() == 0 and not Path("/proc/self").exists():
        pytest.skip("root may write everywhere here")
    directory = Path("/proc") if os.geteuid() == 0 else tmp_path
    if directory == tmp_path:
        tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="may write to"):
        check_target(str(directory / "result.json"))


def _kept(error: OutputError) -> Path:
    found = re.search(r"mv (\S+) ", str(error))
    assert found, str(error)
    return Path(found.group(1))


def test_a_vanished_directory_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(OutputError) as caught:
        write(_DOCUMENT, str(tmp_path / "gone" / "result.json"))
    assert json.loads(_kept(caught.value).read_text()) == _DOCUMENT.to_json()


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A directory on a file system with room for one page."""
    directory = tmp_path / "full"
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4096", "tmpfs", str(directory)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"a full disk is a tmpfs, and it cannot be mounted here: {error}")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)


def test_a_full_disk_loses_nothing(
    full_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    target = full_disk / "result.json"
    target.write_text("old")
    check_target(str(target))
    data = {"text": "x" * 10_000}
    with pytest.raises(OutputError, match="No space left") as caught:
        write_json(data, str(target))
    assert json.loads(_kept(caught.value).read_text()) == data
    assert target.read_text() == "old"
    assert list(full_disk.iterdir()) == [target]


def test_where_no_file_can_grow_the_text_goes_to_standard_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Where pytest captures by file descriptor, standard error is a file that cannot grow either.
    errors = io.StringIO()
    monkeypatch.setattr(sys, "stderr", errors)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, before[1]))
    try:
        with pytest.raises(OutputError, match="on standard error"):
            write(_DOCUMENT, str(tmp_path / "result.json"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert json.loads(errors.getvalue()) == _DOCUMENT.to_json()
    assert list(tmp_path.iterdir()) == []


def test_a_closed_pipe_is_one_error_and_loses_nothing(tmp_path: Path) -> None:
    program = (
        "import os, sys\n"
        "from xdplab.errors import OutputError\n"
        "from xdplab.views.json_document import write_json\n"
        "try:\n"
        "    write_json({'x': 'y' * 100000}, '-')\n"
        "except OutputError as error:\n"
        "    sys.stderr.write(str(error))\n"
    )
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-c", program],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        check=False,
    )
    os.close(writer)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert "Broken pipe" in done.stderr
    (kept,) = tmp_path.iterdir()
    assert json.loads(kept.read_text()) == {"x": "y" * 100000}
