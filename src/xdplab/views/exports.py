"""Documents in the formats of others: CSV, pyperf's JSON, and what CI dashboards read.

What a format has no place for is left out and counted, so that the command can say so.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from xdplab.records import Document, Json, Result
from xdplab.stats import quads
from xdplab.views.format import one_line, result_name, unit_of

FIGURE_COLUMNS = (
    *("run", "started_at", "tags", "suite", "engine", "method", "variant", "baseline"),
    *("parameters", "metric", "point", "low", "high", "level", "n", "resolution", "verdict"),
    *("cycles", "cycles_low", "cycles_high", "note"),
)

SAMPLE_COLUMNS = (
    *("run", "suite", "engine", "method", "variant", "baseline", "parameters", "metric"),
    *("operations_per_call", "trial", "call", "of", "value", "clock_ghz"),
)

_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_COUNTS = frozenset({"insns", "calls"})


def figures_csv(documents: Sequence[Document]) -> str:
    """One row a result (RFC 4180, with line feeds), headed by FIGURE_COLUMNS.

    Numbers stand as exactly as they are held; what is not known is empty. Parameters are
    name=value, several by semicolons.
    """
    return csv_text(
        FIGURE_COLUMNS,
        [_figure_row(document, result) for document in documents for result in document.results],
    )


def samples_csv(documents: Sequence[Document]) -> str:
    """One row a sample, headed by SAMPLE_COLUMNS.

    `of` "baseline_ns" or "variant_ns": `value` is whole nanoseconds of call number `call` in load
    number `trial`, both from 0. Any other `of` names what was counted in that trial, and `call` is
    empty.
    """
    return csv_text(
        SAMPLE_COLUMNS,
        (
            row
            for document in documents
            for result in document.results
            for row in _sample_rows(document, result)
        ),
    )


def _sample_rows(document: Document, result: Result) -> Iterator[list[Any]]:
    head = [document.run.id, *_names(result), result.metric, result.operations_per_call]
    for number, trial in enumerate(result.trials):
        for of, calls in (("baseline_ns", trial.baseline_ns), ("variant_ns", trial.variant_ns)):
            for call, ns in enumerate(calls):
                yield [*head, number, call, of, ns, trial.clock_ghz]
        for name, count in trial.counts.items():
            yield [*head, number, None, name, count, trial.clock_ghz]


def _names(result: Result) -> list[str | None]:
    parameters = ";".join(f"{name}={value}" for name, value in result.parameters.items())
    names = (result.suite, result.engine, result.method, result.variant, result.baseline)
    return [*names, parameters]


def csv_text(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """CSV with a heading; None and numbers that are not finite are empty."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(headings)
    for row in rows:
        writer.writerow("" if _unknown(value) else value for value in row)
    return file.getvalue()


def _unknown(value: Any) -> bool:
    return value is None or (isinstance(value, float) and not math.isfinite(value))


def _figure_row(document: Document, result: Result) -> list[Any]:
    estimate, cycles = result.estimate, result.cycles
    figure = (
        [estimate.point, estimate.low, estimate.high, estimate.level, estimate.n]
        if estimate
        else [None, None, None, None, 0]
    )
    return [
        document.run.id,
        document.run.started_at,
        " ".join(document.run.tags),
        *_names(result),
        result.metric,
        *figure,
        result.resolution,
        result.verdict,
        *([cycles.point, cycles.low, cycles.high] if cycles else [None] * 3),
        result.note,
    ]


def pyperf(documents: Sequence[Document]) -> tuple[Json, int]:
    """A benchmark suite as pyperf 2 reads it (its JSON format 1.0), and how many figures it lacks.

    A load is a pyperf run with one value: seconds an operation, or a number of instructions or
    calls. Several documents give one suite, each benchmark with the runs of all. pyperf bears
    no value that is not positive, so that differences that reach zero are left out, and
    figures in units that it does not know.
    """
    benchmarks: dict[str, Json] = {}
    left_out = 0
    for document in documents:
        for result in document.results:
            values, unit = _pyperf_values(result)
            if not values or min(values) <= 0:
                left_out += 1
                continue
            name = result_name(result)
            metadata = {
                "name": name,
                "unit": unit,
                "inner_loops": max(1, result.operations_per_call),
            }
            benchmark = benchmarks.setdefault(name, {"metadata": metadata, "runs": []})
            about = {"date": document.run.started_at, "xdplab_run": document.run.id}
            # pyperf refuses metadata that are empty, or longer than a line.
            run = {name: text for name, value in about.items() if (text := one_line(value).strip())}
            benchmark["runs"] += [{"metadata": run, "values": [value]} for value in values]
    return {"version": "1.0", "metadata": {}, "benchmarks": list(benchmarks.values())}, left_out


def _pyperf_values(result: Result) -> tuple[list[float], str]:
    if result.estimate is None:
        return [], ""
    if result.metric in _COUNTS:
        return [result.estimate.point], "integer"
    scale = _SECONDS.get(unit_of(result.metric))
    if scale is None:
        return [], ""
    points = [quads.trial_point(trial, result.operations_per_call) for trial in result.trials]
    return [point * scale for point in points or [result.estimate.point]], "second"


def benchmark_action(documents: Sequence[Document]) -> tuple[list[Json], int]:
    """What github-action-benchmark reads as customSmallerIsBetter, and how many figures it lacks.

    Left out: figures of which more is better, those without a figure, and counts by source line.
    With several documents each name begins with the run's tag, or its id.
    """
    entries: list[Json] = []
    left_out = 0
    for document in documents:
        whose = f"{' '.join(document.run.tags) or document.run.id}: " if len(documents) > 1 else ""
        for result in document.results:
            unit = unit_of(result.metric)
            if result.estimate is None or (unit not in _SECONDS and result.metric not in _COUNTS):
                left_out += 1
                continue
            entry = {
                "name": f"{whose}{result_name(result)}",
                "unit": unit,
                "value": result.estimate.point,
                "extra": f"{result.verdict}; xdplab {document.run.xdplab_version}, "
                f"run {document.run.id}",
            }
            if 0 < result.estimate.half_width < math.inf:
                entry["range"] = f"± {result.estimate.half_width:.3g}"
            entries.append(entry)
    return entries, left_out
