"""xdplab export: stored runs in formats that others read."""

from __future__ import annotations

from pathlib import Path

import click

from xdplab.cli import completion
from xdplab.cli.choosing import documents_meant
from xdplab.cli.keeping import store_option
from xdplab.views.exports import benchmark_action, figures_csv, pyperf, samples_csv
from xdplab.views.json_document import check_target, write_json, write_text

_FORMATS = ("json", "csv", "samples-csv", "pyperf", "benchmark-action")


@click.command()
@click.argument(
    "run", metavar="RUN|FILE|-", nargs=-1, required=True, shell_complete=completion.runs
)
@click.option(
    "--format",
    "text_format",
    type=click.Choice(_FORMATS),
    default=_FORMATS[0],
    show_default=True,
    help="json: the result document with every sample. csv: a row a figure. samples-csv: a row a "
    "timed call, or a count. pyperf: for pyperf's commands. benchmark-action: "
    "customSmallerIsBetter of github-action-benchmark.",
)
@click.option(
    "-o", "--output", "target", metavar="FILE|-", default="-", help="Where to; default: stdout."
)
@store_option
def command(run: tuple[str, ...], text_format: str, target: str, store: Path | None) -> None:
    """Write stored RUNs, or result documents, for other programs.

    Several runs make a JSON list, which xdplab import and xdplab compare read as well.
    """
    check_target(target)
    documents = [document for word in run for document in documents_meant(word, store)]
    left_out = 0
    if text_format == "json":
        written = [document.to_json() for document in documents]
        write_json(written[0] if len(written) == 1 else written, target)
    elif text_format == "csv":
        write_text(figures_csv(documents), target)
    elif text_format == "samples-csv":
        write_text(samples_csv(documents), target)
    elif text_format == "pyperf":
        suite, left_out = pyperf(documents)
        write_json(suite, target)
    else:
        entries, left_out = benchmark_action(documents)
        write_json(entries, target)
    if left_out:
        click.echo(
            f"xdplab: {left_out} figures have no place in the format {text_format} and were left "
            "out; json and csv have them",
            err=True,
        )
