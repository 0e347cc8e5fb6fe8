"""What mitigations cost here: the note beside the figures of calls, for every suite with them."""

from __future__ import annotations

from collections.abc import Sequence

from xdplab.engines.base import Engine
from xdplab.records import Estimate, Result
from xdplab.stats.estimates import ratio

_IN_FORCE = "Mitigations in force around calls: "


def mitigations_note(engine: Engine) -> str:
    """For `Plan.notes`: what is in force there. `with_costs` puts figures beside it."""
    return f"{_IN_FORCE}{', '.join(engine.mitigations) or 'none'}."


def with_costs(
    notes: Sequence[str], call: Result | None, indirect: Result | None
) -> tuple[str, ...]:
    """A table's notes, in which that of `mitigations_note` has the costs of the two calls.

    It stays as it is where one of them was not measured.
    """
    cost, dear = _estimate(call), _estimate(indirect)
    if cost is None or dear is None:
        return tuple(notes)
    times = ratio(dear, cost)
    words = (
        f"What mitigations cost here: a function call {cost.point:.2f} ns, an indirect call "
        f"{dear.point:.2f} ns{f', {times.point:.1f} times as much' if times else ''}. "
    )
    return tuple(f"{words}{note}" if note.startswith(_IN_FORCE) else note for note in notes)


def _estimate(result: Result | None) -> Estimate | None:
    return None if result is None else result.estimate
