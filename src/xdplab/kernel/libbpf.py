"""libbpf by ctypes: open an object, load chosen programs, hand out what loading made.

libbpf does what must not be done again by hand: CO-RE, BTF, kfuncs, maps, global data. Its
messages are captured, never printed. What it relocated can be taken out as instructions and
loaded again by bpf.prog_load, so that one program can be placed many times. It is long for the
signatures of libbpf and for telling its failures apart.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import resource
import time
from collections.abc import Iterable, Mapping
from functools import cache
from types import TracebackType
from typing import Any

from xdplab.errors import KernelError, NotPossibleError, UsageError
from xdplab.kernel import bpf, kernel_btf
from xdplab.kernel.maps import PROG_ARRAY
from xdplab.kernel.verifier import refusal
from xdplab.program import GlobalSpec, ObjectSpec
from xdplab.program.insn import subprogram_starts
from xdplab.program.uses import uses

_LIBRARY = "libbpf.so.1"
_LOG_BYTES = 1 << 22
_PRINT_DEBUG = 2

# Errors of the system, of which a log that stands there by chance says nothing.
_FEW_DESCRIPTORS = 4
"""What libbpf needs to try out a feature of the kernel, and some."""

_NOT_THE_VERIFIER = bpf.INTERRUPTED | {errno.EMFILE, errno.ENFILE, errno.ENOMEM}

_Handle = ctypes.c_void_p
_SIGNATURES: Mapping[str, tuple[Any, tuple[Any, ...]]] = {
    "bpf_object__open_mem": (_Handle, (ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p)),
    "bpf_object__load": (ctypes.c_int, (_Handle,)),
    "bpf_object__close": (None, (_Handle,)),
    "bpf_object__next_program": (_Handle, (_Handle, _Handle)),
    "bpf_program__name": (ctypes.c_char_p, (_Handle,)),
    "bpf_program__fd": (ctypes.c_int, (_Handle,)),
    "bpf_program__flags": (ctypes.c_uint32, (_Handle,)),
    "bpf_program__insns": (ctypes.c_void_p, (_Handle,)),
    "bpf_program__insn_cnt": (ctypes.c_size_t, (_Handle,)),
    "bpf_program__set_autoload": (ctypes.c_int, (_Handle, ctypes.c_bool)),
    "bpf_program__set_log_buf": (ctypes.c_int, (_Handle, ctypes.c_void_p, ctypes.c_size_t)),
    "bpf_program__type": (ctypes.c_int, (_Handle,)),
    "bpf_program__set_type": (ctypes.c_int, (_Handle, ctypes.c_int)),
    "bpf_program__set_expected_attach_type": (ctypes.c_int, (_Handle, ctypes.c_int)),
    "bpf_object__next_map": (_Handle, (_Handle, _Handle)),
    "bpf_map__name": (ctypes.c_char_p, (_Handle,)),
    "bpf_map__fd": (ctypes.c_int, (_Handle,)),
    "bpf_map__value_size": (ctypes.c_uint32, (_Handle,)),
    "bpf_map__set_value_size": (ctypes.c_int, (_Handle, ctypes.c_uint32)),
    "bpf_map__set_max_entries": (ctypes.c_int, (_Handle, ctypes.c_uint32)),
    "bpf_map__set_pin_path": (ctypes.c_int, (_Handle, ctypes.c_char_p)),
    "bpf_map__set_autocreate": (ctypes.c_int, (_Handle, ctypes.c_bool)),
    "bpf_map__initial_value": (ctypes.c_void_p, (_Handle, ctypes.POINTER(ctypes.c_size_t))),
}
_PRINT_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)

_messages: list[str] = []
# ctypes frees a callback that nobody holds; libbpf keeps its address for good.
_callbacks: list[object] = []


@cache
def library() -> ctypes.CDLL:
    """The system's libbpf; NotPossibleError with the remedy where there is none."""
    try:
        lib = ctypes.CDLL(_LIBRARY, use_errno=True)
    except OSError as error:
        raise NotPossibleError(
            f"loading {_LIBRARY} failed: {error}. Programs reach the kernel through it; install "
            "it (Debian and Ubuntu: apt-get install libbpf1; Fedora: dnf install libbpf)"
        ) from None
    try:
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(lib, name)
            function.restype, function.argtypes = result, arguments
    except AttributeError as error:
        raise NotPossibleError(
            f"{_LIBRARY} was found, but is too old or damaged: {error}. Version 1.0 or newer is "
            "needed (Debian and Ubuntu: apt-get install --reinstall libbpf1)"
        ) from None
    libc = ctypes.CDLL(None)
    libc.vsnprintf.argtypes = (ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p)

    def capture(level: int, template: int, arguments: int) -> int:
        if level < _PRINT_DEBUG:
            line = ctypes.create_string_buffer(1 << 16)
            libc.vsnprintf(line, len(line), template, arguments)
            _messages.append(line.value.decode(errors="replace").rstrip())
        return 0

    callback = _PRINT_FUNCTION(capture)
    _callbacks.append(callback)
    lib.libbpf_set_print(callback)
    return lib


def available() -> bool:
    """Whether the system has libbpf."""
    try:
        library()
    except NotPossibleError:
        return False
    return True


class RelocatedProgram:
    """A program as the verifier saw it: instructions with map fds and BTF ids filled in.

    It holds references to its object's maps by number: it is of use while the object is open.
    """

    __slots__ = ("_name", "_prog_flags", "_prog_type", "func_info", "insns")

    def __init__(
        self,
        name: str,
        insns: bytes,
        prog_type: int,
        prog_flags: int,
        func_info: bpf.FuncInfo | None,
    ) -> None:
        self._name = name
        self.insns = insns
        self._prog_type = prog_type
        self._prog_flags = prog_flags
        self.func_info = func_info

    def load(self) -> int:
        """Load once more; return a new program fd. Where it is placed is the kernel's choice."""
        fd, _ = bpf.prog_load(
            self.insns,
            name=self._name,
            prog_type=self._prog_type,
            prog_flags=self._prog_flags,
            func_info=self.func_info,
        )
        return fd


class LoadedObject:
    """An object whose chosen programs are in the kernel. Use as a context manager.

    `programs` names what to load (None: every entry program); what the source puts into prog arrays
    comes along. `all_maps` False leaves out the maps that nothing loaded uses. `constants` sets
    `.rodata` before loading: GlobalSpec name -> int or bytes; `map_sizes` gives maps another size
    than they were declared with: name -> (bytes of a value, entries). Raises VerifierError,
    NotPossibleError (missing privilege or library), KernelError, UsageError (unknown program or
    global).
    """

    def __init__(
        self,
        spec: ObjectSpec,
        programs: Iterable[str] | None = None,
        constants: Mapping[str, int | bytes] | None = None,
        map_sizes: Mapping[str, tuple[int, int]] | None = None,
        *,
        all_maps: bool = True,
    ) -> None:
        self._lib = library()
        self._map_sizes = dict(map_sizes or {})
        self.spec = spec
        wanted = frozenset(spec.programs if programs is None else programs)
        for name in wanted - frozenset(spec.programs):
            raise UsageError(
                f"{spec.name} has no program {name!r}. It has: {', '.join(spec.programs)}"
            )
        # libbpf fills every prog array of the object, whoever uses it.
        filled = (name for name, one in spec.maps.items() if one.type == PROG_ARRAY and one.values)
        wanted, used = uses(spec, (*wanted, *filled))
        if all_maps:
            used = frozenset(spec.maps)
        for name in sorted(wanted):
            kernel_btf.require_kfuncs(spec, name)
        self._messages_before = len(_messages)
        self._logs: dict[str, ctypes.Array[ctypes.c_char]] = {}
        self._views: dict[str, mmap.mmap] = {}
        self.maps: dict[str, int] = {}
        self._value_sizes: dict[str, int] = {}
        self._btf_fds: list[int] = []
        # libbpf reads the object lazily out of this buffer.
        self._raw = spec.raw
        self._handle = None
        result = -errno.EINTR
        try:
            until = time.monotonic() + bpf.PATIENCE_S
            while -result in bpf.INTERRUPTED and time.monotonic() < until:
                result = self._load(wanted, used, constants or {})
                if -result not in bpf.INTERRUPTED:
                    break
                # A signal came in the middle of loading, and libbpf cannot load one twice.
                self.close()
            if result < 0:
                raise self._failure(f"loading {', '.join(sorted(wanted))} of {spec.name}", -result)
            self._put_held()
        except BaseException:
            self.close()
            raise

    def _load(
        self,
        wanted: frozenset[str],
        used: frozenset[str],
        constants: Mapping[str, int | bytes],
    ) -> int:
        """Open and load once; libbpf's answer, a negative errno where loading failed."""
        lib = self._lib
        self._handle = lib.bpf_object__open_mem(self._raw, len(self._raw), None)
        if not self._handle:
            raise self._failure(f"opening {self.spec.name} with libbpf", ctypes.get_errno())
        self._programs: dict[str, int] = {}
        for handle in self._each(lib.bpf_object__next_program):
            name = lib.bpf_program__name(handle).decode()
            if name not in self.spec.programs:
                continue
            if name in wanted:
                log = ctypes.create_string_buffer(_LOG_BYTES)
                lib.bpf_program__set_log_buf(handle, log, _LOG_BYTES)
                self._logs[name] = log
                self._programs[name] = handle
                if not lib.bpf_program__type(handle) and self._is_xdp(name):
                    lib.bpf_program__set_type(handle, bpf.PROG_TYPE_XDP)
                    lib.bpf_program__set_expected_attach_type(handle, bpf.ATTACH_TYPE_XDP)
            else:
                lib.bpf_program__set_autoload(handle, False)
        maps = {
            lib.bpf_map__name(handle).decode(): handle
            for handle in self._each(lib.bpf_object__next_map)
        }
        for name in self.spec.maps.keys() & maps.keys() - used:
            lib.bpf_map__set_autocreate(maps.pop(name), False)
        for handle in maps.values():
            # A map that asks to be pinned would outlive us, or be that of somebody else's run.
            lib.bpf_map__set_pin_path(handle, None)
        for name, (value_bytes, entries) in self._map_sizes.items():
            lib.bpf_map__set_value_size(maps[name], value_bytes)
            lib.bpf_map__set_max_entries(maps[name], entries)
        for name, value in constants.items():
            variable = self._global(name)
            self._poke_initial(maps, variable, value)
        result = int(lib.bpf_object__load(self._handle))
        if result < 0:
            return result
        self._logs.clear()
        self.maps = {name: int(lib.bpf_map__fd(handle)) for name, handle in maps.items()}
        self._value_sizes = {
            name: int(lib.bpf_map__value_size(handle)) for name, handle in maps.items()
        }
        return result

    def _put_held(self) -> None:
        """Put programs and maps where the spec has them: libbpf knows of the source's alone."""
        for name, spec in self.spec.maps.items():
            if name not in self.maps:
                continue
            for slot, held in (spec.values or {}).items():
                fd = self.maps[held] if held in self.maps else self.prog_fd(held)
                key = slot.to_bytes(spec.key_size, "little")
                try:
                    bpf.map_update(self.maps[name], key, fd.to_bytes(4, "little"))
                except OSError as error:
                    tried = f"putting {held} into slot {slot} of {name} ({spec.type_name})"
                    raise KernelError(tried, error.errno or 0) from None

    def _is_xdp(self, name: str) -> bool:
        """Whether the section is an XDP program's by name.

        Libraries that load nothing else take "xdp_drop" for one, libbpf since 1.0 does not.
        """
        return self.spec.programs[name].section.startswith("xdp")

    def _each(self, step: Any) -> list[int]:
        handles: list[int] = []
        handle = step(self._handle, None)
        while handle:
            handles.append(handle)
            handle = step(self._handle, handle)
        return handles

    def _poke_initial(
        self, maps: Mapping[str, int], variable: GlobalSpec, value: int | bytes
    ) -> None:
        handle = maps[self._map_of(maps, variable.section)]
        size = ctypes.c_size_t()
        start = self._lib.bpf_map__initial_value(handle, ctypes.byref(size))
        if not start or variable.offset_bytes + variable.size_bytes > size.value:
            raise UsageError(
                f"setting {variable.name} before loading failed: libbpf gives no initial value "
                f"for section {variable.section}"
            )
        ctypes.memmove(start + variable.offset_bytes, variable.encode(value), variable.size_bytes)

    @staticmethod
    def _map_of(maps: Iterable[str], section: str) -> str:
        # libbpf names the map of a data section after the object and the section, cut to
        # fifteen characters: "packet_a.rodata". The section's own dot starts the tail.
        for name in maps:
            if name == section or name.endswith(section[:15]):
                return name
        raise UsageError(f"the object has no map for its section {section}")

    def _global(self, name: str) -> GlobalSpec:
        try:
            return self.spec.globals[name]
        except KeyError:
            known = ", ".join(self.spec.globals) or "none"
            raise UsageError(
                f"{self.spec.name} has no global variable {name!r}. It has: {known}"
            ) from None

    def _failure(self, tried: str, number: int) -> Exception:
        said = _messages[self._messages_before :]
        logs = {} if number in _NOT_THE_VERIFIER else self._logs
        if number == errno.EINVAL and _descriptors_left() < _FEW_DESCRIPTORS:
            # libbpf takes the kernel for an older one if it could not try out what it has, and
            # the verifier then only misses a map.
            return KernelError(tried, errno.EMFILE)
        for name, log in logs.items():
            text = log.value.decode(errors="replace")
            if text:
                return refusal(f"loading program {name} of {self.spec.name}", number, text)
        if number == errno.EPERM:
            return NotPossibleError(
                f"{tried} was refused (EPERM): loading BPF programs takes CAP_BPF and "
                "CAP_NET_ADMIN. Run as root"
            )
        return KernelError(tried, number, "libbpf says: " + " / ".join(said[-4:]) if said else "")

    def prog_fd(self, name: str) -> int:
        """The fd of a loaded program; it stays the object's. UsageError where none has the name."""
        if name not in self._programs:
            raise UsageError(
                f"{self.spec.name} was loaded without a program {name!r}; it has "
                f"{', '.join(self._programs)}"
            )
        return int(self._lib.bpf_program__fd(self._programs[name]))

    def relocated(self, name: str) -> RelocatedProgram:
        """The program's instructions as loaded, to be loaded again elsewhere."""
        lib, handle = self._lib, self._programs[name]
        count = lib.bpf_program__insn_cnt(handle)
        insns = ctypes.string_at(lib.bpf_program__insns(handle), 8 * count)
        return RelocatedProgram(
            name,
            insns,
            int(lib.bpf_program__type(handle)),
            # libbpf adds this one when it loads, and does not tell.
            int(lib.bpf_program__flags(handle)) | self._frags_flag(name),
            self._func_info(self.prog_fd(name), insns),
        )

    def _frags_flag(self, name: str) -> int:
        has_frags = self.spec.programs[name].section.startswith("xdp.frags")
        return bpf.PROG_F_XDP_HAS_FRAGS if has_frags else 0

    def _func_info(self, fd: int, insns: bytes) -> bpf.FuncInfo | None:
        info = bpf.prog_info(fd)
        starts = subprogram_starts(insns)
        # The kernel drops subprograms that it finds dead; then order alone no longer tells
        # which record is whose, and a program without callbacks loads without records.
        if not info.btf_id or len(info.func_type_ids) != len(starts):
            return None
        btf_fd = bpf.btf_fd_by_id(info.btf_id)
        self._btf_fds.append(btf_fd)
        return bpf.FuncInfo(btf_fd, tuple(zip(starts, info.func_type_ids, strict=True)))

    def memory_of(self, name: str) -> ctypes.Array[ctypes.c_char]:
        """A global variable's bytes, shared with the running programs (no system call).

        Of use while the object is open. Only `.bss` and `.data` can be written after loading.
        """
        variable = self._global(name)
        view = self._view(self._map_of(self.maps, variable.section))
        room = ctypes.c_char * variable.size_bytes
        return room.from_buffer(view, variable.offset_bytes)

    def read(self, name: str) -> int | float | bytes:
        """A global variable's present value: a number where its type is one, else bytes."""
        return self._global(name).decode(self.memory_of(name).raw)

    def _view(self, map_name: str) -> mmap.mmap:
        view = self._views.get(map_name)
        if view is None:
            size = self._value_sizes[map_name]
            view = mmap.mmap(self.maps[map_name], -(-size // mmap.PAGESIZE) * mmap.PAGESIZE)
            self._views[map_name] = view
        return view

    def close(self) -> None:
        """Give up programs, maps and views. Clones that were loaded stay their owners'."""
        # Whoever still holds memory_of() keeps the mapping until that goes: never close() it.
        self._views.clear()
        for fd in self._btf_fds:
            os.close(fd)
        self._btf_fds.clear()
        if self._handle:
            self._lib.bpf_object__close(self._handle)
            self._handle = None

    def __enter__(self) -> LoadedObject:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _descriptors_left() -> int:
    """How many files this process may still open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft - len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names alone are wanted
