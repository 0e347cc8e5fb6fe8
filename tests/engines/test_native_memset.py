"""The functions of native/memset.c: they clear what they say, in the way that they say."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator

import pytest

from tests.engines.machine_code import assembly
from xdplab.engines.base import Method, Subject
from xdplab.engines.c_library import libc_function, libc_name
from xdplab.engines.native import NativeEngine
from xdplab.packets.frame import Frame
from xdplab.program.native import NativeSpec
from xdplab.suites.memset_families import (
    BLOCK_SIZES,
    CONSTANT_SIZES,
    FAMILIES,
    RUN_TIME_SIZES,
    Family,
)

FULL = Frame(b"\xaa" * 8300)
SPEC = NativeSpec("memset")

on_x86 = pytest.mark.skipif(
    platform.machine() not in {"x86_64", "AMD64"}, reason="looks at x86-64's machine code"
)


def subject(function: str, size: int = 0, requires: tuple[str, ...] = ()) -> Subject:
    """One function on memory that is nowhere zero."""
    values = {"size": size, "libc_memset": libc_function("memset")}
    return Subject(f"{function}/{size}", SPEC, function, FULL, globals=values, requires=requires)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.variant)
def test_each_clears_its_bytes_and_no_other(family: Family) -> None:
    sizes = {*family.sizes}
    if "{}" not in family.function and family.variant != "blocks":
        # Sizes at run time are any sizes: tails of every length among them.
        sizes |= {*range(1, 140), 255, 257, 8191}
    if family.variant == "blocks":
        # Whole words alone, by its published description.
        sizes |= {*range(8, 264, 8)}
    subjects = {s: subject(family.function.format(s), s, family.requires) for s in sizes}
    with NativeEngine().open(list(subjects.values()), Method.OPERATION) as session:
        for size, one in subjects.items():
            if one.key in session.missing:
                # What this processor has not says so; nothing fails in silence.
                assert re.search("this processor", session.missing[one.key])
                continue
            assert session.run(one.key).data == bytes(size) + FULL.data[size:], size


def test_pages_are_cleared_and_the_loop_clears_nothing() -> None:
    subjects = [subject(name) for name in ("page_rep_stosb", "page_rep_stosq", "page_words")]
    with NativeEngine().open([*subjects, subject("loop")], Method.OPERATION) as session:
        for one in subjects:
            if one.key not in session.missing:
                assert session.run(one.key).data == bytes(4096) + FULL.data[4096:]
        assert session.run("loop/0").data == FULL.data


def test_what_the_processor_lacks_is_named() -> None:
    lacking = subject("avx2", 32, ("avx2", "no-such-feature"))
    with NativeEngine().open([lacking], Method.OPERATION) as session:
        (why,) = session.missing.values()
    assert "no-such-feature" in why or "no avx2 for this processor" in why


def test_the_c_library_is_named_and_called() -> None:
    assert libc_name()
    one = subject("libc", 100)
    silent = Subject("none", SPEC, "libc", FULL, globals={"size": 100, "libc_memset": 0})
    with NativeEngine().open([one, silent], Method.OPERATION) as session:
        assert session.missing.keys() == {"none"}
        assert session.run(one.key).data[:100] == bytes(100)


# --- machine code


def stores(function: str) -> list[int]:
    """The widths in bytes of a function's stores of zero, in order."""
    widths = {"q": 8, "l": 4, "w": 2, "b": 1}
    found = re.findall(r"\tmov([qlwb])\t\$0, [-\d]*\(%r\w+(?:,%r\w+)?\)", assembly(SPEC, function))
    return [widths[letter] for letter in found]


def functions() -> Iterator[str]:
    """Every function that is timed, and the routines that they call."""
    for family in FAMILIES:
        yield from dict.fromkeys(family.function.format(size) for size in family.sizes)
    yield from ("page_rep_stosb", "page_rep_stosq", "page_words", "loop")
    yield from ("clear_by_words", "clear_at_run_time")


@on_x86
@pytest.mark.parametrize("size", CONSTANT_SIZES)
def test_constant_sizes_are_stores_in_place_of_all_their_bytes(size: int) -> None:
    name = "constant" if size <= 128 else "stores"
    tail = [width for width in (4, 2, 1) if size & width]
    assert stores(f"{name}_{size}") == [8] * (size // 8) + tail


@on_x86
@pytest.mark.parametrize("size", [size for size in CONSTANT_SIZES if size > 128])
def test_large_constant_sizes_repeat_a_store(size: int) -> None:
    text = assembly(SPEC, f"constant_{size}")
    assert re.findall(r"rep\s+(stos\w)", text) == ["stosq"]
    assert f"movl\t${size // 8}, %ecx" in text
    assert stores(f"constant_{size}") == [width for width in (4, 2, 1) if size & width]


@on_x86
def test_no_function_became_another_one() -> None:
    """No call but those of the routines, no vector register where none was meant."""
    for name in functions():
        text = assembly(SPEC, name)
        calls = set(re.findall(r"\tcall\w*\t(\S+)", text))
        allowed = {
            "words": {"clear_by_words"},
            "run_time": {"clear_at_run_time"},
        }.get(name, set())
        if name == "libc":
            # Through the address that user space gave.
            assert len(calls) == 1
            assert calls.pop().startswith("*%")
        else:
            assert calls == allowed, name
        assert ("mm0" in text) == (name == "avx2"), name


@on_x86
def test_loops_of_words_stay_loops_of_words() -> None:
    assert stores("clear_by_words") == [8] * 8 + [8] + [1]
    assert stores("page_words") == [8] * 8
    # A block of four, and three cases of the switch.
    assert sorted(stores("blocks")) == [8] * 7
    assert stores("loop") == []
    assert re.findall(r"rep\s+(stos\w)", assembly(SPEC, "clear_at_run_time")) == ["stosq", "stosb"]
    assert re.findall(r"rep\s+(stos\w)", assembly(SPEC, "rep_stosb")) == ["stosb"]


def test_the_sizes_are_the_published_ones() -> None:
    """As the micro-benchmark has them; whoever changes one changes what is compared."""
    assert (len(CONSTANT_SIZES), len(RUN_TIME_SIZES), len(BLOCK_SIZES)) == (16, 16, 11)
    assert {199, 201, 204, 8192} <= set(CONSTANT_SIZES)
    assert {16, 1280, 1536, 8192} <= set(RUN_TIME_SIZES)
    assert {32, 192, 2048} <= set(BLOCK_SIZES)
