"""Results as columns: a dict of equally long lists, which numpy and pandas take as it is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from xdplab.records import Document

Columns = dict[str, list[Any]]


def figures(documents: Iterable[Document]) -> Columns:
    """One row a figure of every run: what it is of, point and interval in the metric's unit,
    resolution, verdict, and the parameters of all rows, each a column of its own."""
    rows = [(document, result) for document in documents for result in document.results]
    columns: Columns = {
        "run": [document.run.id for document, _ in rows],
        **{
            name: [getattr(result, name) for _, result in rows]
            for name in ("suite", "engine", "variant", "baseline", "metric", "method")
        },
        **{
            name: [getattr(result.estimate, name, None) for _, result in rows]
            for name in ("point", "low", "high", "n")
        },
        "cycles": [getattr(result.cycles, "point", None) for _, result in rows],
        "resolution": [result.resolution for _, result in rows],
        "verdict": [result.verdict for _, result in rows],
    }
    for name in dict.fromkeys(name for _, result in rows for name in result.parameters):
        # A parameter may be called like a column; a prefix keeps both.
        own = name if name not in columns else f"parameter.{name}"
        columns[own] = [result.parameters.get(name) for _, result in rows]
    return columns


def samples(documents: Iterable[Document]) -> Columns:
    """One row a pair of timed calls: whole nanoseconds of baseline and variant for
    `operations` operations, by run, row (the figure's number in its run), trial and place."""
    columns: Columns = {
        name: []
        for name in (
            "run", "row", "variant", "baseline", "trial", "placement", "clock_ghz", "operations",
            "baseline_ns", "variant_ns",
        )
    }  # fmt: skip
    for document in documents:
        for row, result in enumerate(document.results):
            for number, trial in enumerate(result.trials):
                for first, second in zip(trial.baseline_ns, trial.variant_ns, strict=True):
                    values = (
                        document.run.id, row, result.variant, result.baseline, number,
                        trial.placement[1], trial.clock_ghz, result.operations_per_call,
                        first, second,
                    )  # fmt: skip
                    for column, value in zip(columns.values(), values, strict=True):
                        column.append(value)
    return columns
