"""Python's structures are C's: every field at the same offset, with the same size."""

from __future__ import annotations

import ctypes
import re
from importlib import resources

from xdplab.user import abi
from xdplab.user.runtime import library


class Entry(ctypes.Structure):
    """struct layout_entry of layout.c."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("offset", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
    )


def layout_in_c() -> dict[str, tuple[int, int]]:
    """Offset and size of every structure (offset 0) and "structure.field", as compiled."""
    count = ctypes.c_uint64()
    function = library().function("user_layout", ctypes.POINTER(Entry), ctypes.c_void_p)
    entries = function(ctypes.addressof(count))
    table = [entries[index] for index in range(count.value)]
    return {entry.name.decode(): (entry.offset, entry.bytes) for entry in table}


def layout_in_python() -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for name, structure in abi.STRUCTURES.items():
        found[name] = (0, ctypes.sizeof(structure))
        for field, *_ in structure._fields_:
            descriptor = getattr(structure, field)
            found[f"{name}.{field}"] = (descriptor.offset, descriptor.size)
    return found


def test_structures_are_those_of_c() -> None:
    assert layout_in_python() == layout_in_c()


def header() -> str:
    return resources.files("xdplab").joinpath("user/runtime/abi.h").read_text()


def test_layout_table_names_every_structure_of_the_header() -> None:
    assert set(re.findall(r"^struct (\w+) \{", header(), re.MULTILINE)) == set(abi.STRUCTURES)


def test_constants_are_those_of_the_header() -> None:
    defined = dict(re.findall(r"#define (USER_\w+) (\d+)", header()))
    ours = {f"USER_{name}": value for name, value in vars(abi).items() if isinstance(value, int)}
    for name, value in defined.items():
        assert ours[name] == int(value), name


def test_enumerations_are_those_of_the_header() -> None:
    enums = {
        "user_fault": abi.Fault,
        "user_clear_head": abi.ClearHead,
        "user_move": abi.Move,
        "user_redirect": abi.Redirect,
        "user_skb_reuse": abi.SkbReuse,
    }
    text = re.sub(r"/\*.*?\*/", "", header(), flags=re.DOTALL)
    bodies = dict(re.findall(r"enum (\w+) \{(.*?)\}", text, re.DOTALL))
    assert set(bodies) == set(enums)
    for name, body in bodies.items():
        members = [word.strip() for word in body.split(",") if word.strip()]
        assert [member.value for member in enums[name]] == list(range(len(members)))
        for member, word in zip(enums[name], members, strict=True):
            assert word.endswith(f"_{member.name}"), word
