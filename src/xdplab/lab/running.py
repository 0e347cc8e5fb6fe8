"""A program loaded on either engine, to be run on packets: actions, bytes, maps, instructions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol, SupportsBytes

from xdplab.counting import Tally, count
from xdplab.engines.base import action_name
from xdplab.errors import NotPossibleError, UsageError, XdplabError
from xdplab.lab.maps import BpfMap, KernelEntries, UserEntries, as_bytes
from xdplab.packets.frame import Frame
from xdplab.program.chosen import Chosen, program_of
from xdplab.user.machine import UserObject
from xdplab.user.options import Mode, Options

ENGINES = ("user", "kernel")
"""Where a program may be loaded: in user space, which needs no privilege, or in the kernel."""

Packet = Frame | bytes | SupportsBytes
"""What a program is run on: a Frame, bytes, or what bytes() makes a packet of, as of scapy's."""

Entries = Mapping[str, Mapping[bytes | int, bytes | int]]
"""What maps hold at first: name -> key -> value; numbers are little-endian of the map's size."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What one run left: `action` is the name of `retval` (u32), `data` the packet's bytes and
    `metadata` those before it. `instructions` is how many eBPF instructions were executed, exactly;
    None where the kernel ran them, which does not count.
    """

    action: str
    retval: int
    data: bytes
    metadata: bytes
    instructions: int | None


def frame_of(packet: Packet) -> Frame:
    """The packet as a frame. FrameError where no program could be given it."""
    if isinstance(packet, Frame):
        return packet
    # bytes(60) would be sixty zeros, and surely not what was meant.
    if isinstance(packet, int | str) or not isinstance(packet, bytes | SupportsBytes):
        raise UsageError(f"{packet!r} is no packet. Give bytes, a Frame, or a packet of scapy's")
    return Frame(bytes(packet))


def chosen_of(
    program: str | Path | Chosen,
    include: Sequence[Path] = (),
    defines: Mapping[str, str] | None = None,
) -> Chosen:
    """What was named by OBJ[:PROG], unless it was found already."""
    return program if isinstance(program, Chosen) else program_of(str(program), include, defines)


def why_not(engine: str) -> str:
    """Why programs cannot run on that engine here, in a sentence; "" where they can."""
    if engine not in ENGINES:
        raise UsageError(f"there is no engine {engine!r}. The engines are: {', '.join(ENGINES)}")
    if engine == "user":
        return ""
    from xdplab.kernel.features import require_kernel_engine

    try:
        require_kernel_engine()
    except NotPossibleError as error:
        return str(error)
    return ""


def load(
    program: str | Path | Chosen,
    engine: str = "user",
    *,
    maps: Entries | None = None,
    constants: Mapping[str, int | bytes] | None = None,
    include: Sequence[Path] = (),
    defines: Mapping[str, str] | None = None,
) -> Loaded:
    """Load a program, OBJ[:PROG] as on the command line, to be run; use as a context manager.

    OBJ is a .bpf.o, or a .bpf.c that is compiled with `include` and `defines`. `maps` are entries
    to begin with, `constants` variables of `.rodata`. UsageError for what is named wrongly,
    CompileError, ObjectError; NotPossibleError where the engine cannot do it here; VerifierError.
    """
    reason = why_not(engine)
    if reason:
        raise NotPossibleError(reason)
    chosen = chosen_of(program, include, defines)
    return Loaded(chosen, engine, maps or {}, constants or {})


class _Backend(Protocol):
    """What the engines have in common; `maps` are those that the program can reach."""

    @property
    def maps(self) -> Mapping[str, BpfMap]: ...

    def run(self, frame: Frame) -> Ran: ...

    def read(self, name: str) -> int | float | bytes: ...

    def write(self, name: str, value: int | bytes) -> None: ...

    def close(self) -> None: ...


class Loaded:
    """A loaded program. Its maps and variables live from run to run, as they do in the kernel.

    `maps` are its maps by name, each a mapping of bytes to bytes (lab.maps.BpfMap).
    """

    def __init__(
        self, chosen: Chosen, engine: str, maps: Entries, constants: Mapping[str, int | bytes]
    ) -> None:
        self.chosen = chosen
        self.engine = engine
        self._backend: _Backend
        if engine == "user":
            self._backend = _InUserSpace(chosen, constants)
        else:
            self._backend = _InKernel(chosen, constants)
        self.maps = self._backend.maps
        try:
            self._fill(maps)
        except BaseException:
            self.close()
            raise

    def _fill(self, maps: Entries) -> None:
        for name, entries in maps.items():
            if name not in self.maps:
                known = ", ".join(self.maps) or "none"
                raise UsageError(
                    f"{self.chosen.program.name} has no map {name!r} to fill. It has: {known}"
                )
            self.maps[name].update(entries)

    def run(self, packet: Packet) -> Ran:
        """Run the program once on a packet.

        FrameError for what is no packet; XdplabError where a program in user space accesses what
        it must not, with the source line.
        """
        return self._backend.run(frame_of(packet))

    def count(self, packets: Iterable[Packet]) -> Tally:
        """Exact counts over packets, from maps as they are loaded: see `counting.count`."""
        return count(self.chosen.spec, self.chosen.program.name, map(frame_of, packets))

    def read(self, name: str) -> int | float | bytes:
        """A global variable's present value: a number where its type is one, else bytes."""
        return self._backend.read(name)

    def write(self, name: str, value: int | bytes) -> None:
        """Set a global variable."""
        self._backend.write(name, value)

    def close(self) -> None:
        """Give up the program and its maps."""
        self._backend.close()

    def __enter__(self) -> Loaded:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class _InUserSpace:
    def __init__(self, chosen: Chosen, constants: Mapping[str, int | bytes]) -> None:
        # No verifier has seen it: every access is checked, and instructions are counted.
        options = Options(Mode.CHECKED, quick=True)
        self._object = UserObject(chosen.spec, options, constants=constants)
        self._name = f"{chosen.program.name} of {chosen.spec.name}"
        try:
            self._program = self._object.program(chosen.program.name)
        except BaseException:
            self._object.close()
            raise
        self.maps = {name: BpfMap(UserEntries(one)) for name, one in self._object.maps.items()}

    def run(self, frame: Frame) -> Ran:
        outcome = self._program.run(frame)
        if outcome.fault is not None:
            raise XdplabError(
                f"running {self._name} on {len(frame.data)} bytes ended: {outcome.fault.message}"
            )
        return Ran(
            action_name(outcome.retval),
            outcome.retval,
            outcome.data,
            outcome.metadata,
            outcome.instructions,
        )

    def read(self, name: str) -> int | float | bytes:
        return self._object.read(name)

    def write(self, name: str, value: int | bytes) -> None:
        self._object.write(name, value)

    def close(self) -> None:
        self._object.close()


class _InKernel:
    def __init__(self, chosen: Chosen, constants: Mapping[str, int | bytes]) -> None:
        from xdplab.kernel.libbpf import LoadedObject

        name = chosen.program.name
        self._object = LoadedObject(chosen.spec, (name,), constants, all_maps=False)
        self._fd = self._object.prog_fd(name)
        self._name = f"{name} of {chosen.spec.name}"
        specs = chosen.spec.maps
        self.maps = {
            name: BpfMap(KernelEntries(fd, specs[name]))
            for name, fd in self._object.maps.items()
            if name in specs
        }

    def run(self, frame: Frame) -> Ran:
        from xdplab.kernel.testrun import TestRun, xdp_md

        # Always given, since the kernel says how long the metadata is only where one was.
        ctx = xdp_md(frame)
        try:
            outcome = TestRun(self._fd, frame.metadata + frame.data, ctx).outcome()
        except OSError as error:
            raise XdplabError(
                f"running {self._name} on {len(frame.data)} bytes in the kernel failed: "
                f"{error.strerror}. Is the packet one that the kernel's test run takes?"
            ) from None
        meta = int.from_bytes(outcome.ctx[:4], "little")
        return Ran(
            action_name(outcome.retval),
            outcome.retval,
            outcome.data[meta:],
            outcome.data[:meta],
            None,
        )

    def read(self, name: str) -> int | float | bytes:
        return self._object.read(name)

    def write(self, name: str, value: int | bytes) -> None:
        variable = self._object.spec.globals.get(name)
        if variable is None:
            known = ", ".join(self._object.spec.globals) or "none"
            raise UsageError(f"{self._name} has no global variable {name!r}. It has: {known}")
        self._object.memory_of(name).raw = variable.encode(value)

    def close(self) -> None:
        self._object.close()


def entries_of(chosen: Chosen, maps: Entries) -> dict[str, list[tuple[bytes, bytes]]]:
    """The entries of those maps that the object has, as engines take them."""
    specs = chosen.spec.maps
    return {
        name: [
            (as_bytes(key, specs[name].key_size), as_bytes(value, specs[name].value_size))
            for key, value in entries.items()
        ]
        for name, entries in maps.items()
        if name in specs
    }
