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


def test_the_second_sigint_raises() -> None:
    with Stop().on_signals() as stop:
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        assert stop.asked


def test_the_second_sigterm_ends_the_process() -> None:
    code = (
        "import signal; from xdplab.experiment import Stop\n"
        "with Stop().on_signals() as stop:\n"
        "    signal.raise_signal(signal.SIGTERM); print(stop.asked, flush=True)\n"
        "    signal.raise_signal(signal.SIGTERM); print('still here')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout) == (-signal.SIGTERM, "True\n")


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
