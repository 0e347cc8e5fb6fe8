"""Tables that several tests of views look at, and strategies that make more."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from xdplab.records import Estimate
from xdplab.suites.table import Cell, Column, Figure, Published, Row, Table


def estimate(point: float, low: float, high: float) -> Estimate:
    return Estimate(point, low, high, level=0.95, n=8)


EXAMPLE = Table(
    title="adjust_head: a pair of calls",
    columns=[
        Column("variant"),
        Column("size", "byte"),
        Column("cost", "ns"),
        Column("difference", "ns"),
        Column("cost", "ns"),
    ],
    rows=[
        Row(["as is", 6, Figure(estimate(7.8123, 7.7, 7.9)), None, Published("56")]),
        Row(
            [
                "memset",
                20,
                Figure(estimate(9.8, 9.71, 9.9)),
                Figure(estimate(1.988, 1.9, 2.02), signed=True),
                Published("58"),
            ],
            begins_section=True,
        ),
        Row(
            [
                "a | b",
                200,
                Figure(estimate(17.8, -math.inf, math.inf)),
                Figure(estimate(0.01, -0.02, 0.039), signed=True, resolved=False),
                None,
            ]
        ),
        Row(["pull", 40, None, None, None], note="this kernel lacks bpf_xdp_pull_data"),
    ],
    notes=["Costs are net of the empty program."],
)

_numbers = st.floats(-1e6, 1e6, allow_nan=False)


@st.composite
def estimates(draw: st.DrawFn) -> Estimate:
    low, point, high = sorted(draw(st.tuples(_numbers, _numbers, _numbers)))
    if draw(st.booleans()):
        return estimate(point, low, high)
    return estimate(point, -math.inf, math.inf)


figures = st.builds(
    Figure,
    estimates(),
    digits=st.integers(0, 4),
    signed=st.booleans(),
    resolved=st.booleans(),
    bare=st.booleans(),
)
_words = st.text(max_size=30)


@st.composite
def tables(draw: st.DrawFn) -> Table:
    count = draw(st.integers(1, 5))
    cells: st.SearchStrategy[Cell] = st.one_of(
        st.none(), st.integers(-(10**6), 10**6), _words, st.builds(Published, _words), figures
    )
    rows = st.builds(
        Row,
        st.lists(cells, min_size=count, max_size=count),
        note=st.one_of(st.just(""), _words),
        begins_section=st.booleans(),
    )
    return Table(
        title=draw(_words),
        columns=[Column(draw(_words), draw(_words)) for _ in range(count)],
        rows=draw(st.lists(rows, max_size=5)),
        notes=draw(st.lists(_words, max_size=2)),
    )
