"""Traits in BPF against a dict: in the kernel, in user space timed and checked.

    .venv/bin/python benchmarks/traits_model.py [--operations 60000] [--seed 1] [--user-only]

Sequences of 64 random operations on areas of 16 to 216 bytes, with keys and lengths that the
compiler knows or does not, on stores that are empty, mixed, and full to the last byte. After every
operation its answer and the whole area are compared, errors and failed sets included.

Needs a compiler, and root unless --user-only. Exits 1 where anything differs.
"""

from __future__ import annotations

import argparse
import errno
import random
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.traits.operations import OPS, Model, differences, machines, random_case
from xdplab.errors import XdplabError
from xdplab.kernel.features import require_kernel_engine

SHOWN = 10


def main() -> int:
    """Compare, print counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--operations", type=int, default=60_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--user-only", action="store_true", help="leave the kernel out")
    arguments = parser.parse_args()
    pick = random.Random(arguments.seed)
    answers: Counter[int] = Counter()
    wrong: list[str] = []
    sizes = set()
    started = time.perf_counter()
    try:
        if not arguments.user_only:
            require_kernel_engine()
        with machines(in_kernel=not arguments.user_only) as made:
            while answers.total() < arguments.operations:
                case = answers.total() // OPS
                frame, values, ops = random_case(pick, OPS)
                wrong += [f"case {case}: {line}" for line in differences(made, frame, values, ops)]
                model = Model(len(frame.metadata), dict(values))
                answers.update(model.perform(op).returned for op in ops)
                sizes.add(len(frame.metadata))
            places = [*made.user, *(["kernel"] if made.kernel else [])]
    except XdplabError as error:
        print(f"traits_model: {error}", file=sys.stderr)
        return error.exit_code
    elapsed_s = time.perf_counter() - started
    print(
        f"{answers.total():,} operations in {', '.join(places)} and as a dict, areas of "
        f"{min(sizes)} to {max(sizes)} bytes, seed {arguments.seed}, {elapsed_s:.0f} s"
    )
    for answer, count in sorted(answers.items()):
        name = f"-{errno.errorcode[-answer]}" if answer < 0 else str(answer)
        print(f"  answered {name:8} {count:>9,}")
    print(f"mismatches         {len(wrong):>9,}")
    for line in wrong[:SHOWN]:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
