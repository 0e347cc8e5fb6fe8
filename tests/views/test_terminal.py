from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.views.tables import EXAMPLE, estimate, tables
from xdplab.suites.table import Column, Figure, Row, Table
from xdplab.views.format import cell_text, figure_text
from xdplab.views.layout import arrange
from xdplab.views.terminal import encodable, make_console, render

_WIDE = """\
adjust_head: a pair of calls
variant  size (byte)              cost (ns)                    difference (ns)  cost, published (ns)
────────────────────────────────────────────────────────────────────────────────────────────────────
as is              6   7.81 [7.70, 7.90]                                                          56

memset            20   9.80 [9.71, 9.90]     +1.99 [+1.90, +2.02]                                 58
a | b            200  17.80 [too few loads]  +0.01 [-0.02, +0.04] within noise
pull              40  this kernel lacks bpf_xdp_pull_data
  Costs are net of the empty program.
"""
_STACKED = """\
adjust_head: a pair of calls
                                                      cost,
           size                       difference  published
variant  (byte)        cost (ns)            (ns)       (ns)
───────────────────────────────────────────────────────────
as is         6             7.81                         56
                    [7.70, 7.90]

memset       20             9.80           +1.99         58
                    [9.71, 9.90]  [+1.90, +2.02]
a | b       200            17.80           +0.01
                 [too few loads]  [-0.02, +0.04]
                                    within noise
pull         40  this kernel lacks bpf_xdp_pull_data
  Costs are net of the empty program.
"""


def _text(table: Table, width: int) -> str:
    return "".join("".join(piece.text for piece in line) + "\n" for line in arrange(table, width))


def test_wide_enough_for_one_line_a_row() -> None:
    assert _text(EXAMPLE, 110) == _WIDE


def test_narrower_pages_stack_the_intervals() -> None:
    assert _text(EXAMPLE, 80) == _STACKED


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_texts_take_the_room_that_there_is(width: int) -> None:
    source = "if (bpf_xdp_load_bytes(ctx, offset, header, IPV4_BYTES) < 0) return -1; " * 3
    rows = [Row((12, "18.5 %", 72 + number, source)) for number in range(3)]
    columns = (Column("instructions"), Column("share"), Column("line"), Column("source"))
    lines = _text(Table("a.bpf.c", columns, rows), width).splitlines()
    # Less than the longest word is left, since lines break at blanks.
    assert width - len("(bpf_xdp_load_bytes(ctx, ") <= max(map(len, lines)) <= width


def test_very_narrow_pages_get_a_list() -> None:
    lines = _text(EXAMPLE, 40).splitlines()
    assert "cost (ns): 7.81 [7.70, 7.90]" in lines
    assert "cost, published (ns): 58" in lines
    assert max(map(len, lines)) <= 40


@given(tables(), st.integers(1, 200))
def test_every_figure_is_whole_at_every_width(table: Table, width: int) -> None:
    shown = " ".join(_text(table, width).split())
    for row in table.rows:
        for cell in row.cells:
            if isinstance(cell, Figure):
                parts = figure_text(cell)
                assert parts.point in shown
                assert all(word in shown for word in parts.interval.split())
            elif isinstance(cell, int):
                assert cell_text(cell) in shown


@given(tables())
def test_no_line_is_wider_than_80_columns_unless_a_word_is(table: Table) -> None:
    for line in arrange(table, 80):
        text = "".join(piece.text for piece in line)
        assert len(text) <= 80 or len(text.split()) == 1 or max(map(len, text.split())) > 20
        assert text == text.rstrip()


def test_a_pipe_gets_neither_colour_nor_folding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    out = io.StringIO()
    render(EXAMPLE, make_console(out))
    assert out.getvalue() == _WIDE


@pytest.mark.parametrize(
    ("columns", "width"),
    # Of digits that int() takes, of those that isdigit() alone does, and of too many.
    [
        ("100", 100),
        *((text, 160) for text in ("0", "", "1_0", "\u0661", "\u00b2", "9" * 5000)),
    ],
)
def test_columns_are_a_width_or_nothing(
    monkeypatch: pytest.MonkeyPatch, columns: str, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("LINES", columns)
    assert make_console(io.StringIO()).width == width


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured = Terminal()
    render(EXAMPLE, make_console(coloured))
    assert "\x1b[36m" in coloured.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    plain = Terminal()
    render(EXAMPLE, make_console(plain))
    assert "[36m" not in plain.getvalue()


def test_ascii_where_the_encoding_has_no_more(tmp_path: Path) -> None:
    table = Table(
        "µs → ns",
        [Column("a"), Column("b")],
        [Row(["\u00d7\u00e9", Figure(estimate(1.0, 1.0, 1.0))])],
    )
    path = tmp_path / "out"
    with path.open("w", encoding="ascii") as file:
        render(table, make_console(file))
    assert path.read_bytes().splitlines()[0] == b"us > ns"
    assert b"----" in path.read_bytes()
    assert b"x?" in path.read_bytes()


@given(st.text(max_size=40), st.sampled_from(["ascii", "latin-1", "cp437", "utf-8"]))
def test_replacing_keeps_the_length(text: str, encoding: str) -> None:
    assert len(encodable(text, encoding)) == len(text)
