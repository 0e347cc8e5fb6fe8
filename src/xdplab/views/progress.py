"""Progress on stderr while measuring: a moving line on a terminal, plain lines elsewhere."""

from __future__ import annotations

from types import TracebackType

import rich.progress

from xdplab.views.terminal import make_console


class Progress:
    """What the conductor reports to. Use as a context manager, call with label and share.

    On a terminal a bar follows the time that is spent (0 to 1). Anywhere else one line says
    what begins, so that a log is not filled with bars.
    """

    def __init__(self) -> None:
        self._console = make_console(stderr=True)
        self._bar = rich.progress.Progress(
            rich.progress.TextColumn("measuring {task.description}", markup=False),
            rich.progress.BarColumn(),
            rich.progress.TaskProgressColumn(),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._tasks: dict[str, rich.progress.TaskID] = {}

    def __call__(self, label: str, share: float) -> None:
        task = self._tasks.get(label)
        if task is None:
            task = self._tasks[label] = self._bar.add_task(label, total=1.0)
            if not self._console.is_terminal:
                self._console.print(f"measuring {label} ...", soft_wrap=True)
        self._bar.update(task, completed=share)

    def __enter__(self) -> Progress:
        self._bar.start()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bar.stop()
