"""Where pictures go: a file for one suite, a folder with a file each for several."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from xdplab.errors import OutputError, UsageError
from xdplab.records import Document
from xdplab.views import plot
from xdplab.views.plot import Panel


class PlotFiles:
    """Pictures of these suites as `target` says: FILE.svg or FILE.png for one, FOLDER for any.

    In a folder, which is made where there is none, each suite has NAME.svg. UsageError where the
    target could not be written now, NotPossibleError where nothing can be drawn: before
    anything was measured.
    """

    def __init__(self, target: str, suites: Sequence[str]) -> None:
        if not target:
            raise UsageError("--plot has an empty name. Give a file, such as run.svg, or a folder")
        self._path = Path(target)
        self._format = self._path.suffix.removeprefix(".").lower()
        # By os.path: a name that is too long is no folder, and told of below.
        self._is_folder = (
            not self._format or target.endswith(os.sep) or os.path.isdir(target)  # noqa: PTH112
        )
        if self._is_folder:
            self._format = plot.FORMATS[0]
        elif self._format not in plot.FORMATS:
            raise UsageError(
                f"--plot has {target}; pictures are written as .svg or .png. Give such a name, or "
                "a folder's"
            )
        elif len(suites) > 1:
            raise UsageError(
                f"--plot has one file, {target}, for {len(suites)} suites. Name one suite, or give "
                "a folder, in which each has a file of its own"
            )
        plot.require()
        try:
            if self._is_folder:
                self._path.mkdir(exist_ok=True)
            tempfile.TemporaryFile(dir=self.of(suites[0]).parent).close()
        except OSError as error:
            raise UsageError(
                f"no picture can be written to {target}: {error.strerror}. Give a place that is "
                "there and that you may write to"
            ) from None

    def of(self, suite: str) -> Path:
        """The file with the pictures of that suite."""
        return self._path / f"{suite}.{self._format}" if self._is_folder else self._path

    def write(self, suite: str, panels: Sequence[Panel], document: Document) -> None:
        """Draw a suite's panels below each other; all of the file is written, or nothing.

        OutputError where that fails.
        """
        data = plot.draw(panels, document, self._format)
        path = self.of(suite)
        # A link's name is not what is to be replaced.
        real = Path(os.path.realpath(path))
        scratch = real.with_name(f".{real.name}.{os.getpid()}")
        try:
            scratch.write_bytes(data)
            scratch.replace(real)
        except OSError as error:
            with contextlib.suppress(OSError):
                scratch.unlink()
            raise OutputError(
                f"writing the picture {path} failed: {error.strerror}. Its figures are in the "
                "tables and in what --json wrote"
            ) from None
