"""`xdplab run` end to end: what it prints, what it writes, what it refuses."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import (
    WITHOUT_CAPABILITIES,
    XDPLAB,
    assert_clean_error,
    environment,
    xdplab,
)
from xdplab.documents import document_from_json

SHORT = ("--time", "0.3")


@pytest.mark.needs_kernel
def test_both_suites_print_their_tables_and_the_document_holds_them(tmp_path: Path) -> None:
    target = tmp_path / "run.json"
    result = xdplab("run", *SHORT, "--json", str(target))
    assert result.returncode == 0, result.stderr
    for words in (
        "bpf_xdp_adjust_head(ctx, -size)",
        "run adjust head with size 20 cost",
        "helper pair, as this kernel has it",
        "this kernel does not clear" if "does not clear" in result.stdout else "clears the bytes",
        "packet access, ipv4, 64 B",
        "over no touch by frame size",
        "9000 B, split",
        "published",
        "CPU: ",
        "Kernel: ",
        "Method: ",
    ):
        assert words in result.stdout
    assert "measuring adjust-head" in result.stderr

    document = document_from_json(json.loads(target.read_text()))
    assert document.run.complete
    assert {r.suite for r in document.results} == {"adjust-head", "packet-access"}
    assert {r.engine for r in document.results} == {"kernel"}
    net = [r for r in document.results if r.variant == "helper" and r.metric == "cost_ns"]
    assert [r.parameters["size_bytes"] for r in net] == [6, 20, 40, 200]
    # The kernel's whole nanoseconds stand beside ours, and every raw sample is there.
    gross = [r for r in document.results if r.variant == "helper" and r.metric == "gross_ns"]
    for row in gross:
        assert row.estimate is not None
        assert row.kernel_duration_ns is not None
        # Rounded down by the kernel, and of other calls than ours: within a factor of two.
        assert 0.5 < row.kernel_duration_ns / row.estimate.point < 2
    assert all(len(t.baseline_ns) == len(t.variant_ns) > 0 for r in net for t in r.trials)
    assert document.environment["kernel"]["release"] == os.uname().release
    assert document.environment["compiler"]


@pytest.mark.needs_kernel
@pytest.mark.parametrize(("text_format", "words"), [("markdown", "| --"), ("org", "|--")])
def test_tables_in_other_formats(text_format: str, words: str) -> None:
    result = xdplab("run", "adjust-head", *SHORT, "--sizes", "20", "--format", text_format)
    assert result.returncode == 0, result.stderr
    assert words in result.stdout
    assert "helper pair" in result.stdout


@pytest.mark.needs_kernel
def test_json_on_stdout_is_all_that_is_on_stdout() -> None:
    result = xdplab("run", "adjust-head", *SHORT, "--sizes", "7", "--json", "-")
    document = document_from_json(json.loads(result.stdout))
    # Seven bytes have no program of constant size: the row is left out, not made up.
    assert {r.variant for r in document.results if r.parameters.get("size_bytes") == 7} == {
        "helper",
        "helper+clear-words",
        "helper-twice",
        "aa-twin",
    }


@pytest.mark.needs_kernel
def test_output_through_a_pipe_that_closes_early() -> None:
    process = subprocess.Popen(
        [XDPLAB, "run", "adjust-head", *SHORT],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    stderr = process.stderr.read()
    process.stderr.close()
    assert process.wait(60) == 0
    assert "Traceback" not in stderr
    assert "BrokenPipe" not in stderr


@pytest.mark.needs_kernel
def test_what_the_command_line_gets_wrong() -> None:
    assert_clean_error(
        xdplab("run", "adjust-head", "--sizes", "20,300"), 2, "300", "limit here is 216"
    )
    assert_clean_error(xdplab("run", "adjust-head", "--sizes", "0"), 2, "0", "1 byte or more")
    assert_clean_error(xdplab("run", "packet-access", "--frame-sizes", "13"), 2, "13", "42", "ipv4")
    assert_clean_error(xdplab("run", "packet-access", "--frame-sizes", "80000"), 2, "65549")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run", "adjust-tail"), ("adjust-tail", "adjust-head, packet-access")),
        (("run", "--format", "html"), ("html", "terminal", "markdown", "org")),
        (("run", "--sizes", "six"), ("six", "whole numbers")),
        (("run", "--sizes", ""), ("whole numbers",)),
        (("run", "--time", "0"), ("--time",)),
        (("run", "--time", "nan"), ("--time",)),
        (("run", "--time", "-3"), ("--time",)),
        (("run", "--json", "/nowhere/at/all.json"), ("/nowhere/at/all.json",)),
        (("run", "--json", "/"), ("no file",)),
        (("measure",), ("measure",)),
    ],
)
def test_usage_errors(arguments: tuple[str, ...], words: tuple[str, ...]) -> None:
    assert_clean_error(xdplab(*arguments), 2, *words)


@pytest.mark.needs_kernel
def test_a_full_disk_at_the_end_loses_nothing(tmp_path: Path) -> None:
    result = xdplab(
        *("run", "adjust-head", *SHORT, "--sizes", "20", "--json", "/dev/full"),
        env={"TMPDIR": str(tmp_path)},
    )
    assert_clean_error(result, 3, "/dev/full", str(tmp_path))
    (kept,) = tmp_path.rglob("*.json")
    assert document_from_json(json.loads(kept.read_text())).run.complete


@pytest.mark.skipif(sys.platform != "linux", reason="takes Linux capabilities away")
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv (util-linux) is not here")
@pytest.mark.skipif(
    sys.platform == "linux" and os.geteuid() != 0, reason="is without privileges anyway"
)
def test_without_capabilities_one_sentence_says_what_is_missing() -> None:
    result = xdplab("run", prefix=WITHOUT_CAPABILITIES)
    assert_clean_error(result, 3, "CAP_BPF", "sudo")
    assert result.stdout == ""
    assert len(result.stderr.strip().splitlines()) == 1
    assert xdplab("doctor", prefix=WITHOUT_CAPABILITIES).returncode == 0


def test_help_waits_for_nothing_heavy() -> None:
    """What makes --help slow is imports: none of these may be among them."""
    code = (
        "import sys\nfrom xdplab.cli.main import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "print(sorted({name.split('.')[0] for name in sys.modules} & "
        "{'numpy', 'scipy', 'rich', 'scapy', 'ctypes'}), file=sys.stderr)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stderr.strip() == "[]"
    assert "doctor" in result.stdout
