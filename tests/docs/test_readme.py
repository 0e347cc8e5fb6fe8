"""What is written about xdplab is true of it: tables, links, and nothing private."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.suites.measured import defaults, engine, measure
from xdplab.engines import live_ways
from xdplab.engines.user import UserEngine
from xdplab.suites.base import find_suites
from xdplab.views.report import ENGINE_TITLES
from xdplab.views.text import markdown

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]

# In two pieces each: this file is looked through as well.
PRIVATE = (
    "/wo" + "rk/",
    "/ro" + "ot/",
    "/ho" + "me/",
    "/Us" + "ers/",
    "clau" + "de",
    "anthro" + "pic",
    "open" + "ai",
    "chat" + "gpt",
    "co-fou" + "nder",
    "53198" + "836",
)


# --- the README's tables


@dataclass(frozen=True)
class Shown:
    """A Markdown table as it stands on a page."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def programs(self) -> tuple[str, ...]:
        """What its rows are about."""
        column = self.headings.index("program") if "program" in self.headings else 0
        return tuple(row[column] for row in self.rows)


def shown_tables(text: str) -> Iterator[Shown]:
    """Every Markdown table in a text, with the bold line above it as title."""
    pattern = r"\*\*(?P<title>[^\n]*)\*\*\n\n(?P<lines>(?:\|[^\n]*\n)+)"
    for found in re.finditer(pattern, text):
        rows = [
            tuple(cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip()[1:-1]))
            for line in found["lines"].splitlines()
        ]
        headings, rule, *others = rows
        assert all(set(cell) <= set("-:") for cell in rule), rule
        yield Shown(found["title"], headings, tuple(others))


def block(name: str) -> str:
    """What stands in the README between the two marks of that name."""
    pattern = rf"<!-- table: {re.escape(name)} -->\n(.*?)<!-- end -->"
    (found,) = re.findall(pattern, README.read_text(), re.DOTALL)
    return str(found)


def current_tables(monkeypatch: pytest.MonkeyPatch, name: str, title: str) -> list[Shown]:
    """The suite's tables as they would be printed now on the engine that the title names, with
    made-up figures."""
    suite = find_suites()[name]
    (of_title,) = [one for one, words in ENGINE_TITLES.items() if title.endswith(f", {words}")]
    datapaths = {"user": UserEngine.datapath, "live": live_ways.DATAPATH}
    on = engine(datapath=datapaths.get(of_title, {}), clock_ghz=2.5, name=of_title)
    tables = measure(monkeypatch, suite, defaults(suite), on).tables
    return [shown for table in tables for shown in shown_tables(markdown(table))]


@pytest.mark.parametrize("name", list(find_suites()))
def test_every_suite_has_its_table_as_it_is_printed_now(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    tables = list(shown_tables(block(name)))
    remedy = f"paste what `xdplab run {name} --format markdown` prints"
    assert tables, f"the README has no table of {name}: {remedy}"
    for number, table in enumerate(tables):
        current = current_tables(monkeypatch, name, table.title)
        same = next((one for one in current if table.title.startswith(f"{one.title}, ")), None)
        assert same is not None, f"no table of {name} is titled {table.title!r} now: {remedy}"
        assert table.headings == same.headings, remedy
        # A table may be sorted by what its rows cost, of which made-up figures know nothing.
        assert sorted(table.programs) == sorted(same.programs), remedy
        # The first is what the suite is for; others may follow.
        assert number or same.title == current[0].title


@pytest.mark.parametrize("name", list(find_suites()))
def test_every_figure_in_the_readme_has_its_interval(name: str) -> None:
    text = block(name)
    assert "too few loads" not in text
    assert "stopped before" not in text
    for table in shown_tables(text):
        for heading, column in zip(table.headings, zip(*table.rows, strict=True), strict=True):
            # Cycles and packets a second are bare, what was published has no interval, and words
            # stand where there is no figure.
            measured = heading.endswith("(ns)") and "published" not in heading
            for cell in column if measured else ():
                if re.match(r"[-+\d]", cell):
                    assert re.search(r" \[[-+\d.]+, [-+\d.]+\]", cell), (heading, cell)
    # The run is named with its figures.
    for line in ("- CPU: ", "- Kernel: ", "- Run: xdplab "):
        assert line in text


# --- links


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)\s#]*)(#[^)\s]*)?\)", page.read_text()):
        if re.match(r"[a-z]+:", target):
            continue
        path = (page.parent / target) if target else page
        assert path.exists(), f"{page.name} links to {target}, which is not there"
        if anchor:
            assert anchor[1:] in headings(path), f"{page.name} links to {target}{anchor}"


def headings(page: Path) -> set[str]:
    """A page's headings as its links name them."""
    found = re.findall(r"^#+ +(.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", text.lower()).replace(" ", "-") for text in found}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_file_that_is_named_is_there(page: Path) -> None:
    folders = "docs|scripts|benchmarks|src|tests"
    for name in re.findall(
        rf"`(?:\.venv/bin/python )?((?:{folders})/[\w./*-]*)`", page.read_text()
    ):
        # Capitals stand for a name of the reader's own.
        if not re.search(r"\b[A-Z]+\b", name):
            assert list(ROOT.glob(name.rstrip("/"))), f"{page.name} names {name}"


# --- nothing private


@cache
def tracked_files() -> list[Path]:
    """Every file of the repository."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("this is no git repository, so nobody knows which files are its own")
    listed = subprocess.run(
        [git, "-C", str(ROOT), "ls-files", "-z"], capture_output=True, check=True
    )
    paths = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    return [path for path in paths if path.is_file()]


@pytest.mark.parametrize("word", PRIVATE)
def test_no_file_names_a_private_place(word: str) -> None:
    assert len(tracked_files()) > 100
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path in tracked_files()
        if word.lower().encode() in path.read_bytes().lower()
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if word.lower() in line.lower()
    ]
    assert not found, "\n".join(found)
    assert not [path for path in tracked_files() if word in f"/{path.relative_to(ROOT)}/".lower()]
