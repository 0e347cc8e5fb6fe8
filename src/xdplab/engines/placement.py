"""Where the kernel engine's programs lie: loads by the class of their address.

Where the JIT places a program changes its cost more than small operations do, and a loaded
program can be slow for as long as it lives (docs/method.md has the figures): every trial takes
loads that it has not had, of one class, drawn anew for each trial.
"""

from __future__ import annotations

import errno
import os
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from xdplab.engines.base import LoadKey
from xdplab.kernel import bpf
from xdplab.kernel.libbpf import RelocatedProgram

_CLASSES = range(8, 64, 4)
"""What a program's address modulo 64 can be on x86: 8 bytes of header, steps of 4."""

_TRIES = 12
"""Loads that may be spent on one program to reach a class. What does not fit now is kept for
a trial that it fits, so that in the long run a trial takes about one load."""

_TRIES_OF_ALL = 240
"""Loads that may be spent on all programs of a trial, so that many of them do not use up the time
for looking: rows of a long list gain more from another trial."""

_LOADS_THAT_TELL = 40
"""Loads without a class after which it counts as out of a program's reach. Were it one of 14
even classes, so many would miss it once in twenty programs, and nothing but time be lost."""

_SEED = 20

_STOCK = 4
"""Loads kept per program and class for later trials."""


class Loads:
    """Loads of relocated programs, by address class; closes whatever it still holds."""

    def __init__(self) -> None:
        self._stock: dict[LoadKey, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        self._loaded: Counter[LoadKey] = Counter()
        self._seen: dict[LoadKey, set[int]] = defaultdict(set)
        self._goals = random.Random(_SEED)
        self.current: dict[LoadKey, tuple[int, int]] = {}

    def place(
        self,
        programs: Mapping[LoadKey, RelocatedProgram],
        wanted: Sequence[LoadKey],
        anywhere: frozenset[LoadKey],
    ) -> None:
        """Give each wanted program a load that it has not had, of one class where possible.

        The class is drawn evenly, since no program may choose where it will live: a class
        chosen for being quiet, or for being reached by all, would make the figure its own.
        Those of `anywhere` take the first place that they get.
        """
        self.retire()
        goal = self._goals.choice(_CLASSES)
        tries = max(1, min(_TRIES, _TRIES_OF_ALL // len(wanted)))
        for key in wanted:
            program = programs[key]
            self.current[key] = (
                self._load(key, program)
                if key in anywhere
                else self._take(key, program, goal, tries)
            )

    def _take(
        self, key: LoadKey, program: RelocatedProgram, goal: int, tries: int
    ) -> tuple[int, int]:
        stock = self._stock[key]
        if stock[goal]:
            return stock[goal].pop(), goal
        for _ in range(tries):
            fd, found = self._load(key, program)
            if found == goal or self._is_out_of_reach(key, goal):
                return fd, found
            if len(stock[found]) < _STOCK:
                stock[found].append(fd)
            else:
                os.close(fd)
        return self._load(key, program)

    def _load(self, key: LoadKey, program: RelocatedProgram) -> tuple[int, int]:
        try:
            fd = program.load()
        except OSError as error:
            if error.errno not in {errno.EMFILE, errno.ENFILE} or not self._give_up_stock():
                raise
            fd = program.load()
        address = bpf.prog_address(fd)
        found = address % 64 if address else -1
        self._loaded[key] += 1
        self._seen[key].add(found)
        return fd, found

    def forget(self, keys: Iterable[LoadKey]) -> None:
        """Close every load of these programs, which are others from now on."""
        for key in keys:
            if key in self.current:
                os.close(self.current.pop(key)[0])
            for kept in self._stock.pop(key, {}).values():
                for fd in kept:
                    os.close(fd)

    def _give_up_stock(self) -> bool:
        """Close what is kept for later; False where nothing is."""
        kept = [fd for classes in self._stock.values() for fds in classes.values() for fd in fds]
        for fd in kept:
            os.close(fd)
        self._stock.clear()
        return bool(kept)

    def _is_out_of_reach(self, key: LoadKey, goal: int) -> bool:
        # The allocator leaves a short program, or one that fills its chunk, few classes.
        return goal not in self._seen[key] and self._loaded[key] >= _LOADS_THAT_TELL

    def retire(self) -> None:
        for fd, _ in self.current.values():
            os.close(fd)
        self.current.clear()

    def close(self) -> None:
        self.retire()
        self._give_up_stock()
