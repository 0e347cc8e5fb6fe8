"""Documents of every sort that the types allow, for property tests."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st

from xdplab.records import (
    NOT_SUPPORTED,
    RESOLVED,
    TOO_FEW_LOADS,
    WITHIN_NOISE,
    Document,
    Estimate,
    Finding,
    Result,
    RunInfo,
    Trial,
    Warning,
)

_text = st.text(max_size=12)
_number = st.floats(allow_nan=False, allow_infinity=False)
_ns = st.integers(0, 2**64)


@st.composite
def _trials(draw: st.DrawFn) -> Trial:
    count = 2 * draw(st.integers(1, 3))
    calls = st.lists(_ns, min_size=count, max_size=count).map(tuple)
    return Trial(
        draw(calls),
        draw(calls),
        placement=draw(st.tuples(st.integers(-1, 63), st.integers(-1, 63))),
        interrupted=draw(st.integers(0, 5)),
        duration_ns=draw(st.none() | st.integers(0, 2**32 - 1)),
        clock_ghz=draw(st.none() | st.floats(0.1, 10)),
        counts=draw(st.dictionaries(st.text(max_size=5), st.integers(0, 2**63), max_size=3)),
        preempted=draw(st.integers(0, 5)),
    )


@st.composite
def _estimates(draw: st.DrawFn) -> Estimate:
    low, point, high = sorted(draw(st.tuples(_number, _number, _number)))
    if draw(st.booleans()):
        low, high = -math.inf, math.inf
    return Estimate(point, low, high, level=0.95, n=draw(st.integers(1, 100)))


_results = st.builds(
    Result,
    suite=_text,
    engine=_text,
    variant=_text,
    baseline=st.none() | _text,
    parameters=st.dictionaries(_text, st.integers() | _text, max_size=3),
    metric=_text,
    method=_text,
    estimate=st.none() | _estimates(),
    resolution=st.none() | _number,
    verdict=st.sampled_from([RESOLVED, WITHIN_NOISE, NOT_SUPPORTED, TOO_FEW_LOADS]),
    operations_per_call=st.integers(1, 8000),
    trials=st.lists(_trials(), max_size=2).map(tuple),
    note=_text,
    cycles=st.none() | _estimates(),
)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | _number | _text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_text, inner, max_size=3),
    max_leaves=6,
)
DOCUMENTS = st.builds(
    Document,
    run=st.builds(
        RunInfo,
        id=_text,
        started_at=_text,
        duration_s=st.floats(0, 1e6),
        command=st.lists(_text, max_size=3).map(tuple),
        xdplab_version=_text,
        complete=st.booleans(),
        tags=st.lists(_text, max_size=2, unique=True).map(tuple),
        note=_text,
    ),
    environment=st.dictionaries(_text, JSON, max_size=3),
    results=st.lists(_results, max_size=3).map(tuple),
    warnings=st.lists(st.builds(Warning, _text, _text, _text), max_size=2).map(tuple),
    findings=st.lists(st.builds(Finding, _text, _text, _text), max_size=2).map(tuple),
)
