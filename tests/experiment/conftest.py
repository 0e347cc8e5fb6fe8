from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.experiment.made import Clock, Laboratory


@pytest.fixture
def laboratory(monkeypatch: pytest.MonkeyPatch) -> Laboratory:
    """A second of its clock has room for 20,000 calls, on any machine."""
    clock = Clock(step_s=1 / 20_000)
    monkeypatch.setattr(
        "xdplab.experiment.time", SimpleNamespace(monotonic=clock.monotonic, sleep=lambda _s: None)
    )
    return Laboratory(clock)
