"""Consoles that real guests wrote, for tests that need no QEMU.

A recording is of one boot with adjust-head's rows. Its first line has the rows' keys in their
order: where the suite has other rows by now, the runner's lines are numbered as they are today.
`python -m tests.guests.recorded BZIMAGE NAME` makes one.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from xdplab.before_after.plan import Planned, choose, plan
from xdplab.guests.console import PREFIX
from xdplab.guests.qemu import Machine, boot

CONSOLES = Path(__file__).parent / "consoles"
_NUMBERED = re.compile(r'\{"row":(\d+)')


def adjust_head() -> Planned:
    """What the recordings are of."""
    return plan([(suite, {"sizes": (6, 200)}) for suite in choose(["adjust-head"])], [])


def console(name: str, planned: Planned | None = None) -> str:
    """A recorded console, numbered for `planned`."""
    head, _, text = (CONSOLES / f"{name}.txt").read_text().partition("\n")
    if planned is None:
        return text
    recorded = [tuple(key) for key in json.loads(head)]
    lines = []
    for line in text.splitlines():
        found = _NUMBERED.search(line) if line.startswith(PREFIX) else None
        if found is None:
            lines.append(line)
            continue
        row = planned.bundle.rows.get(recorded[int(found[1])])
        if row is not None:
            lines.append(line.replace(found[0], f'{{"row":{row.number}', 1))
    return "\n".join(lines)


def record(kernel: Path, name: str) -> None:
    """Boot `kernel` and write its console."""
    planned = adjust_head()
    keys = sorted(planned.bundle.rows, key=lambda key: planned.bundle.rows[key].number)
    text = boot(kernel, planned.bundle.encode(), Machine())
    CONSOLES.mkdir(exist_ok=True)
    (CONSOLES / f"{name}.txt").write_text(json.dumps(keys) + "\n" + text.replace("\r", ""))


if __name__ == "__main__":
    record(Path(sys.argv[1]), sys.argv[2])
