"""Objects in the user-space engine: their maps and variables, their programs, and running them.

Everything of an object belongs to one thread at a time; objects know nothing of one another.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import TracebackType

from xdplab.errors import MissingFeatureError, UsageError
from xdplab.packets.frame import Frame
from xdplab.program.spec import GlobalSpec, MapSpec, ObjectSpec
from xdplab.user import runtime
from xdplab.user.abi import Fault, UserFrame, UserJob, UserState
from xdplab.user.buffer import FrameBuffer, frame_bytes
from xdplab.user.cache import ObjectCache
from xdplab.user.calls import find_spec
from xdplab.user.counts import Counts
from xdplab.user.faults import FaultRecord
from xdplab.user.jit import LoadedCode, compile_ir
from xdplab.user.link import LinkedProgram, link
from xdplab.user.map_memory import region_of
from xdplab.user.maps import PERF_EVENT_ARRAY, PROG_ARRAY, RINGBUF, UserMap
from xdplab.user.options import Options
from xdplab.user.translate import COUNTS, Translation, map_symbol, section_symbol, translate
from xdplab.user.translate_support import FAULTED, MAPS, REGION_WORDS, REGIONS
from xdplab.user.watchdog import WATCHDOG

BUDGET = 10_000_000
"""Instructions that a packet may take in checked and counted mode unless told otherwise; the
verifier itself looks at no more than a million."""

LOOPBACK_IFINDEX = 1
"""The interface that the kernel's test run gives to frames unless told otherwise."""

_TABLE_ENTRIES = 4096
_PAGE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run left: raw retval (u32), the frame's bytes, and its metadata.

    `instructions` is how many were executed (checked and counted mode, else 0): whole blocks where
    there was a fault.
    """

    retval: int
    data: bytes
    metadata: bytes
    fault: FaultRecord | None = None
    instructions: int = 0


class UserObject:
    """An object file made ready: maps, data sections, and programs as they are asked for.

    `constants` sets variables of `.rodata`. `seed` is that of the programs' random numbers. `cache`
    keeps compiled programs (None: nothing is kept). `copy` is the copy of the runtime that programs
    call (None: the process's own). Raises UsageError for an unknown variable,
    NotPossibleError where the engine does not run on this machine.
    """

    def __init__(
        self,
        spec: ObjectSpec,
        options: Options | None = None,
        *,
        constants: Mapping[str, int | bytes] | None = None,
        seed: int = 1,
        nr_cpus: int = 1,
        cache: ObjectCache | None = None,
        copy: LoadedCode | None = None,
    ) -> None:
        self.spec = spec
        self._copy = copy
        self.options = options or Options()
        self._cache = cache
        self.host = runtime.Host(nr_cpus=nr_cpus)
        self.state: UserState = self.host.new_state(seed=seed)
        self.budget = BUDGET
        self.frame = UserFrame(ingress_ifindex=LOOPBACK_IFINDEX, state=ctypes.addressof(self.state))
        self._run_one = runtime.library().function("user_run_one", ctypes.c_uint64, ctypes.c_void_p)
        self._programs: dict[str, UserProgram] = {}
        self._slots: dict[tuple[str, int], str] = {}
        self._sections = {name: _Section(data) for name, data in spec.sections.items()}
        for name, value in (constants or {}).items():
            ctypes.memmove(
                self.memory_of(name),
                self._global(name).encode(value),
                self._global(name).size_bytes,
            )
        self.maps: dict[str, UserMap] = {}
        self._refused: dict[str, str] = {}
        for name, map_spec in spec.maps.items():
            try:
                self.maps[name] = UserMap(_as_created(map_spec, nr_cpus), nr_cpus=nr_cpus)
            except OSError as error:
                self._refused[name] = error.strerror or str(error)
        self._regions = _Table(REGION_WORDS)
        self._map_table = _Table(1)
        for section, memory in self._sections.items():
            writable = not section.startswith(".rodata")
            self._regions.append(
                memory.address, memory.address + memory.size_bytes, writable, 0, 0, 0
            )
        for one in self.maps.values():
            self._tell(one)
        for name, map_spec in spec.maps.items():
            if map_spec.inner is not None and name in self.maps:
                for index, inner in (map_spec.values or {}).items():
                    self._place(name, index, inner)

    def _place(self, outer: str, index: int, inner: str) -> None:
        """What the source puts into a map of maps."""
        try:
            self.set_map(outer, index.to_bytes(self.spec.maps[outer].key_size, "little"), inner)
        except (OSError, OverflowError) as error:
            raise UsageError(f"Putting {inner} into slot {index} of {outer}: {error}") from None

    def _tell(self, one: UserMap) -> None:
        """Let checked programs use a map and its values."""
        region = region_of(one.spec, one.struct)
        if region is not None:
            self._regions.append(*region)
        self._map_table.append(one.address)

    def set_map(self, outer: str, key: bytes, inner: str | UserMap) -> None:
        """Put a map of this object, or another one, into a map of maps.

        UsageError where there is no such map, OSError where the kernel would refuse.
        """
        if outer not in self.maps or (isinstance(inner, str) and inner not in self.maps):
            raise UsageError(f"{self.spec.name} has no map {outer!r}, or no map {inner!r}")
        if isinstance(inner, str):
            inner = self.maps[inner]
        elif inner not in self.maps.values():
            self._tell(inner)
        self.maps[outer].set_map(key, inner)

    def program(self, name: str) -> UserProgram:
        """Entry program `name`, compiled and loaded the first time.

        UsageError where there is none, MissingFeatureError where it needs what the engine lacks,
        NotPossibleError and ObjectError as link() and translate() say.
        """
        loaded = self._programs.get(name)
        if loaded is None:
            loaded = self.add(link(self.spec, name))
        return loaded

    def program_at(self, address: int) -> UserProgram:
        """The loaded program whose native function is at `address`; LookupError if none is."""
        return next(one for one in self._programs.values() if one.address == address)

    def add(self, linked: LinkedProgram) -> UserProgram:
        """Load a linked program of this object, and the programs that its tail calls may reach."""
        translation = translate(self.spec, linked, self.options)
        for name in translation.maps:
            if name in self._refused:
                self._refuse(linked, self.spec.maps[name])
        data = compile_ir(translation.ir, self.options, self._cache)
        loaded = UserProgram(self, linked, translation, data)
        self._programs[linked.name] = loaded
        for name in translation.maps:
            if self.spec.maps[name].type == PROG_ARRAY:
                for index, target in (self.spec.maps[name].values or {}).items():
                    self.set_program(name, index, target)
        return loaded

    def _refuse(self, linked: LinkedProgram, spec: MapSpec) -> None:
        raise MissingFeatureError(
            f"map type {spec.type_name}",
            f"Loading {linked.name} of {self.spec.name}: its map {spec.name} of type "
            f"{spec.type_name} could not be created: {self._refused[spec.name]}",
        )

    def set_program(self, map_name: str, index: int, program: str) -> None:
        """Put a program of this object into a prog array; UsageError where that cannot be."""
        table = self.maps.get(map_name)
        if table is None or table.spec.type != PROG_ARRAY or index >= table.spec.max_entries:
            raise UsageError(f"{self.spec.name} has no prog array {map_name!r} with slot {index}")
        address = self.program(program).address
        try:
            table.set_program(index, address)
        except OSError as error:
            raise UsageError(
                f"Putting {program} into slot {index} of {map_name}: {error.strerror}"
            ) from None
        self._slots[map_name, index] = program

    def follow(self, program: str) -> None:
        """Put the present address of a program into the prog arrays that have it."""
        for (map_name, index), name in self._slots.items():
            if name == program:
                self.set_program(map_name, index, program)

    def memory_of(self, name: str) -> ctypes.Array[ctypes.c_char]:
        """A global variable's bytes, shared with the programs; of use while the object is there."""
        variable = self._global(name)
        return self._sections[variable.section].part(variable.offset_bytes, variable.size_bytes)

    def read(self, name: str) -> int | float | bytes:
        """A global variable's present value: a number where its type is one, else bytes."""
        return self._global(name).decode(self.memory_of(name).raw)

    def write(self, name: str, value: int | float | bytes) -> None:
        """Set a global variable."""
        self.memory_of(name).raw = self._global(name).encode(value)

    def section(self, name: str) -> ctypes.Array[ctypes.c_char]:
        """All bytes of a data section."""
        memory = self._sections[name]
        return memory.part(0, memory.size_bytes)

    def _global(self, name: str) -> GlobalSpec:
        try:
            return self.spec.globals[name]
        except KeyError:
            known = ", ".join(self.spec.globals) or "none"
            raise UsageError(
                f"{self.spec.name} has no global variable {name!r}. It has: {known}"
            ) from None

    def receives_on(self, frame: Frame) -> None:
        """Tell programs that packets come in where this frame does."""
        self.frame.ingress_ifindex = frame.ingress_ifindex or LOOPBACK_IFINDEX
        self.frame.rx_queue_index = frame.rx_queue_index

    def symbols(self, translation: Translation) -> dict[str, int]:
        """Addresses of what a translation refers to and the object or the runtime has."""
        known = self._copy.addresses if self._copy else runtime.library().symbols()
        found = {name: known[name] for name in translation.functions}
        for name in translation.maps:
            found[map_symbol(name)] = self.maps[name].address
        for name in translation.sections:
            found[section_symbol(name)] = self._sections[name].address
        if translation.needs_regions:
            found[REGIONS] = self._regions.address
            found[MAPS] = self._map_table.address
        return found

    def run_once(self, address: int, buffer: FrameBuffer) -> tuple[int, FaultRecord | None]:
        """One packet through a native program: raw retval and fault. The frame stays to be read."""
        state = self.state
        state.budget = self.budget
        job = UserJob(
            program=address,
            frame=ctypes.addressof(self.frame),
            buffers=ctypes.addressof(buffer.buffer),
            buffer_count=1,
            packets=1,
        )
        if self.options.guards:
            WATCHDOG.start(state)
            try:
                retval = self._run_one(ctypes.addressof(job)) & 0xFFFFFFFF
            finally:
                WATCHDOG.stop()
        else:
            retval = self._run_one(ctypes.addressof(job)) & 0xFFFFFFFF
        state.instructions = self.budget - state.budget if self.options.guards else 0
        return retval, self._fault() if state.fault else None

    def _fault(self) -> FaultRecord | None:
        state = self.state
        for loaded in self._programs.values():
            if loaded.faulted.value:
                loaded.faulted.value = 0
                return loaded.fault_record(state)
        return None

    def close(self) -> None:
        """Give up programs, maps and memory."""
        self._programs.clear()
        for one in self.maps.values():
            one.close()
        self.maps.clear()
        self._sections.clear()

    def __enter__(self) -> UserObject:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class UserProgram:
    """A program of a UserObject, ready to run. `address` is that of its native function,
    `u64 (struct user_frame *)`.
    """

    def __init__(
        self, owner: UserObject, linked: LinkedProgram, translation: Translation, data: bytes
    ) -> None:
        self._owner = owner
        self.linked = linked
        self.translation = translation
        self._data = data
        self.faulted = ctypes.c_uint32()
        self._counts = (ctypes.c_uint64 * max(1, len(translation.blocks)))()
        self._symbols = {
            **owner.symbols(translation),
            FAULTED: ctypes.addressof(self.faulted),
            COUNTS: ctypes.addressof(self._counts),
        }
        self._code = LoadedCode(data, self._symbols)

    @property
    def name(self) -> str:
        """The program's name."""
        return self.linked.name

    @property
    def address(self) -> int:
        """Address of the native function as it is loaded now."""
        return self._code.address

    def place_anew(self) -> None:
        """Load the code once more, somewhere else; prog arrays follow, and the old code goes."""
        self._code = LoadedCode(self._data, self._symbols)
        self._owner.follow(self.name)

    def run(
        self,
        frame: Frame | FrameBuffer,
        *,
        ingress_ifindex: int = LOOPBACK_IFINDEX,
        rx_queue_index: int = 0,
        egress_ifindex: int = 0,
    ) -> Outcome:
        """One packet. `frame` is laid out as by the kernel's test run unless it is already; where
        it says where it came in, that counts."""
        buffer = frame if isinstance(frame, FrameBuffer) else FrameBuffer(frame)
        owner = self._owner
        user_frame = owner.frame
        user_frame.ingress_ifindex = ingress_ifindex
        user_frame.rx_queue_index = rx_queue_index
        user_frame.egress_ifindex = egress_ifindex
        if isinstance(frame, Frame) and frame.ingress_ifindex:
            owner.receives_on(frame)
        retval, fault = owner.run_once(self.address, buffer)
        data, metadata = frame_bytes(user_frame)
        return Outcome(retval, data, metadata, fault, int(owner.state.instructions))

    def fault_record(self, state: UserState) -> FaultRecord:
        """The fault that `state` tells of, which was in this program."""
        slot = int(state.fault_insn)
        linked = self.linked
        insn = linked.insns[slot]
        helper = ""
        if insn.code == 0x85 and insn.src != 1 and insn.imm != 12:
            helper = find_spec(linked, slot, insn).name
        return FaultRecord(
            kind=Fault(state.fault),
            program=linked.name,
            slot=slot,
            place=linked.place(slot),
            line=linked.lines[slot],
            address=int(state.fault_address),
            size_bytes=int(state.fault_bytes),
            low=int(state.fault_low),
            high=int(state.fault_high),
            helper=helper,
            budget=self._owner.budget,
        )

    def counts(self) -> Counts:
        """What was executed since the program was loaded or `reset_counts` (counted mode)."""
        return Counts(self.linked, self.translation.blocks, tuple(self._counts))

    def reset_counts(self) -> None:
        """Count from zero."""
        ctypes.memset(self._counts, 0, ctypes.sizeof(self._counts))


def _as_created(spec: MapSpec, nr_cpus: int) -> MapSpec:
    """The map with the size that libbpf gives it where the source leaves that open.

    A perf event array without a size has one slot for each CPU; a ring buffer's size goes up to
    the next power of two of pages.
    """
    if spec.type == PERF_EVENT_ARRAY and not spec.max_entries:
        return replace(spec, max_entries=nr_cpus)
    if spec.type == RINGBUF and 0 < spec.max_entries <= 1 << 31:
        pages = -(-spec.max_entries // _PAGE_BYTES)
        return replace(spec, max_entries=_PAGE_BYTES << (pages - 1).bit_length())
    return spec


class _Section:
    def __init__(self, data: bytes) -> None:
        self.size_bytes = len(data)
        # Zeros behind the end: a string that lies there ends.
        self._memory = mmap.mmap(-1, len(data) + 8)
        self._memory[: len(data)] = data
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))

    def part(self, offset: int, size: int) -> ctypes.Array[ctypes.c_char]:
        return (ctypes.c_char * size).from_buffer(self._memory, offset)


class _Table:
    """A count of entries of u64 words, then the entries, as checked programs read them."""

    def __init__(self, words_per_entry: int) -> None:
        self._words = words_per_entry
        self._memory = (ctypes.c_uint64 * (1 + words_per_entry * _TABLE_ENTRIES))()
        self.address = ctypes.addressof(self._memory)

    def append(self, *words: int) -> None:
        count = self._memory[0]
        if count == _TABLE_ENTRIES:
            raise UsageError(f"an object may use {_TABLE_ENTRIES} maps and data sections")
        start = 1 + count * self._words
        self._memory[start : start + self._words] = list(words)
        self._memory[0] = count + 1
