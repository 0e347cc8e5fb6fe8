"""Live commands keep their runs: intervals as they are counted, totals to the last packet."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.live.commands import live, run, send
from tests.live.pairs import join, places
from xdplab.packets.frame import udp_frame
from xdplab.records import Document
from xdplab.store.store import Store

pytestmark = pytest.mark.needs_kernel

COUNT = 500
FRAME = udp_frame("ipv4", 100).data


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "results.sqlite"
    monkeypatch.setenv("XDPLAB_STORE", str(path))
    return path


def kept(path: Path) -> Document:
    """The one run in the store."""
    with Store(path) as opened:
        (summary,) = opened.runs()
        return opened.document(summary.run.id)


def test_what_was_counted_is_kept(store: Path) -> None:
    with places(2) as (a, b):
        join(a, "v0", b, "v1")
        with live(b, "drop", "v1", "-p", "read-data", "-i", "0.1", "--tag", "x", "--json") as drop:
            send(a, "v0", FRAME, COUNT)
            time.sleep(0.15)
            send(a, "v0", FRAME[:20], 7)
            drop.send_signal(2)
            status, stdout, stderr = drop.rest()
    document = kept(store)
    assert status == 0
    assert stderr.startswith(f"xdplab: kept as {document.run.id}; next: xdplab show last, ")
    assert stderr.count("\n") == 1
    assert document.run.tags == ("x",)
    assert document.run.complete
    assert {(of.suite, of.engine) for of in document.results} == {("drop", "live")}
    rate, *totals = document.results
    where = {"access": "dpa", "interface": "v1", "mode": "native", "operation": "read-data"}
    assert (rate.metric, rate.parameters) == ("rate_pps", where)
    assert rate.estimate is not None
    assert [dict(of.parameters) for of in totals] == [where | {"of": "XDP_DROP"}]
    (total,) = (of.estimate for of in totals)
    assert total is not None
    # Sample by sample what was shown.
    *shown, summary = [json.loads(line) for line in stdout.splitlines()][1:]
    assert [trial.counts["packets"] for trial in rate.trials] == [one["packets"] for one in shown]
    assert rate.count("packets") == total.point == summary["packets"] == COUNT + 7
    assert document.environment["kernel"]["release"]


def test_kill_9_keeps_the_intervals(store: Path) -> None:
    with places(2) as (a, b):
        join(a, "v0", b, "v1")
        with live(b, "drop", "v1", "-i", "0.05") as drop:
            send(a, "v0", FRAME, COUNT)
            assert drop.process.stdout is not None
            # An interval is kept before it is shown.
            seen = [drop.process.stdout.readline() for _ in range(3)]
            drop.process.kill()
            drop.process.wait()
    document = kept(store)
    (rate,) = document.results
    assert len(rate.trials) >= len(seen)
    assert rate.estimate is not None
    assert rate.count("packets") == COUNT
    assert not document.run.complete


def test_traffic_is_kept(store: Path) -> None:
    with places(2) as (a, b):
        join(a, "v0", b, "v1")
        sent = run(a, "trafficgen", "v0", "-g", "skb", "-n", str(COUNT), "--note", "n")
    assert sent.returncode == 0, sent.stderr
    document = kept(store)
    rate, *totals = document.results
    assert (rate.suite, rate.parameters["generator"]) == ("trafficgen", "skb")
    found = {of.parameters["of"]: of.estimate.point for of in totals if of.estimate}
    assert found == {"sent": COUNT, "refused": 0}
    assert (document.run.note, document.run.complete) == ("n", True)


def test_what_never_began_is_not_kept(store: Path) -> None:
    with places(2) as (a, b):
        join(a, "v0", b, "v1")
        # Killed before its first interval.
        with live(b, "drop", "v1", "-i", "60") as drop:
            assert run(b, "pass", "v1").returncode == 2
            assert run(b, "drop", "v1", "-d", "0.05", "--no-store").returncode == 2
            drop.process.kill()
            drop.process.wait()
        # A store that was asked for and is of no use is said before anything is touched.
        refused = run(b, "drop", "v1", "--store", str(store.parent))
    assert refused.returncode == 3
    assert "it is a directory" in refused.stderr
    with Store(store) as opened:
        assert opened.runs() == []
