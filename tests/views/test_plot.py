"""Pictures: every label, interval and crossing is in them, and where they go is checked before."""

from __future__ import annotations

import math
import os
import re
import struct
import sys
from pathlib import Path

import pytest

from tests.cli.command import assert_clean_error, xdplab
from xdplab.errors import NotPossibleError, OutputError, UsageError
from xdplab.records import Document, Estimate, RunInfo
from xdplab.suites.picture import Bar, BarGroup, Bars, Curves, Mark, Series
from xdplab.suites.table import Column
from xdplab.views import plot
from xdplab.views.plot import Panel
from xdplab.views.plot_file import PlotFiles

DOCUMENT = Document(
    RunInfo("id", "2026-12-01T00:00:00+00:00", 1.0, ("xdplab", "run"), "0.1.0"),
    {"cpu": {"model": "A processor <of> somebody & others"}},
    (),
)


def estimate(point: float, half: float = 0.1) -> Estimate:
    return Estimate(point, point - half, point + half, 0.95, 9)


CURVES = Panel(
    Curves(
        "cost over size",
        Column("size", "B"),
        Column("cost", "ns"),
        (
            Series("by <stores>", [(16.0, estimate(1)), (32.0, estimate(2)), (64.0, estimate(9))]),
            Series("by a loop", [(16.0, estimate(3)), (64.0, estimate(3))]),
        ),
        (
            Mark(40.0, 3.0, 32.0, 64.0, "by stores up to 32 B"),
            Mark(41.0, 3.1, 32.0, 64.0, "nearly there as well"),
            Mark(17.0, 1.0, 16.0, 32.0, "elsewhere"),
        ),
    ),
    "in this kernel",
)
BARS = Panel(
    Bars(
        "cost of calls",
        "ns",
        (
            BarGroup("plain", (Bar("direct", estimate(1.5), published=1.319),)),
            BarGroup(
                "thunks",
                (
                    Bar("direct", estimate(-0.5, 1.0), resolved=False),
                    Bar("indirect", None, note="not on this processor"),
                    Bar("too early", Estimate(2.0, -math.inf, math.inf, 0.95, 2)),
                ),
            ),
        ),
    ),
    "as native code in this process",
)


def texts(data: bytes) -> list[str]:
    """What stands in an SVG, in order."""
    return [
        found.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
        for found in re.findall(r"<text [^>]*>([^<]*)</text>", data.decode())
    ]


def test_curves_have_names_units_ticks_and_numbered_marks() -> None:
    drawn = texts(plot.draw([CURVES], DOCUMENT, "svg"))
    for words in (
        "cost over size, in this kernel",
        "size (B)",
        "cost (ns)",
        "by <stores>",
        "by a loop",
        "16",
        "32",
        "64",
        "1  by stores up to 32 B",
        "2  nearly there as well",
        "3  elsewhere",
        # Two that would cover one another share a label.
        "1 2",
        "3",
    ):
        assert words in drawn, words


def test_bars_have_their_intervals_beside_them_and_say_what_is_no_figure() -> None:
    drawn = texts(plot.draw([BARS], DOCUMENT, "svg"))
    for words in (
        "cost of calls, as native code in this process",
        "plain",
        "thunks",
        "indirect",
        "1.50 [1.40, 1.60]  published 1.319",
        "-0.50 [-1.50, 0.50] within noise",
        "not on this processor",
        "2.00 [too few loads]",
        "ns",
    ):
        assert words in drawn, words


def test_the_environment_stands_below() -> None:
    drawn = texts(plot.draw([BARS, CURVES], DOCUMENT, "svg"))
    assert any(line.startswith("CPU: A processor <of> somebody & others") for line in drawn)
    assert any(line.startswith("Run: xdplab 0.1.0, 2026-12-01T00:00:00") for line in drawn)
    assert drawn.index("cost of calls, as native code in this process") < drawn.index(
        "cost over size, in this kernel"
    )


@pytest.mark.parametrize("picture_format", plot.FORMATS)
def test_the_same_figures_are_the_same_bytes(picture_format: str) -> None:
    assert plot.draw([CURVES, BARS], DOCUMENT, picture_format) == plot.draw(
        [CURVES, BARS], DOCUMENT, picture_format
    )


def test_a_png_is_one_and_grows_with_its_panels() -> None:
    one, two = (plot.draw(panels, DOCUMENT, "png") for panels in ([BARS], [BARS, CURVES]))
    assert one.startswith(b"\x89PNG")
    # IHDR: width and height, big-endian, behind 16 bytes.
    (width, height), (same, higher) = (struct.unpack(">II", data[16:24]) for data in (one, two))
    assert width == same
    assert higher > height


def test_what_is_not_above_zero_has_no_place_on_logarithmic_scales() -> None:
    points = [(16.0, estimate(-0.01)), (32.0, estimate(0.05, 0.2)), (64.0, estimate(1.0))]
    curves = Curves("t", Column("size", "B"), Column("cost", "ns"), (Series("s", points),))
    drawn = plot.draw([Panel(curves, "here")], DOCUMENT, "svg").decode()
    assert "nan" not in drawn.lower()
    assert "64" in texts(drawn.encode())


# --- where they go


def test_one_suite_has_a_file_and_several_a_folder(tmp_path: Path) -> None:
    assert PlotFiles(f"{tmp_path}/x.SVG", ["a"]).of("a") == tmp_path / "x.SVG"
    files = PlotFiles(f"{tmp_path}/pictures", ["a", "b"])
    files.write("b", [BARS], DOCUMENT)
    assert [path.name for path in (tmp_path / "pictures").iterdir()] == ["b.svg"]
    # A folder is one even where its name looks like a file's.
    (tmp_path / "run.png").mkdir()
    assert PlotFiles(f"{tmp_path}/run.png", ["a"]).of("a") == tmp_path / "run.png" / "a.svg"
    link = tmp_path / "link.png"
    link.symlink_to("real.png")
    PlotFiles(str(link), ["a"]).write("a", [BARS], DOCUMENT)
    assert link.is_symlink()
    assert (tmp_path / "real.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("target", "suites", "words"),
    [
        ("", ["a"], "empty name"),
        ("x.pdf", ["a"], r"\.svg or \.png"),
        ("x.svg", ["a", "b"], "for 2 suites"),
        ("missing/x.svg", ["a"], "missing/x.svg: No such file"),
        ("missing/folder", ["a"], "No such file"),
        ("file/x.svg", ["a"], "Not a directory"),
        ("file/", ["a"], "File exists"),
        ("n" * 300, ["a"], "name too long"),
    ],
)
def test_bad_targets_are_told_before_measuring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, suites: list[str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=words):
        PlotFiles(target, suites)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_folder_that_went_away_costs_the_picture_alone(tmp_path: Path) -> None:
    files = PlotFiles(f"{tmp_path}/folder", ["a"])
    (tmp_path / "folder").rmdir()
    with pytest.raises(OutputError, match=r"folder/a\.svg failed: No such file"):
        files.write("a", [BARS], DOCUMENT)


def test_without_matplotlib_one_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(NotPossibleError, match="pip install matplotlib"):
        plot.require()


# --- the command


def test_the_command_draws_what_it_measured(tmp_path: Path) -> None:
    target = tmp_path / "memset.svg"
    arguments = ("run", "memset", "--engine", "native", "--time", "0.5")
    result = xdplab(*arguments, "--plot", str(target))
    assert result.returncode == 0, result.stderr
    drawn = texts(target.read_bytes())
    assert any("as native code in this process" in line for line in drawn)
    assert {"C library", "AVX2", "constant, rep stosq", "8192"} <= set(drawn)
    assert any(line.startswith("Run: xdplab") for line in drawn)
    assert "memset: what clearing memory costs" in result.stdout


def test_the_command_refuses_before_it_measures(tmp_path: Path) -> None:
    module = tmp_path / "matplotlib"
    module.mkdir()
    (module / "__init__.py").write_text("raise ImportError('taken away')\n")
    arguments = ("run", "memset", "--engine", "native", "--plot", f"{tmp_path}/x.svg")
    result = xdplab(*arguments, env={"PYTHONPATH": str(tmp_path)})
    assert_clean_error(result, 3, "matplotlib", "taken away", "--plot")
    assert "measuring" not in result.stderr
    both = xdplab("run", "memset", "adjust-head", "--plot", f"{tmp_path}{os.sep}x.png")
    assert_clean_error(both, 2, "one file", "folder")
