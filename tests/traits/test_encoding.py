"""xdplab.traits: bytes and dict, and what it says of bytes that are none."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xdplab import traits
from xdplab.errors import TraitsError, UsageError

values = st.dictionaries(
    st.integers(0, traits.KEYS - 1),
    st.sampled_from(traits.VALUE_BYTES).flatmap(lambda n: st.binary(min_size=n, max_size=n)),
)


@given(values, st.binary(max_size=40))
def test_what_is_encoded_is_decoded(stored: dict[int, bytes], behind: bytes) -> None:
    area = traits.encode(stored)
    found = traits.decode(area + behind)
    assert found == stored
    assert list(found) == sorted(stored)
    assert len(area) % 4 == 0
    used = 16 + sum(map(len, stored.values()))
    assert used <= len(area) < used + 4
    assert traits.encode(stored, used) == area[:used]


def test_the_bytes_are_those_that_programs_write() -> None:
    area = traits.encode({63: b"\x88" * 8, 0: b"\x22\x22", 33: b"\x44" * 4}, 36)
    # Two bytes: low alone. Four: high alone. Eight: both.
    high, low = (1 << 63) | (1 << 33), (1 << 63) | 1
    assert area == struct.pack("<QQ", high, low) + b"\x22" * 2 + b"\x44" * 4 + b"\x88" * 8 + bytes(
        6
    )


@given(values, st.integers(0, 16 + 8 * traits.KEYS))
def test_an_area_that_is_cut_short_is_said_to_be(stored: dict[int, bytes], length: int) -> None:
    used = 16 + sum(map(len, stored.values()))
    area = traits.encode(stored)[:length]
    if length >= used:
        assert traits.decode(area) == stored
        return
    with pytest.raises(TraitsError) as caught:
        traits.decode(area)
    assert str(len(area)) in str(caught.value)
    if len(area) >= 16:
        assert f"tells of {used} bytes" in str(caught.value)


@pytest.mark.parametrize(
    ("stored", "area_bytes", "said"),
    [
        ({64: b"12"}, None, "key 64 was to be set; keys are 0 to 63"),
        ({-1: b"12"}, None, "key -1"),
        ({5: b"123"}, None, "key 5 was to be set to 3 bytes; a value has 2, 4 or 8"),
        ({5: b""}, None, "to 0 bytes"),
        ({5: b"12345678", 6: b"1234"}, 24, "2 values with their header take 28 bytes, and the"),
        ({}, 12, "0 values with their header take 16 bytes, and the area has 12"),
    ],
)
def test_values_that_cannot_be_are_refused(
    stored: dict[int, bytes], area_bytes: int | None, said: str
) -> None:
    with pytest.raises(TraitsError, match=said) as caught:
        traits.encode(stored, area_bytes)
    assert isinstance(caught.value, UsageError)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_bytes_can_be_read(kind: type) -> None:
    assert traits.decode(kind(traits.encode({7: b"ab"}, 20))) == {7: b"ab"}


def test_the_header_file_is_where_it_is_said_to_be() -> None:
    assert "int traits_set(" in (traits.include_folder() / "traits.bpf.h").read_text()
