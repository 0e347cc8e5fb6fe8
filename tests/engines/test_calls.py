"""The price list's programs and what they need of the seam, on both engines."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.command import xdplab
from tests.conftest import kernel_descriptors
from tests.user.test_objects import kernel_entries
from xdplab.engines.base import XDP_DROP, XDP_PASS, Engine, Method, Session, Subject
from xdplab.engines.kernel import REPEAT, KernelEngine, KernelSession
from xdplab.engines.scripted import ScriptedEngine
from xdplab.engines.user import PACKETS, UserEngine, UserSession
from xdplab.errors import NotPossibleError
from xdplab.program.shipped import shipped_object
from xdplab.suites.base import Group
from xdplab.suites.calls import SUITE
from xdplab.suites.prices import PRICES, TAIL_CALLS_A_RUN

_HASH, _ARRAY = 1, 2
_RUNS = 40


def _groups() -> tuple[Group, Group]:
    loops, in_a_row = SUITE.plan({}, ScriptedEngine(lambda _key, _call: 1)).groups
    return loops, in_a_row


LOOPS, IN_A_ROW = _groups()
SUBJECTS = {one.key: one for group in (LOOPS, IN_A_ROW) for one in group.subjects}


@pytest.fixture(params=[pytest.param("kernel", marks=pytest.mark.needs_kernel), "user"])
def on(request: pytest.FixtureRequest) -> Engine:
    """Either engine."""
    return KernelEngine() if request.param == "kernel" else UserEngine()


def _maps(session: Session, subject: Subject) -> dict[str, dict[bytes, bytes]]:
    """Contents of the plain maps of a subject's program, by name."""
    specs = subject.bpf_object.maps
    if isinstance(session, UserSession):
        maps = session._loaded[subject.load_key].object.maps
        return {n: dict(m.items()) for n, m in maps.items() if m.spec.type in (_HASH, _ARRAY)}
    assert isinstance(session, KernelSession)
    fds = session._object(subject).maps
    return {
        name: dict(kernel_entries(fd, specs[name].key_size, specs[name].value_size))
        for name, fd in fds.items()
        if name in specs and specs[name].type in (_HASH, _ARRAY)
    }


@pytest.mark.parametrize("group", [LOOPS, IN_A_ROW], ids=["loops", "in a row"])
def test_every_program_does_its_work_again_and_again(on: Engine, group: Group) -> None:
    with on.open(group.subjects, Method.OPERATION) as session:
        lacking = {key for key, why in session.missing.items() if "this kernel lacks" in why}
        assert set(session.missing) == lacking
        for subject in group.subjects:
            if subject.key in lacking:
                continue
            before = _maps(session, subject)
            for _ in range(_RUNS):
                outcome = session.run(subject.key)
                assert outcome.retval == XDP_PASS, subject.key
                assert outcome.data == subject.frame.data, subject.key
            after = _maps(session, subject)
            # A lock's entry has what it guarded.
            assert after == before or subject.key == "spin-lock", subject.key


def test_a_lookup_in_an_empty_map_is_no_figure(on: Engine) -> None:
    needing = [
        replace(subject, entries={})
        for subject in LOOPS.subjects
        if subject.entries
        # What is put in by the program itself, or is there from the start.
        and not subject.program.startswith(("insert_", "update_percpu_array", "miss_"))
        and not subject.program.startswith(("update_array", "lookup_array", "lookup_percpu_array"))
    ]
    assert len(needing) > 10
    with on.open(needing, Method.OPERATION) as session:
        assert set(session.missing) == {subject.key for subject in needing}
        assert all("returned XDP_DROP" in why for why in session.missing.values())


def test_values_of_an_array_are_looked_at(on: Engine) -> None:
    wrong = replace(
        SUBJECTS["lookup-array-16"],
        entries={"array_16": [(n.to_bytes(4, "little"), bytes([7] * 8)) for n in range(16)]},
    )
    with on.open([wrong], Method.OPERATION) as session:
        assert "XDP_DROP" in session.missing["lookup-array-16"]


def test_without_a_route_there_is_no_figure(on: Engine) -> None:
    bare = replace(SUBJECTS["fib-lookup"], network=None)
    with on.open([bare], Method.OPERATION) as session:
        assert "XDP_DROP" in session.missing["fib-lookup"]


def test_a_next_hop_of_another_address_is_no_figure(on: Engine) -> None:
    subject = SUBJECTS["fib-lookup"]
    other = replace(subject, globals={**subject.globals, "next_hop": 5})
    with on.open([other], Method.OPERATION) as session:
        assert "XDP_DROP" in session.missing["fib-lookup"]


# --- tail calls


@pytest.mark.parametrize(("expected", "retval"), [(33, XDP_PASS), (32, XDP_DROP), (34, XDP_DROP)])
def test_a_run_makes_thirty_three_tail_calls(on: Engine, expected: int, retval: int) -> None:
    assert TAIL_CALLS_A_RUN == 33
    counting = Subject(
        "counted",
        shipped_object("calls_tail"),
        "tail_calls_counted",
        SUBJECTS["empty"].frame,
        globals={"runs": 0, "expected": expected},
    )
    with on.open([counting], Method.OPERATION) as session:
        assert session.run("counted").retval == retval
        session.place(["counted"])
        assert session.run("counted").retval == retval
        assert session.read_global("counted", "runs") == 34


def test_a_chain_that_ends_before_the_limit_is_no_figure() -> None:
    spec = shipped_object("calls_tail")
    with UserEngine().open([SUBJECTS["tail-call-variable"]], Method.PACKET) as session:
        owner = session._loaded[SUBJECTS["tail-call-variable"].load_key].object
        slots = {name: slot for slot, name in (spec.maps["slots"].values or {}).items()}
        owner.set_program("slots", slots["tail_call_variable"], "no_tail_call_variable")
        # It then ends at once, with what an empty slot ends with: the call behind it spoils that.
        assert session.run("tail-call-variable").retval == XDP_PASS
        owner.maps["slots"].delete(slots["tail_call_variable"].to_bytes(4, "little"))
        assert session.run("tail-call-variable").retval == XDP_DROP


def _present(session: Session, key: str, slot: int) -> tuple[int, int]:
    """What slot of the prog array holds, and what it should: an address, or a program's id."""
    if isinstance(session, UserSession):
        loaded = session._loaded[SUBJECTS[key].load_key]
        values = loaded.object.maps["slots"].struct.values
        return ctypes.c_uint64.from_address(values + 8 * slot).value, loaded.program.address
    from xdplab.kernel import bpf, libbpf

    assert isinstance(session, KernelSession)
    held = ctypes.c_uint32()
    index = ctypes.c_uint32(slot)
    fd = session._object(SUBJECTS[key]).maps["slots"]
    found = libbpf.library().bpf_map_lookup_elem(fd, ctypes.byref(index), ctypes.byref(held))
    assert found == 0
    return held.value, bpf.prog_info(session._loads.current[SUBJECTS[key].load_key][0]).id


def test_prog_arrays_hold_a_program_as_it_is_loaded_now(on: Engine) -> None:
    key = "tail-call-constant"
    values = shipped_object("calls_tail").maps["slots"].values or {}
    slot = next(slot for slot, name in values.items() if name == "tail_call_constant")
    seen = set()
    with on.open([SUBJECTS[key]], Method.PACKET) as session:
        for _ in range(5):
            session.place([key])
            held, present = _present(session, key, slot)
            assert held == present
            seen.add(present)
            assert session.run(key).retval == XDP_PASS
    assert len(seen) > 1


def test_a_call_makes_as_many_packets_as_make_up_for_their_operations(on: Engine) -> None:
    key = "tail-call-constant"
    with on.open([SUBJECTS[key]], Method.PACKET) as session:
        session.place([key])
        timer = session.timer(key)
        packets = (REPEAT if on.name == "kernel" else PACKETS) // TAIL_CALLS_A_RUN
        assert timer.operations_per_call == packets * TAIL_CALLS_A_RUN
        doubled = session.timer(key, doubled=True)
        assert min(timer() for _ in range(20)) < min(doubled() for _ in range(20))


# --- ring buffers


def test_a_ring_is_empty_before_every_call(on: Engine) -> None:
    """One run's records fit, several runs' do not: were it not emptied, they would be refused."""
    key = "ringbuf-output-64"
    with on.open([SUBJECTS[key]], Method.OPERATION) as session:
        session.place([key])
        timer = session.timer(key)
        for _ in range(20):
            timer()
            assert session.run(key).retval == XDP_PASS


@pytest.mark.needs_kernel
def test_a_full_ring_is_no_figure() -> None:
    from xdplab.kernel.libbpf import LoadedObject
    from xdplab.kernel.testrun import TestRun

    for key in ("ringbuf-output-8", "ringbuf-output-64", "ringbuf-reserve-discard"):
        subject = SUBJECTS[key]
        with LoadedObject(subject.bpf_object, (subject.program,)) as loaded:
            run = TestRun(loaded.prog_fd(subject.program), subject.frame.data)
            retvals = [run.outcome().retval for _ in range(5)]
        assert retvals[0] == XDP_PASS
        assert retvals[-1] == XDP_DROP


# --- what sessions hold


def test_maps_are_made_anew_now_and_then(on: Engine) -> None:
    keys = ["lookup-hash-16", "empty", "ringbuf-output-8"]
    before = kernel_descriptors()
    made = []
    with on.open([SUBJECTS[key] for key in keys], Method.OPERATION) as session:
        for _ in range(30):
            session.place(keys)
            assert all(session.timer(key)() > 0 for key in keys)
            assert session.run("lookup-hash-16").retval == XDP_PASS
            made.append(_of(session, "lookup-hash-16"))
    assert 2 <= len({id(one) for one in made}) <= 5
    assert kernel_descriptors() == before


def _of(session: Session, key: str) -> object:
    if isinstance(session, UserSession):
        return session._loaded[SUBJECTS[key].load_key].object
    assert isinstance(session, KernelSession)
    return session._object(SUBJECTS[key])


@pytest.mark.needs_kernel
def test_maps_that_nothing_uses_need_not_be_made() -> None:
    from xdplab.kernel.libbpf import LoadedObject

    spec = shipped_object("calls_maps")
    with LoadedObject(spec, ("lookup_hash_of_maps",), all_maps=False) as loaded:
        assert loaded.maps.keys() & spec.maps.keys() == {"hash_of_maps", "inner"}
        assert min(loaded.maps.values()) > 0
    with LoadedObject(spec, ("key_alone",)) as loaded:
        assert loaded.maps.keys() >= spec.maps.keys()


@pytest.fixture
def namespace() -> Iterator[None]:
    """The network namespace of this thread is afterwards what it was."""
    before = Path("/proc/thread-self/ns/net").readlink()
    yield
    assert Path("/proc/thread-self/ns/net").readlink() == before


@pytest.mark.needs_kernel
@pytest.mark.usefixtures("namespace")
def test_a_network_is_a_namespace_of_the_session_alone() -> None:
    home = Path("/proc/thread-self/ns/net").readlink()
    with KernelEngine().open([SUBJECTS["redirect-map"]], Method.OPERATION) as session:
        assert Path("/proc/thread-self/ns/net").readlink() != home
        assert not session.missing
    with KernelEngine().open([SUBJECTS["empty"]], Method.OPERATION):
        assert Path("/proc/thread-self/ns/net").readlink() == home


@pytest.mark.needs_kernel
@pytest.mark.usefixtures("namespace")
def test_where_no_route_can_be_made_only_its_rows_are_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_arguments: object) -> None:
        raise NotPossibleError("there are no veth interfaces here")

    monkeypatch.setattr("xdplab.engines.kernel.add_route", refuse)
    subjects = [SUBJECTS[key] for key in ("fib-lookup", "redirect-map", "empty")]
    with KernelEngine().open(subjects, Method.OPERATION) as session:
        assert session.missing == dict.fromkeys(
            ("fib-lookup", "redirect-map"), "there are no veth interfaces here"
        )
        assert session.run("empty").retval == XDP_PASS


@pytest.mark.needs_kernel
def test_the_price_list_is_printed() -> None:
    result = xdplab("run", "calls", "--engine", "kernel", "--time", "0.1")
    assert result.returncode == 0, result.stderr
    for price in PRICES:
        assert price.title in result.stdout
    assert "What mitigations cost here: a function call" in result.stdout
