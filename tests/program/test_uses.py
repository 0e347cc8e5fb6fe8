"""What an object's programs need to be there, on the package's own objects."""

from __future__ import annotations

from xdplab.program.shipped import shipped_object
from xdplab.program.uses import uses


def test_a_program_needs_itself_and_its_maps() -> None:
    spec = shipped_object("calls_maps")
    programs, maps = uses(spec, ["lookup_hash_16"])
    assert (set(programs), set(maps)) == ({"lookup_hash_16"}, {"hash_16"})
    assert not uses(spec, ["key_alone"])[1]


def test_a_map_of_maps_brings_what_the_source_put_into_it() -> None:
    _, maps = uses(shipped_object("calls_maps"), ["lookup_hash_of_maps"])
    assert maps == {"hash_of_maps", "inner"}


def test_a_prog_array_brings_its_programs_and_what_they_need() -> None:
    spec = shipped_object("calls_tail")
    held = set((spec.maps["slots"].values or {}).values())
    assert len(held) == 4
    programs, maps = uses(spec, ["no_tail_call_constant"])
    assert programs == held | {"no_tail_call_constant"}
    assert maps == {"slots"}
    # A map may be asked for like a program.
    programs, maps = uses(spec, ["slots"])
    assert (set(programs), set(maps)) == (held, {"slots"})


def test_callbacks_and_subprograms_are_gone_through() -> None:
    assert uses(shipped_object("calls_maps"), ["for_each_array"])[1] == {"array_walked"}
    # A function is no entry program, and does not count as one.
    assert uses(shipped_object("calls"), ["bpf_loop_once"])[0] == {"bpf_loop_once"}
