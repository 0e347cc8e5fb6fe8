from __future__ import annotations

import re

from hypothesis import given

from tests.views.tables import EXAMPLE, estimate, tables
from xdplab.suites.table import Column, Figure, Published, Row, Table
from xdplab.views.text import markdown, org

_SMALL = Table(
    title="a pair of calls",
    columns=[Column("variant"), Column("difference", "ns"), Column("then", "ns")],
    rows=[
        Row(["as it is", None, Published("56")]),
        Row(["a | b", Figure(estimate(1.988, 1.9, 2.02), signed=True), Published("58")]),
        Row(["pull", None, None], note="this kernel has no such kfunc, nor any like it"),
    ],
    notes=["Costs are net of the *empty* program."],
)
_MARKDOWN = r"""**a pair of calls**

| variant  |      difference (ns) | then, published (ns) |
| -------- | -------------------: | -------------------: |
| as it is |                      |                   56 |
| a \| b   | +1.99 [+1.90, +2.02] |                   58 |
| pull     | this kernel has no such kfunc, nor any like it |                      |

- Costs are net of the \*empty\* program.
"""


def test_markdown() -> None:
    assert markdown(_SMALL) == _MARKDOWN


def test_org() -> None:
    lines = org(EXAMPLE).splitlines()
    assert lines[0] == "#+CAPTION: adjust_head: a pair of calls"
    assert set(lines[2]) == set("|-+")
    assert lines[4] == lines[2]
    assert r"| a \vert{} b |" in lines[6]
    assert lines[-1] == "- Costs are net of the empty program."


@given(tables())
def test_markdown_rows_have_equally_many_cells(table: Table) -> None:
    rows = [line for line in markdown(table).split("\n") if line.startswith("| ")]
    # A bar counts as one unless an odd number of backslashes stands before it.
    bars = [len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) for row in rows]
    assert len(rows) == len(table.rows) + 2
    assert set(bars) == {len(table.columns) + 1}


@given(tables())
def test_org_rows_have_equally_many_cells(table: Table) -> None:
    rows = [line for line in org(table).split("\n") if line.startswith("| ")]
    assert len(rows) == len(table.rows) + 1
    assert {row.count("|") for row in rows} == {len(table.columns) + 1}
