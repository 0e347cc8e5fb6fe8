"""What a suite is: data and a few functions. A new suite is one file in this package.

A module of this package that has a `SUITE` is found by `find_suites`; nothing else needs to
know its name.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from xdplab.engines.base import Engine, Method, Subject
from xdplab.errors import UsageError
from xdplab.records import Result
from xdplab.suites.picture import Picture, bars, has_figures
from xdplab.suites.table import Published, Table

CHOSEN_PREFIX = "datapath."
"""Before the name of a parameter that says what the run chose of the data path."""

BPF_ENGINES = ("kernel", "user")
"""Engines that run BPF programs."""


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure to be estimated: `subject` against `against` (keys of the group's subjects).

    `variant` and `baseline` are their stable names in the document. Without `against` the
    figure is gross: what a call costs with all that is around the program.
    """

    variant: str
    subject: str
    parameters: Mapping[str, int | str] = field(default_factory=dict)
    baseline: str | None = None
    against: str | None = None

    @property
    def metric(self) -> str:
        """Stable metric name: a cost over the baseline, or the gross cost."""
        return "gross_ns" if self.against is None else "cost_ns"


@dataclass(frozen=True, slots=True)
class Group:
    """Measures of one method that share loads. `share` of the suite's time budget is theirs.

    `doubles` are pairs of variants of which the second does the first's work twice.
    """

    method: Method
    subjects: Sequence[Subject]
    measures: Sequence[Measure]
    share: float
    doubles: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """What a suite measures on an engine, and what it found out about it (`notes`)."""

    groups: Sequence[Group]
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Option:
    """A suite's own option: a list of whole numbers, comma-separated on the command line."""

    name: str
    default: tuple[int, ...]
    help: str


Values = Mapping[str, tuple[int, ...]]
"""Option name -> its values."""


class Results:
    """A suite's results to be looked up by what they are."""

    def __init__(self, results: Iterable[Result]) -> None:
        self._results = tuple(results)

    def all(self) -> tuple[Result, ...]:
        """Every result, in the order of the plan."""
        return self._results

    def values_of(self, parameter: str) -> list[int]:
        """The whole-number values of a parameter, in the order of the plan, each once."""
        found = (result.parameters.get(parameter) for result in self._results)
        return list(dict.fromkeys(value for value in found if isinstance(value, int)))

    def find(
        self,
        variant: str,
        parameters: Mapping[str, int | str],
        *,
        metric: str = "cost_ns",
        baseline: str | None = None,
        method: Method | None = None,
    ) -> Result | None:
        """The result of that variant with just these parameters, or None.

        What the run chose of the data path is the same for all, and not looked at.
        `baseline` and `method` None: whichever it has.
        """
        for result in self._results:
            if (
                result.variant == variant
                and result.metric == metric
                and (baseline is None or result.baseline == baseline)
                and (method is None or result.method == method.value)
                and _own(result.parameters) == _own(parameters)
            ):
                return result
        return None


def _own(parameters: Mapping[str, int | str]) -> dict[str, int | str]:
    return {k: v for k, v in parameters.items() if not k.startswith(CHOSEN_PREFIX)}


def first_column(_results: Results, tables: Sequence[Table]) -> Sequence[Picture]:
    """The picture of a suite that has none of its own: the first table's first figures as bars."""
    return [bars(table) for table in tables[:1] if has_figures(table)]


@dataclass(frozen=True, slots=True)
class Suite:
    """A suite: its names, its options, what it plans and the tables that it fills.

    `plan(values, engine)` may ask the engine what it can do, and plans for that engine alone.
    `tables(results, notes)` is pure, and gets the results of one engine; so is and does
    `pictures(results, tables)`, to which its tables are given. `engines` names those
    that can run it: "kernel" and "user" run BPF programs, "native" functions of a NativeSpec.
    `weight` is how many times another suite's time it takes, for a list that is longer.
    `datapath` names variants of the data path that its figures depend on and that it leaves to a
    run. `explain` draws the ways that its packets take, None where there are none to draw.
    `published` gives what others published for two kernels beside a guest's row, or None.
    """

    name: str
    title: str
    options: Sequence[Option]
    plan: Callable[[Values, Engine], Plan]
    tables: Callable[[Results, Sequence[str]], Sequence[Table]]
    engines: tuple[str, ...] = BPF_ENGINES
    weight: float = 1.0
    datapath: tuple[str, ...] = ()
    explain: Callable[[], str] | None = None
    pictures: Callable[[Results, Sequence[Table]], Sequence[Picture]] = first_column
    published: Callable[[Result], Published | None] = lambda _result: None

    def runs_on(self, engine: str) -> bool:
        """Whether the engine of that name can run it."""
        return engine in self.engines


def find_suites() -> dict[str, Suite]:
    """Every suite of this package by name, in the order of their file names."""
    package = importlib.import_module("xdplab.suites")
    suites = {}
    for module in pkgutil.iter_modules(package.__path__):
        suite = getattr(importlib.import_module(f"xdplab.suites.{module.name}"), "SUITE", None)
        if isinstance(suite, Suite):
            suites[suite.name] = suite
    return suites


def choose_suites(names: Sequence[str]) -> list[Suite]:
    """The named suites, or all of them without a name. UsageError for an unknown one."""
    suites = find_suites()
    unknown = [name for name in names if name not in suites]
    if unknown:
        raise UsageError(f"there is no suite {unknown[0]!r}. The suites are: {', '.join(suites)}")
    return [suites[name] for name in dict.fromkeys(names)] if names else list(suites.values())
