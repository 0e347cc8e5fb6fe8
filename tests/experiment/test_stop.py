"""Signals: the first asks, the second ends as it always would."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from xdplab.experiment import Stop

_BOTH = (signal.SIGINT, signal.SIGTERM)


@pytest.fixture(autouse=True)
def _known_handlers() -> Iterator[None]:
    """Whoever runs the tests may ignore SIGINT, as a shell's background jobs do."""
    before = [(number, signal.getsignal(number)) for number in _BOTH]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before:
        signal.signal(number, handler)


@pytest.mark.parametrize("number", _BOTH)
def test_the_first_signal_asks_and_raises_nothing(number: signal.Signals) -> None:
    with Stop().on_signals() as stop:
        assert not stop.asked
        signal.raise_signal(number)
        assert stop.asked


def test_an_impatient_second_signal_costs_nothing_and_a_third_ends() -> None:
    with Stop().on_signals() as stop:
        signal.raise_signal(signal.SIGINT)
        # What was measured is being estimated and written now.
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert stop.asked


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_lost_terminal_is_like_ctrl_c_unless_it_was_ignored(name: str) -> None:
    code = (
        "import signal, sys; from xdplab.experiment import Stop\n"
        f"number = signal.{name}\n"
        "if len(sys.argv) > 1: signal.signal(number, signal.SIG_IGN)\n"
        "with Stop().on_signals() as stop:\n"
        "    signal.raise_signal(number); print(stop.asked)\n"
    )
    for ignored, asked in (([], "True"), (["ignored"], "False")):
        done = subprocess.run(
            [sys.executable, "-c", code, *ignored],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert (done.returncode, done.stdout.strip()) == (0, asked)


def _ended(error: type[BaseException] | None, signals: int) -> None:
    with Stop().on_signals():
        for _ in range(signals):
            signal.raise_signal(signal.SIGINT)
        if error is not None:
            raise error


@pytest.mark.parametrize("error", [None, RuntimeError, SystemExit])
@pytest.mark.parametrize("signals", [0, 1, 2])
def test_handlers_are_put_back_however_it_ends(
    error: type[BaseException] | None, signals: int
) -> None:
    def own(_number: int, _frame: object) -> None:
        """Neither the default nor ours."""

    for number in _BOTH:
        signal.signal(number, own)
    if error is None:
        _ended(error, signals)
    else:
        with pytest.raises(error):
            _ended(error, signals)
    assert [signal.getsignal(number) for number in _BOTH] == [own, own]
