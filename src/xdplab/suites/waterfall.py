"""Where the nanoseconds go, as a picture: each step's bar begins where what it adds to ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdplab.records import RESOLVED, Estimate, Result
from xdplab.suites.picture import Bar, BarGroup, Bars


@dataclass(frozen=True, slots=True)
class Step:
    """A program: `level_ns` is its whole figure; `added` what it costs over `above`, another
    step's name; the first step of all stands on the ground, with its whole figure."""

    name: str
    title: str
    level_ns: float
    added: Result
    above: str | None = None


def waterfall(title: str, steps: Sequence[Step]) -> Bars | None:
    """The steps as bars from their ground; None where there is none.

    What is added was measured as a comparison of its own, and need not end where the whole
    figure does.
    """
    levels = {step.name: step.level_ns for step in steps}
    shown = []
    for step in steps:
        estimate: Estimate | None = step.added.estimate
        ground = 0.0 if step.above is None else levels.get(step.above)
        if estimate is None or ground is None:
            continue
        label = step.title
        if step.above is not None:
            over = next(one.title for one in steps if one.name == step.above)
            label = f"{step.title}, over: {over}"
        shown.append(
            Bar(
                label,
                estimate,
                step.added.verdict == RESOLVED or step.above is None,
                begins=ground,
                signed=step.above is not None,
            )
        )
    return Bars(title, "ns", [BarGroup("", shown)]) if shown else None
