"""Numbers and files on the command line: what is taken, and that nothing else is."""

from __future__ import annotations

import string
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xdplab.cli.arguments import FilePath, Seconds, WholeNumbers, whole_number

TIME = Seconds(1e-9, 86_400.0)


@given(st.lists(st.integers(0, 10**18 - 1), min_size=1))
def test_lists_of_whole_numbers_come_back(numbers: list[int]) -> None:
    text = ",".join(map(str, numbers))
    assert WholeNumbers().convert(text, None, None) == tuple(numbers)
    # A default that is a value already.
    assert WholeNumbers().convert(tuple(numbers), None, None) == tuple(numbers)


@given(st.text(st.sampled_from("0123456789_+- .e,\u0661\u00b2\uff11")) | st.text())
def test_a_whole_number_is_decimal_digits_and_nothing_else(text: str) -> None:
    digits = 0 < len(text) <= 18 and set(text) <= set(string.digits)
    assert whole_number(text) == (int(text) if digits else None)


@pytest.mark.parametrize("text", ["10", "0.5", ".5", "5.", "1e3", "1E-3", "2.5e+1", "1e-9"])
def test_times_are_numbers_as_they_are_written(text: str) -> None:
    assert TIME.convert(text, None, None) == float(text)
    assert TIME.convert(float(text), None, None) == float(text)


@pytest.mark.parametrize(
    "text", ["", ".", "e3", "1_0", "\u0661", "1 ", "+1", "-1", "0", "0x10", "nan", "inf", "1e999"]
)
def test_other_times_are_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is no time from 1e-09 to 86400 seconds"):
        TIME.convert(text, None, None)


def test_an_empty_path_is_not_the_working_directory() -> None:
    assert FilePath().convert("a.pcap", None, None) == Path("a.pcap")
    with pytest.raises(click.BadParameter, match="an empty name is no file"):
        FilePath().convert("", None, None)
