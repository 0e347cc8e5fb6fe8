"""xdplab kernel: the same programs on other kernels, in guests."""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from xdplab import __version__
from xdplab.cli import completion
from xdplab.cli.arguments import FilePath, Seconds, WholeNumber
from xdplab.cli.keeping import Keeping, keeping_options
from xdplab.cli.main import INTERRUPTED_STATUS
from xdplab.errors import UsageError, XdplabError
from xdplab.records import Document, RunInfo
from xdplab.views import json_document
from xdplab.views.report import FORMATS, Report

if TYPE_CHECKING:
    from xdplab.before_after.plan import OwnProgram, Planned
    from xdplab.before_after.run import KernelRun
    from xdplab.experiment import Stop
    from xdplab.guests.qemu import Machine
    from xdplab.views.plot_file import PlotFiles
    from xdplab.views.progress import Progress


@click.group()
def command() -> None:
    """Measure on other kernels, booted in QEMU: before and after a patch, with no hardware of
    their own."""


@command.command("run")
@click.argument("suite", nargs=-1, shell_complete=completion.guest_suites)
@click.option(
    "--a",
    "before",
    type=FilePath(),
    required=True,
    metavar="BZIMAGE",
    help="The kernel, or the one before the patch: a bzImage or vmlinuz file.",
)
@click.option("--b", "after", type=FilePath(), metavar="BZIMAGE", help="The kernel behind it.")
@click.option(
    "--prog",
    "programs",
    multiple=True,
    metavar="OBJ[:PROG]",
    help="A program of your own (.bpf.o, or a .bpf.c that is compiled); may be given several "
    "times. Without a SUITE only these are run.",
)
@click.option(
    "--frame",
    "frames",
    multiple=True,
    metavar="KIND:BYTES",
    help="A UDP frame for --prog, of kind ipv4, ipv6, vlan or qinq; may be given several times. "
    "Default: ipv4:64.",
)
@click.option(
    "--unit",
    type=click.Choice(("insns", "ns")),
    help="Count instructions, or measure time under KVM. Default: time where KVM boots a guest "
    "here, which is tried, else instructions.",
)
@click.option(
    "--boots",
    type=WholeNumber(1, 1000),
    help="Boots of each kernel. Default: 2 where instructions are counted, which must say the "
    "same; 10 where time is measured.",
)
@click.option("--cpu", default="", metavar="MODEL", help="QEMU's CPU model, such as EPYC-Milan.")
@click.option(
    "--append",
    default="",
    metavar="TEXT",
    help="Added to the kernels' command line, such as mitigations=off.",
)
@click.option(
    "--limit",
    "limit_s",
    type=Seconds(1.0, 86_400.0),
    default=120.0,
    show_default=True,
    help="Longest boot.",
)
@click.option(
    "--why",
    is_flag=True,
    help="Boot each kernel once more, profiled: which functions pay for what the patch costs, and "
    "which save. Needs a C compiler, and takes twice a boot's time.",
)
@click.option("--json", "json_target", metavar="FILE|-", help="Write the result documents.")
@click.option(
    "--plot",
    "plot_target",
    metavar="FILE|FOLDER",
    help="With --why, draw functions as bars: FILE.svg or FILE.png for one suite, else a FOLDER.",
)
@click.option(
    "--format",
    "text_format",
    type=click.Choice(FORMATS),
    default=FORMATS[0],
    show_default=True,
    help="How the tables are written.",
)
@keeping_options
def run_command(
    suite: tuple[str, ...],
    before: Path,
    after: Path | None,
    programs: Sequence[str],
    frames: Sequence[str],
    unit: str | None,
    boots: int | None,
    cpu: str,
    append: str,
    limit_s: float,
    why: bool,
    json_target: str | None,
    plot_target: str | None,
    text_format: str,
    keeping: Keeping,
) -> int:
    """Run SUITEs (adjust-head, packet-access, traits, calls; default: all) in guest kernels.

    One kernel, or two side by side with differences. Where instructions are counted the figures
    are exact, the same on every machine with that QEMU, and they are not time. Each kernel's run
    is kept in the store. Needs QEMU (apt-get install qemu-system-x86) and no privilege. Ctrl-C
    ends it and keeps whole rounds of boots.
    """
    from xdplab.before_after.document import document
    from xdplab.before_after.plan import OWN, SUITES, choose, plan
    from xdplab.before_after.run import COUNTED_BOOTS, TIMED_BOOTS, run
    from xdplab.before_after.tables import controls_moved
    from xdplab.before_after.why import check as check_profiling
    from xdplab.experiment import Stop
    from xdplab.guests.qemu import Machine, can_use_kvm, check_kernel, find_qemu, qemu_version
    from xdplab.views.progress import Progress

    if json_target is not None:
        json_document.check_target(json_target)
    if plot_target is not None and not why:
        raise UsageError("--plot draws what --why finds: add --why, or leave it out")
    kernels = [before] if after is None else [before, after]
    if frames and not programs:
        raise UsageError("--frame is for programs of your own: give --prog, or leave it out")
    chosen = choose(suite or (() if programs else SUITES))
    own = _own(programs, frames)
    find_qemu()
    for kernel in kernels:
        check_kernel(kernel)
    keeping.check()
    names = [one.name for one in chosen] + ([OWN] if own else [])
    plots = None
    if plot_target is not None:
        from xdplab.views.plot_file import PlotFiles

        plots = PlotFiles(plot_target, names)
    counts = unit == "insns" or (unit is None and not can_use_kvm(before))
    machine = Machine(counts, cpu, append, limit_s)
    if why:
        check_profiling(machine)
    planned = plan([(one, {o.name: o.default for o in one.options}) for one in chosen], own)
    started, start = datetime.now(UTC), time.monotonic()
    wanted = boots or (COUNTED_BOOTS if counts else TIMED_BOOTS)
    failure: XdplabError | None = None
    with Stop().on_signals() as stop, Progress() as progress:
        runs = run(kernels, planned, machine, wanted, lambda: stop.asked, progress)
        complete = all(len(one.reports) == wanted for one in runs)
        if why and complete:
            try:
                complete = _profile(runs, planned, machine, stop, progress)
            except XdplabError as error:
                # What the ordinary boots counted stands without it.
                failure, complete = error, False
    if not all(one.reports for one in runs):
        click.echo("xdplab: ended by Ctrl-C before each kernel had booted once", err=True)
        return INTERRUPTED_STATUS
    documents: list[Document] = []
    for one in runs:
        info = RunInfo(
            id=f"{started:%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:6]}",
            started_at=started.isoformat(timespec="seconds"),
            duration_s=round(time.monotonic() - start, 3),
            command=("xdplab", *sys.argv[1:]),
            xdplab_version=__version__,
            complete=complete,
            # What tells the two apart in the list of runs, until the user says it better.
            note=f"kernel {one.label}: {one.path}",
        )
        made = document(info, one, planned, machine, qemu_version())
        if documents:
            # They are of the comparison, and stand with the kernel that is compared.
            warnings = tuple(controls_moved(documents[0].results, made.results))
            made = replace(made, warnings=warnings)
        documents.append(keeping.named(made))
    try:
        if json_target != "-":
            _show(documents, text_format)
        if plots is not None:
            _draw(documents, names, plots)
    finally:
        try:
            if json_target is not None:
                written = [one_document.to_json() for one_document in documents]
                json_document.write_json(written if after else written[0], json_target)
        finally:
            keeping.put(*documents)
    if failure is not None:
        raise failure
    if not complete:
        click.echo("xdplab: stopped early; whole rounds of boots were kept", err=True)
        return INTERRUPTED_STATUS
    return 0


def _profile(
    runs: Sequence[KernelRun], planned: Planned, machine: Machine, stop: Stop, progress: Progress
) -> bool:
    """Boot each kernel once more under the profiler; False where Ctrl-C ended that."""
    from xdplab.before_after.why import function_results

    for number, one in enumerate(runs):
        progress("profiled boots", number / len(runs))
        try:
            one.functions = function_results(one.path, planned, machine, lambda: stop.asked)
        except KeyboardInterrupt:
            if not stop.asked:
                raise
            return False
    return True


def _draw(documents: Sequence[Document], suites: Sequence[str], plots: PlotFiles) -> None:
    from xdplab.before_after.tables import pictures
    from xdplab.views.plot import Panel

    before, *after = documents
    for suite in suites:
        drawn = pictures(before, after[0] if after else None, suite)
        if drawn:
            plots.write(suite, [Panel(one, "in a guest kernel") for one in drawn], before)


@command.command("build")
@click.option(
    "--tree",
    type=FilePath(),
    required=True,
    metavar="DIR|TARBALL",
    help="A kernel's source; it is copied, never touched.",
)
@click.option(
    "--patch",
    "patches",
    type=FilePath(),
    multiple=True,
    metavar="FILE",
    help="Build the tree with this patch as well; several are applied in their order.",
)
@click.option(
    "--config",
    "fragments",
    type=FilePath(),
    multiple=True,
    metavar="FRAGMENT",
    help="Lines of configuration in addition to the small one for guests; may be given several "
    "times.",
)
def build_command(tree: Path, patches: tuple[Path, ...], fragments: tuple[Path, ...]) -> int:
    """Build a small kernel for guests, and the patched one; print their bzImage files.

    The first takes minutes, a patch on the same tree what it changes. Kernels are kept in the cache
    by source, patches, configuration and compiler. Ctrl-C keeps nothing that is half done.
    """
    from xdplab.experiment import Stop
    from xdplab.guests.build import Request, build
    from xdplab.views.progress import Progress

    with Stop().on_signals() as stop, Progress() as progress:
        built = build(Request(tree, patches, fragments), lambda: stop.asked, progress)
    for kernel in built:
        click.echo(str(kernel))
    return 0


@command.command("fetch-debian")
@click.argument("package", default="linux-image-cloud-amd64")
def fetch_command(package: str) -> int:
    """Download a Debian kernel PACKAGE into the cache, unpack it there, and print its file.

    Nothing is installed; apt-get and dpkg must be there. The default is the small kernel for
    virtual machines of the release that runs here.
    """
    from xdplab.guests.debian import fetch

    click.echo(str(fetch(package)))
    return 0


def _own(programs: Sequence[str], frames: Sequence[str]) -> list[OwnProgram]:
    from xdplab.before_after.plan import OwnProgram
    from xdplab.cli.frames import Given
    from xdplab.program.chosen import program_of

    own = []
    for argument in programs:
        chosen = program_of(argument)
        names = frames or ("ipv4:64",)
        built = Given(names).frames(takes_frags=chosen.program.takes_frags)
        own.append(
            OwnProgram(chosen.spec, chosen.program.name, dict(zip(names, built, strict=True)))
        )
    return own


def _show(documents: Sequence[Document], text_format: str) -> None:
    from xdplab.before_after.tables import tables

    report = Report(text_format)
    report.show_tables(tables(*documents), "guest", {})
    for document in documents:
        report.show_environment(document)
