"""Reports by the command, in a real browser where there is one, and at the size of a full store."""

from __future__ import annotations

import html
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result

from tests.store.made import document, result
from xdplab.cli.report import command
from xdplab.errors import UsageError
from xdplab.store.store import Store

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)

needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium here (apt-get install chromium)"
)

Report = Callable[..., Result]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store of three runs, of which the last is slower."""
    path = tmp_path / "results.sqlite"
    with Store(path, write=True) as opened:
        for number, ns in enumerate((3.0, 3.02, 4.0)):
            results = [result(ns=ns), result("b" * 60, ns=7.0, size_bytes=64)]
            tags = ["before" if number < 2 else "after"]
            opened.add(document(f"20260101T00000{number}-{number}bcdef", results, tags))
    return path


@pytest.fixture
def report(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Report:
    """The command in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str) -> Result:
        return CliRunner().invoke(command, [*arguments, "--store", str(store)])

    return call


def test_the_last_run_goes_to_report_html_with_its_history(report: Report, tmp_path: Path) -> None:
    assert report().exit_code == 0
    text = (tmp_path / "report.html").read_text()
    assert "20260101T000002-2bcdef" in text
    assert "History: 2 figures over up to 3 runs" in text


def test_an_older_run_knows_nothing_of_what_came_later(report: Report, tmp_path: Path) -> None:
    assert report("20260101T000001-1bcdef").exit_code == 0
    assert "over up to 2 runs" in (tmp_path / "report.html").read_text()


def test_of_a_tag_of_several_runs_the_newest_is_shown(report: Report, tmp_path: Path) -> None:
    assert report("before").exit_code == 0
    text = (tmp_path / "report.html").read_text()
    assert "before means 2 runs" in text
    assert "20260101T000001-1bcdef" in text


def test_two_words_are_compared_and_three_stand_side_by_side(
    report: Report, tmp_path: Path
) -> None:
    assert report("last~1", "last", "-o", "two.html").exit_code == 0
    assert "1 are worse" in (tmp_path / "two.html").read_text()
    assert report("last~2", "last~1", "last", "-o", "three.html").exit_code == 0
    assert "figures side by side" in (tmp_path / "three.html").read_text()


def test_last_is_called_by_its_id_on_a_page_that_is_read_later(
    report: Report, tmp_path: Path
) -> None:
    assert report("last~1", "last").exit_code == 0
    text = (tmp_path / "report.html").read_text()
    assert "20260101T000002-2bcdef (after) against 20260101T000001-1bcdef (before)" in text
    assert "last~1" not in text


def test_plots_are_files_as_well(report: Report, tmp_path: Path) -> None:
    assert report("--plot", "plots").exit_code == 0
    files = sorted((tmp_path / "plots").iterdir())
    assert len(files) == 3
    for file in files:
        assert ET.parse(file).getroot().tag.endswith("svg")
    assert report("--plot", "png", "--plot-format", "png").exit_code == 0
    (picture,) = (tmp_path / "png").iterdir()
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_report_that_cannot_be_made_leaves_the_old_one(report: Report, tmp_path: Path) -> None:
    old = tmp_path / "report.html"
    old.write_text("old")
    bad = tmp_path / "bad.json"
    bad.write_text(json.dumps({"schema": 99}))
    for arguments in (("nobody",), (str(bad),), ("--plot", str(old))):
        assert isinstance(report(*arguments).exception, UsageError)
        assert old.read_text() == "old"


def test_a_history_of_many_runs_is_of_the_last_thirty(report: Report, store: Path) -> None:
    with Store(store, write=True) as opened:
        for number in range(300):
            run_id = f"20260102T{number:06}-aaaaaa"
            opened.add(document(run_id, [result(ns=3.0 + number / 100)]))
    assert report().exit_code == 0
    text = (store.parent / "report.html").read_text()
    assert "over up to 30 runs" in text


# --- in a browser


def _in_browser(page: str, tmp_path: Path, width: int) -> tuple[str, str]:
    """What a page says in a frame of that width, by what the browser knows of it; its console."""
    # A window is never as narrow as a telephone; a frame of the same origin is.
    script = (
        "onload = () => { const d = document.querySelector('iframe').contentDocument;"
        "const f = d.querySelectorAll('svg.plot');"
        "console.log('here');"
        "document.title = JSON.stringify({"
        "wide: d.scrollingElement.scrollWidth, text: d.body.innerText.slice(0, 20000),"
        "plots: f.length, tall: Math.min(...[...f].map(p => p.checkVisibility() ? "
        "p.getBoundingClientRect().width : 999)),"
        "out: [...d.querySelectorAll('svg.plot text')].filter(t => t.checkVisibility() && "
        "t.getBoundingClientRect().right > d.documentElement.clientWidth + 1).length}); }"
    )
    frame = f'<iframe width="{width}" height="900" srcdoc="{html.escape(page)}"></iframe>'
    wrapper = tmp_path / "wrapper.html"
    wrapper.write_text(f"<!DOCTYPE html><meta charset=utf-8><script>{script}</script>{frame}")
    assert CHROMIUM is not None
    done = subprocess.run(
        [
            CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
            f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=3000", "--dump-dom",
            wrapper.as_uri(),
        ],
        capture_output=True, text=True, timeout=90, check=True,
    )  # fmt: skip
    title = done.stdout.partition("<title>")[2].partition("</title>")[0]
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return html.unescape(title), "\n".join(console)


@needs_chromium
@pytest.mark.parametrize("width", [390, 1280])
def test_a_browser_shows_it_without_error_and_without_scrolling_the_page(
    report: Report, tmp_path: Path, width: int
) -> None:
    arguments = ("last~1", "last") if width == 390 else ()
    assert report(*arguments).exit_code == 0
    title, console = _in_browser((tmp_path / "report.html").read_text(), tmp_path, width)
    told = json.loads(title)
    assert told["wide"] <= width
    assert "How it was measured" in told["text"]
    assert told["plots"] >= 1
    assert told["tall"] > 300
    assert told["out"] == 0
    # Our own line is there, so that the console was listened to; nothing else is.
    assert len(console.splitlines()) == 1
    assert "here" in console
