"""`xdplab run` end to end: what it prints, what it writes, what it refuses."""

from __future__ import annotations

import json
import os
import shlex
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
from xdplab import __version__
from xdplab.documents import document_from_json
from xdplab.suites.memset_families import BLOCK_SIZES, CONSTANT_SIZES, RUN_TIME_SIZES

SHORT = ("--time", "0.3")
IN_KERNEL = ("--engine", "kernel", *SHORT)


@pytest.mark.needs_kernel
def test_both_suites_print_their_tables_and_the_document_holds_them(tmp_path: Path) -> None:
    target = tmp_path / "run.json"
    suites = ("adjust-head", "packet-access")
    result = xdplab("run", *suites, *IN_KERNEL, "--json", str(target))
    assert result.returncode == 0, result.stderr
    for words in (
        "bpf_xdp_adjust_head(ctx, -size)",
        "run adjust head with size 20 cost",
        "As the selftest prints it, from the kernel's own whole nanoseconds:",
        "helper pair",
        "+ clearing, loop of words",
        "this kernel does not clear" if "does not clear" in result.stdout else "clears the bytes",
        "a second pair of 6 B right behind the first",
        "cost of packet access, ipv4, 64 B, in this kernel",
        "cost over no touch by frame size, ipv4",
        "cost over no touch by packet, 64 B",
        "9000 B, split",
        "published",
        "cycles",
        "CPU: ",
        "Kernel: ",
        f"Run: xdplab {__version__}, ",
        "engine kernel on CPU ",
    ):
        assert words in result.stdout
    assert "measuring adjust-head" in result.stderr
    # 160 columns, where it is no terminal: nothing below the tables is wider.
    below = result.stdout[result.stdout.index("CPU: ") :].split("\n\n")[0]
    assert max(map(len, below.splitlines())) <= 160

    document = document_from_json(json.loads(target.read_text()))
    assert document.run.complete
    assert {r.suite for r in document.results} == set(suites)
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
    assert document.environment["cpu"]["pinned"] in os.sched_getaffinity(0)
    for row in document.results:
        clocks = [trial.clock_ghz for trial in row.trials]
        # Where the clock can be measured, it is with every trial, and cycles with every figure.
        assert (row.cycles is not None) == (bool(clocks) and None not in clocks)
        if row.cycles is not None and row.metric == "gross_ns":
            assert row.estimate is not None
            assert 0 < row.estimate.point < row.cycles.point < 10 * row.estimate.point


@pytest.mark.needs_kernel
@pytest.mark.parametrize(("text_format", "words"), [("markdown", "| --"), ("org", "|--")])
def test_tables_in_other_formats(text_format: str, words: str) -> None:
    result = xdplab("run", "adjust-head", *IN_KERNEL, "--sizes", "20", "--format", text_format)
    assert result.returncode == 0, result.stderr
    assert words in result.stdout
    assert "helper pair" in result.stdout


@pytest.mark.needs_kernel
def test_json_on_stdout_is_all_that_is_on_stdout() -> None:
    result = xdplab("run", "adjust-head", *IN_KERNEL, "--sizes", "7", "--json", "-")
    document = document_from_json(json.loads(result.stdout))
    # Seven bytes have no program of constant size: the row is left out, not made up.
    assert {r.variant for r in document.results if r.parameters.get("size_bytes") == 7} == {
        "helper",
        "helper+clear-words",
        "helper-twice",
        "aa-twin",
    }


def test_memset_natively_has_every_published_size_and_its_loop_apart() -> None:
    arguments = ("run", "memset", "--engine", "native", "--time", "1", "--json", "-")
    results = document_from_json(json.loads(xdplab(*arguments).stdout)).results
    assert {row.engine for row in results} == {"native"}
    net = {
        (row.variant, row.parameters.get("size_bytes")): row.estimate
        for row in results
        if row.baseline == "loop"
    }
    for variant, sizes in (
        ("constant", CONSTANT_SIZES),
        ("run-time", RUN_TIME_SIZES),
        ("blocks", BLOCK_SIZES),
    ):
        assert {size for one, size in net if one == variant} == set(sizes)
    loop, gross = (
        next(row.estimate for row in results if row.variant == one and row.metric == "gross_ns")
        for one in ("loop", "constant")
    )
    four, many = net["constant", 32], net["constant-stores", 8192]
    assert loop is not None
    assert gross is not None
    assert four is not None
    assert many is not None
    # 32 bytes with their loop take longer than the loop, and four stores a fraction of a thousand.
    assert gross.point > loop.point > 0
    assert four.point < many.point / 20


@pytest.mark.needs_kernel
def test_output_through_a_pipe_that_closes_early() -> None:
    process = subprocess.Popen(
        [XDPLAB, "run", "adjust-head", *IN_KERNEL],
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


@pytest.mark.parametrize("engine", [pytest.param("kernel", marks=pytest.mark.needs_kernel), "user"])
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("adjust-head", "--sizes", "20,300"), ("300", "limit here is 216")),
        (("adjust-head", "--sizes", "0"), ("0", "1 byte or more")),
        (("packet-access", "--frame-sizes", "13"), ("13", "42", "ipv4")),
        (("packet-access", "--frame-sizes", "80000"), ("65549",)),
    ],
)
def test_what_the_command_line_gets_wrong(
    arguments: tuple[str, ...], words: tuple[str, ...], engine: str
) -> None:
    assert_clean_error(xdplab("run", "--engine", engine, *arguments), 2, *words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run", "adjust-tail"), ("adjust-tail", "adjust-head, ")),
        (("run", "--format", "html"), ("html", "terminal", "markdown", "org")),
        (("run", "--sizes", "six"), ("six", "whole numbers")),
        (("run", "--sizes", ""), ("whole numbers",)),
        *(
            (("run", "--sizes", text), (repr(text), "whole numbers such as 6,20,40"))
            # int() would take the first five.
            for text in ("1_0", "6,2_0", "\u0661\u0660", " 6", "+6", "6,", "-6", "6.0", "9" * 5000)
        ),
        (("run", "--frame-sizes", "1_500"), ("'1_500'", "whole numbers")),
        *(
            (("run", "--time", text), ("--time", repr(text), "no time from"))
            # float() would take them.
            for text in ("1_0", "\u0661", " 5", "5 ", "+5", "infinity", "1e400")
        ),
        (("run", "--time", "0"), ("--time",)),
        (("run", "--time", "nan"), ("--time",)),
        (("run", "--time", "-3"), ("--time",)),
        (("run", "--json", "/nowhere/at/all.json"), ("/nowhere/at/all.json",)),
        (("run", "--json", "/"), ("no file",)),
        *(
            ((*command, "--json", ""), ("cannot be written to an empty name", "Give a file's path"))
            for command in (("run",), ("doctor",), ("count", "filter.bpf.o"))
        ),
        (("run", ""), ("there is no suite ''",)),
        (("measure",), ("measure",)),
        # An option was meant for something: its suite does not run.
        (
            ("run", "packet-access", "--sizes", "6"),
            ("--sizes belongs to adjust-head, which does not run here. Add adjust-head or",),
        ),
        (
            ("run", "adjust-head", "--frame-sizes", "64"),
            ("--frame-sizes belongs to packet-access", "Add packet-access or leave the option out"),
        ),
        # Even where it says what holds anyway.
        (("run", "packet-access", "--sizes", "6,20,40,200"), ("--sizes belongs to adjust-head",)),
        (("run", "veth", "--explain", "--json", "-"), ("--explain measures nothing that --json",)),
        (("run", "veth", "--time", "0"), ("'0' is no time from 0.001 to 86400 seconds",)),
    ],
)
def test_usage_errors(arguments: tuple[str, ...], words: tuple[str, ...]) -> None:
    assert_clean_error(xdplab(*arguments), 2, *words)


@pytest.mark.needs_kernel
def test_a_full_disk_at_the_end_loses_nothing(tmp_path: Path) -> None:
    result = xdplab(
        *("run", "adjust-head", *IN_KERNEL, "--sizes", "20", "--json", "/dev/full"),
        env={"TMPDIR": str(tmp_path)},
    )
    assert_clean_error(result, 3, "/dev/full", str(tmp_path))
    (kept,) = tmp_path.rglob("*.json")
    assert document_from_json(json.loads(kept.read_text())).run.complete


without_capabilities = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("setpriv") is None or os.geteuid() != 0,
    reason="takes capabilities away, which needs Linux, setpriv (util-linux) and to have them",
)


@without_capabilities
def test_without_capabilities_one_sentence_says_what_is_missing(tmp_path: Path) -> None:
    arguments = ("run", "adjust-head", "--engine", "kernel", "--json", f"{tmp_path}/my run.json")
    result = xdplab(*arguments, prefix=WITHOUT_CAPABILITIES, cwd=tmp_path)
    assert_clean_error(result, 3, "CAP_BPF")
    assert result.stdout == ""
    (line,) = result.stderr.strip().splitlines()
    # What is to be called is there, and is called with what was asked for.
    sudo, called, *repeated = shlex.split(line[line.index("sudo ") :])
    assert (sudo, tuple(repeated)) == ("sudo", arguments)
    assert Path(called).is_absolute()
    assert os.access(called, os.X_OK)
    assert list(tmp_path.iterdir()) == []
    assert xdplab("doctor", prefix=WITHOUT_CAPABILITIES).returncode == 0


@without_capabilities
def test_without_capabilities_a_module_is_called_as_one() -> None:
    arguments = ("-m", "xdplab", "run", "adjust-head", "--engine", "kernel")
    result = subprocess.run(
        [*WITHOUT_CAPABILITIES, sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert_clean_error(result, 3, shlex.join(["sudo", sys.executable, *arguments]))


@without_capabilities
def test_without_capabilities_the_user_engine_measures_and_says_why() -> None:
    short = ("--time", "0.05", "--sizes", "20")
    result = xdplab("run", "adjust-head", *short, prefix=WITHOUT_CAPABILITIES)
    assert result.returncode == 0, result.stderr
    why, *progress, kept = result.stderr.splitlines()
    assert why.startswith("xdplab: measuring on the user-space engine, for programs cannot be")
    for words in ("CAP_BPF", "sudo", "run adjust-head --time 0.05 --sizes 20"):
        assert words in why
    assert all(line.startswith("measuring adjust-head, user engine") for line in progress)
    assert kept.startswith("xdplab: kept as ")
    assert "on the user-space engine" in result.stdout
    assert "in this kernel" not in result.stdout


def test_the_module_is_the_command() -> None:
    for arguments in (["--version"], ["--help"], ["run", "--help"]):
        module = subprocess.run(
            [sys.executable, "-m", "xdplab", *arguments],
            capture_output=True,
            text=True,
            env=environment(),
            check=True,
        )
        assert (module.stdout, module.stderr) == (xdplab(*arguments).stdout, "")
        assert "xdplab" in module.stdout
    assert __version__ in xdplab("--version").stdout
    refused = subprocess.run(
        [sys.executable, "-m", "xdplab", "run", "no-such-suite"],
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )
    assert_clean_error(refused, 2, "no-such-suite")


@pytest.mark.parametrize("word", ["", "run", "bench", "list", "show", "compare", "report"])
def test_help_waits_for_nothing_heavy(word: str) -> None:
    """What makes --help slow is imports: none of these may be among them."""
    code = (
        "import sys\nfrom xdplab.cli.main import main\n"
        "try: main([*sys.argv[1:], '--help'])\nexcept SystemExit: pass\n"
        "print(sorted({name.split('.')[0] for name in sys.modules} & {'numpy', 'scipy', 'rich', "
        "'scapy', 'matplotlib', 'llvmlite', 'pyroute2'}), file=sys.stderr)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, *word.split()], capture_output=True, text=True, check=True
    )
    assert result.stderr.strip() == "[]"
    assert (f"xdplab {word}" if word else "doctor") in result.stdout
