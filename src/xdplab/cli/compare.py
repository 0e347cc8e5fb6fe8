"""xdplab compare: stored runs or files, before and after, or a column a machine."""

from __future__ import annotations

import re
from pathlib import Path

import click

from xdplab.cli import completion
from xdplab.cli.choosing import documents_meant
from xdplab.cli.keeping import store_option
from xdplab.comparison import (
    Comparison,
    Side,
    compare,
    in_columns,
    worse_than,
)
from xdplab.environments import unlike
from xdplab.errors import NotPossibleError, UsageError
from xdplab.records import Document
from xdplab.views.comparison import (
    columns_table,
    commit_text,
    comparison_csv,
    comparison_json,
    comparison_tables,
    unlike_tables,
)
from xdplab.views.format import result_name
from xdplab.views.json_document import write_json, write_text
from xdplab.views.report import FORMATS, Report

REGRESSION_STATUS = 1
_LIMIT = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*(%|[a-z]+)")


class _Limit(click.ParamType):  # type: ignore[type-arg] # generic in newer releases alone
    """A limit such as 2% or 1ns, as (number, unit)."""

    name = "limit"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, str]:
        found = _LIMIT.fullmatch(str(value).strip())
        if found is None:
            self.fail(f"{value!r} is no limit: give a number and a unit, such as 2% or 1ns")
        return float(found[1]), found[2]


@click.command()
@click.argument("run", metavar="A B [...]", nargs=-1, required=True, shell_complete=completion.runs)
@click.option(
    "--across",
    is_flag=True,
    help="Judge also where environments are unlike: other kernels before and after a patch.",
)
@click.option(
    "--columns",
    is_flag=True,
    help="A column for each, without verdicts: machines side by side. So it is with more than two.",
)
@click.option(
    "--unit",
    type=click.Choice(("own", "cycles")),
    default="own",
    show_default=True,
    help="cycles: of the core's clock, where runs know it.",
)
@click.option(
    "--at",
    "rate_mpps",
    type=click.FloatRange(min=0, min_open=True),
    default=10.0,
    show_default=True,
    metavar="MPPS",
    help="The packet rate for which the share of a CPU is printed.",
)
@click.option(
    "--fail-above",
    "limit",
    type=_Limit(),
    metavar="LIMIT",
    help="Exit with 1 if a row is worse by more than this, such as 2% or 1ns: resolved, and with "
    "all of its interval beyond it.",
)
@click.option(
    "--format",
    "text_format",
    type=click.Choice((*FORMATS, "commit", "csv", "json")),
    default=FORMATS[0],
    show_default=True,
    help="commit: 72 columns of plain text, for a patch's message.",
)
@store_option
def command(
    run: tuple[str, ...],
    across: bool,
    columns: bool,
    unit: str,
    rate_mpps: float,
    limit: tuple[float, str] | None,
    text_format: str,
    store: Path | None,
) -> int:
    """Compare what runs A and B measured, row by row.

    Each is a stored run (its id, last, last~1, a tag) or a file that --json or export wrote. A
    tag that several runs have makes one side of all of them: from three a side on, what differs
    from run to run decides.
    """
    sides = sides_meant(run, store)
    if columns or len(sides) > 2:
        _columns(sides, text_format, limit, unit)
        return 0
    if len(sides) < 2:
        raise UsageError(
            f"compare takes two runs or more; {run[0]!r} is one. Name a second one, such as last"
        )
    comparison = compare(*sides, across=across, cycles=unit == "cycles")
    if not comparison.compared:
        raise UsageError(
            f"{sides[0].name} and {sides[1].name} have no figure in common"
            + (" in cycles: was the clock known in both?" if unit == "cycles" else "")
            + ". Compare runs of the same suites, engines and parameters"
        )
    _write(comparison, text_format, rate_mpps)
    return 0 if limit is None else _gate(comparison, *limit)


def sides_meant(words: tuple[str, ...], store: Path | None) -> list[Side]:
    """A side for each word that names runs, called by it."""
    names = [Path(word).name if "/" in word else word for word in words]
    sides = []
    for number, (word, name) in enumerate(zip(words, names, strict=True)):
        documents: list[Document] = documents_meant(word, store)
        if not documents:
            raise UsageError(f"{word} has no run in it. Give a file with one, or see xdplab list")
        told = name if names.count(name) == 1 else f"{name} ({number + 1})"
        sides.append(Side(told if name != "-" else "stdin", documents))
    return sides


def _columns(
    sides: list[Side], text_format: str, limit: tuple[float, str] | None, unit: str
) -> None:
    if text_format not in FORMATS or limit is not None:
        raise UsageError(
            f"{len(sides)} columns have no verdict: --fail-above and the formats commit, csv and "
            "json are for two runs. xdplab export has several runs as CSV or JSON"
        )
    cycles = "cycles" if unit == "cycles" else ""
    tables = unlike_tables(sides, unlike([side.documents for side in sides]), are_judged=True)
    rows = in_columns(sides, cycles=bool(cycles))
    Report(text_format).show_bare([*tables, columns_table(sides, rows, cycles)])


def _write(comparison: Comparison, text_format: str, rate_mpps: float) -> None:
    if text_format == "json":
        write_json(comparison_json(comparison), "-")
    elif text_format == "csv":
        write_text(comparison_csv(comparison), "-")
    elif text_format == "commit":
        write_text(commit_text(comparison), "-")
    else:
        Report(text_format).show_bare(comparison_tables(comparison, rate_mpps))


def _gate(comparison: Comparison, limit: float, unit: str) -> int:
    if not comparison.is_judged:
        names = ", ".join(one.name for one in comparison.unlike if one.decides)
        raise NotPossibleError(
            f"--fail-above cannot judge {comparison.after.name} against {comparison.before.name}: "
            f"their environments differ ({names}). "
            "Measure both on one machine, or give --across"
        )
    # A gate that nothing can close would pass for ever.
    if not comparison.judged_in(unit):
        raise UsageError(
            f"--fail-above {limit:g}{unit}: no row that both runs have is judged in {unit}. Give % "
            "or the unit of a row"
        )
    found = worse_than(comparison, limit, unit)
    for row in found:
        click.echo(
            f"xdplab: worse by more than {limit:g} {unit}: {result_name(row.result)}", err=True
        )
    return REGRESSION_STATUS if found else 0
