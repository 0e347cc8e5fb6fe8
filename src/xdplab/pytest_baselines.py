"""Baselines of tests: result documents in the project's tree, one file a check.

They are what --json writes: `xdplab compare` and `xdplab report` read them, too. A file a check
keeps tests that run at the same time (pytest-xdist) from writing into one another's.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from xdplab import __version__
from xdplab.comparison import Side, compare, worse_than
from xdplab.counting import Tally, count
from xdplab.documents import documents_from_text
from xdplab.environments import unlike
from xdplab.lab.running import frame_of
from xdplab.program.chosen import Chosen
from xdplab.records import RESOLVED, Document, Estimate, Result, RunInfo

if TYPE_CHECKING:
    from xdplab.lab import Packet

_UPDATE = "pytest --xdplab-update"


def file_name(test: str, number: int) -> str:
    """A file's name for a check of a test: readable, and unlike that of any other test."""
    words = re.sub("[^A-Za-z0-9]+", "-", test.rpartition("/")[2]).strip("-")[:80]
    told_apart = hashlib.sha256(test.encode()).hexdigest()[:8]
    return f"{words}-{number}-{told_apart}.json"


def count_document(chosen: Chosen, packets: Iterable[Packet]) -> tuple[Document, tuple[int, ...]]:
    """Exact counts as a document, a result a packet; its environment is who compiled the program.

    A fault of the program is raised: a count that ends early says nothing of the packets behind.
    """
    started = datetime.now(UTC)
    tally: Tally = count(chosen.spec, chosen.program.name, map(frame_of, packets))
    if tally.failure is not None:
        raise tally.failure
    results = tuple(
        Result(
            suite="count",
            engine="user",
            variant=tally.program,
            baseline=None,
            parameters={"packet": number},
            metric="insns",
            method="counted",
            estimate=Estimate(insns, insns, insns, 1.0, 1),
            resolution=0.0,
            verdict=RESOLVED,
        )
        for number, insns in enumerate(tally.instructions, 1)
    )
    document = Document(
        run=RunInfo(
            id=f"{started:%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:6]}",
            started_at=started.isoformat(timespec="seconds"),
            duration_s=0.0,
            command=("pytest",),
            xdplab_version=__version__,
        ),
        environment={"compiler": chosen.compiler, "compiler_flags": chosen.flags}
        if chosen.compiler
        else {},
        results=results,
    )
    return document, tally.instructions


def check(document: Document, baseline: Path, limit: float, unit: str, updates: bool) -> None:
    """Fail the test where `document` is worse than its baseline by more than `limit` in `unit`
    ("%" or "insns"), and surely so. Writes the baseline where it `updates`; skips where there is
    none and where its environment is unlike this one.
    """
    if updates:
        _write(document, baseline)
        return
    try:
        text = baseline.read_bytes()
    except FileNotFoundError:
        pytest.skip(f"there is no baseline {baseline.name} yet. Make it: {_UPDATE}")
    before = documents_from_text(text, str(baseline))
    sides = Side("the baseline", before), Side("now", [document])
    differing = [one for one in unlike([before, [document]]) if one.decides]
    if unit == "insns":
        # Instructions of one object are the same whatever it was counted by.
        differing = [one for one in differing if one.name == "programs built by"]
    if differing:
        told = ", ".join(
            f"{one.name} ({' | '.join(map('/'.join, one.values))})" for one in differing
        )
        pytest.skip(f"the baseline is of another environment: {told}. Make one here: {_UPDATE}")
    comparison = compare(*sides)
    if not comparison.compared or any(comparison.only):
        pytest.fail(
            f"{baseline.name} is of another program or other packets. If that is meant: {_UPDATE}",
            pytrace=False,
        )
    worse = worse_than(comparison, limit, unit)
    if worse:
        told = "; ".join(
            f"{row.result.variant} {_parameters(row.result)}{row.before.point:.5g} -> "
            f"{row.after.point:.5g} {row.result.metric.rpartition('_')[2]}"
            for row in worse
        )
        pytest.fail(
            f"worse than its baseline by more than {limit:g} {unit}: {told}. If that is meant: "
            f"{_UPDATE}",
            pytrace=False,
        )


def _parameters(result: Result) -> str:
    return "".join(f"({name} {value}) " for name, value in result.parameters.items())


def _write(document: Document, baseline: Path) -> None:
    baseline.parent.mkdir(parents=True, exist_ok=True)
    # Whole or not at all, whoever ends it in the middle.
    scratch = baseline.with_suffix(f".{os.getpid()}.tmp")
    scratch.write_text(json.dumps(document.to_json(), indent=1, allow_nan=False) + "\n")
    scratch.replace(baseline)
