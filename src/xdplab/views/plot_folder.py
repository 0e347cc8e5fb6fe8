"""A report's plots as files of a folder."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from xdplab.errors import OutputError, UsageError
from xdplab.records import Document
from xdplab.views.charts import standalone
from xdplab.views.html_building import Plot
from xdplab.views.page import style_sheet


class PlotFolder:
    """A folder for plots in `picture_format`, "svg" or "png"; it is made where there is none.

    UsageError where nothing could be written there, NotPossibleError where PNGs cannot be drawn.
    """

    def __init__(self, target: str, picture_format: str) -> None:
        self._path = Path(target)
        self._format = picture_format
        if not target:
            raise UsageError("--plot has an empty name. Give a folder")
        if picture_format == "png":
            from xdplab.views import plot

            plot.require()
        try:
            self._path.mkdir(exist_ok=True)
            if not os.access(self._path, os.W_OK | os.X_OK):
                raise PermissionError(13, "Permission denied")
        except OSError as error:
            raise UsageError(
                f"no plot can be written to the folder {target}: {error.strerror}. Give another "
                "that is there, or whose parent is, and that you may write to"
            ) from None

    def write(self, plots: Sequence[Plot], document: Document) -> int:
        """Write each that the format has, all of a file or nothing; how many were written.

        OutputError where that fails.
        """
        written = 0
        for number, plot in enumerate(plots, start=1):
            data = self._drawn(plot, document)
            if data is None:
                continue
            path = self._path / f"{number:03}-{plot.name}.{self._format}"
            scratch = path.with_name(f".{path.name}.{os.getpid()}")
            try:
                scratch.write_bytes(data)
                scratch.replace(path)
            except OSError as error:
                with contextlib.suppress(OSError):
                    scratch.unlink()
                raise OutputError(
                    f"writing the plot {path} failed: {error.strerror}. {written} others are there"
                ) from None
            written += 1
        return written

    def _drawn(self, plot: Plot, document: Document) -> bytes | None:
        if self._format == "svg":
            return standalone(plot.svg, plot.title, style_sheet()).encode()
        if plot.picture is None:
            return None
        from xdplab.views.plot import Panel, draw

        return draw([Panel(plot.picture, "")], document, self._format)
