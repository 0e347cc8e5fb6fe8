"""bpf(2) without policy: one function a command, structures as in linux/bpf.h.

Loading with relocation is libbpf's work (libbpf.py); what is here is what must be exact or
fast: loading a relocated program again, object info, links, maps and ids (test runs:
testrun.py). It is long for the structures, which each command has its own of.
Every function raises `OSError` with the kernel's errno, untouched: callers know what they
tried and word the error. File descriptors that the kernel returns are close-on-exec.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from xdplab.errors import NotPossibleError

# Per architecture, from the kernel's syscall tables (unistd.h of each).
_SYS_BPF = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "ppc64le": 361, "s390x": 351}

_MAP_LOOKUP_ELEM = 1
_MAP_UPDATE_ELEM = 2
_MAP_DELETE_ELEM = 3
_MAP_GET_NEXT_KEY = 4
_PROG_LOAD = 5
_PROG_GET_NEXT_ID = 11
_MAP_GET_NEXT_ID = 12
_PROG_GET_FD_BY_ID = 13
_OBJ_GET_INFO_BY_FD = 15
_RAW_TRACEPOINT_OPEN = 17
_BTF_GET_FD_BY_ID = 19
_LINK_CREATE = 28
_LINK_UPDATE = 29
_LINK_GET_NEXT_ID = 31

PROG_TYPE_XDP = 6
ATTACH_TYPE_XDP = 37
XDP_FLAGS_SKB_MODE = 1 << 1
XDP_FLAGS_DRV_MODE = 1 << 2
PROG_F_XDP_HAS_FRAGS = 1 << 5

_LOG_BYTES = 1 << 24

INTERRUPTED = frozenset({errno.EINTR, errno.EAGAIN})
"""What a call ends with when a signal came in the middle; the verifier says EAGAIN."""

PATIENCE_S = 5.0
"""How long interrupted calls are made again: a process that is stopped and continued all the
time (a debugger, job control) is slow, not refused."""


class _ProgLoadAttr(ctypes.Structure):
    _fields_ = (
        ("prog_type", ctypes.c_uint32),
        ("insn_cnt", ctypes.c_uint32),
        ("insns", ctypes.c_uint64),
        ("license", ctypes.c_uint64),
        ("log_level", ctypes.c_uint32),
        ("log_size", ctypes.c_uint32),
        ("log_buf", ctypes.c_uint64),
        ("kern_version", ctypes.c_uint32),
        ("prog_flags", ctypes.c_uint32),
        ("prog_name", ctypes.c_char * 16),
        ("prog_ifindex", ctypes.c_uint32),
        ("expected_attach_type", ctypes.c_uint32),
        ("prog_btf_fd", ctypes.c_uint32),
        ("func_info_rec_size", ctypes.c_uint32),
        ("func_info", ctypes.c_uint64),
        ("func_info_cnt", ctypes.c_uint32),
        ("line_info_rec_size", ctypes.c_uint32),
        ("line_info", ctypes.c_uint64),
        ("line_info_cnt", ctypes.c_uint32),
        ("attach_btf_id", ctypes.c_uint32),
    )


class _ProgInfo(ctypes.Structure):
    """struct bpf_prog_info up to the fields read here; the kernel takes any known length."""

    _fields_ = (
        ("type", ctypes.c_uint32),
        ("id", ctypes.c_uint32),
        ("tag", ctypes.c_uint8 * 8),
        ("jited_prog_len", ctypes.c_uint32),
        ("xlated_prog_len", ctypes.c_uint32),
        ("jited_prog_insns", ctypes.c_uint64),
        ("xlated_prog_insns", ctypes.c_uint64),
        ("load_time", ctypes.c_uint64),
        ("created_by_uid", ctypes.c_uint32),
        ("nr_map_ids", ctypes.c_uint32),
        ("map_ids", ctypes.c_uint64),
        ("name", ctypes.c_char * 16),
        ("ifindex", ctypes.c_uint32),
        ("gpl_compatible", ctypes.c_uint32),
        ("netns_dev", ctypes.c_uint64),
        ("netns_ino", ctypes.c_uint64),
        ("nr_jited_ksyms", ctypes.c_uint32),
        ("nr_jited_func_lens", ctypes.c_uint32),
        ("jited_ksyms", ctypes.c_uint64),
        ("jited_func_lens", ctypes.c_uint64),
        ("btf_id", ctypes.c_uint32),
        ("func_info_rec_size", ctypes.c_uint32),
        ("func_info", ctypes.c_uint64),
        ("nr_func_info", ctypes.c_uint32),
        ("nr_line_info", ctypes.c_uint32),
        ("line_info", ctypes.c_uint64),
        ("jited_line_info", ctypes.c_uint64),
        ("nr_jited_line_info", ctypes.c_uint32),
        ("line_info_rec_size", ctypes.c_uint32),
        ("jited_line_info_rec_size", ctypes.c_uint32),
        ("nr_prog_tags", ctypes.c_uint32),
        ("prog_tags", ctypes.c_uint64),
        ("run_time_ns", ctypes.c_uint64),
        ("run_cnt", ctypes.c_uint64),
    )


class _InfoAttr(ctypes.Structure):
    _fields_ = (
        ("fd", ctypes.c_uint32),
        ("info_len", ctypes.c_uint32),
        ("info", ctypes.c_uint64),
    )


class _LinkCreateAttr(ctypes.Structure):
    _fields_ = (
        ("prog_fd", ctypes.c_uint32),
        ("target_ifindex", ctypes.c_uint32),
        ("attach_type", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("pad", ctypes.c_uint8 * 48),
    )


class _LinkUpdateAttr(ctypes.Structure):
    _fields_ = (
        ("link_fd", ctypes.c_uint32),
        ("new_prog_fd", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("old_prog_fd", ctypes.c_uint32),
    )


class _MapInfo(ctypes.Structure):
    """struct bpf_map_info up to the fields read here."""

    _fields_ = (
        ("type", ctypes.c_uint32),
        ("id", ctypes.c_uint32),
    )


class _RawTracepointAttr(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_uint64),
        ("prog_fd", ctypes.c_uint32),
        ("pad", ctypes.c_uint32),
        ("cookie", ctypes.c_uint64),
    )


class _MapElemAttr(ctypes.Structure):
    _fields_ = (
        ("map_fd", ctypes.c_uint32),
        ("pad", ctypes.c_uint32),
        ("key", ctypes.c_uint64),
        ("value", ctypes.c_uint64),
        ("flags", ctypes.c_uint64),
    )


class _IdAttr(ctypes.Structure):
    _fields_ = (
        ("id", ctypes.c_uint32),
        ("next_id", ctypes.c_uint32),
        ("open_flags", ctypes.c_uint32),
    )


_libc = ctypes.CDLL(None, use_errno=True)
syscall = _libc.syscall
syscall.restype = ctypes.c_long
syscall.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_ulong)


def syscall_number() -> int:
    """The number of bpf(2) on this machine; NotPossibleError where it is not known."""
    number = _SYS_BPF.get(platform.machine())
    if number is None:
        raise NotPossibleError(
            f"bpf(2) was not called: its number on {platform.machine()} is not known to xdplab. "
            f"Known machines: {', '.join(sorted(_SYS_BPF))}"
        )
    return number


def _bpf(command: int, attr: ctypes.Structure) -> int:
    until = time.monotonic() + PATIENCE_S
    while True:
        # Between two of these calls Python's own signal handlers run.
        result: int = syscall(
            syscall_number(), command, ctypes.addressof(attr), ctypes.sizeof(attr)
        )
        if result >= 0:
            return result
        number = ctypes.get_errno()
        if number not in INTERRUPTED or time.monotonic() > until:
            raise OSError(number, os.strerror(number))


@dataclass(frozen=True, slots=True)
class FuncInfo:
    """`bpf_func_info` records for one program and the fd of the BTF they point into.

    `records` are pairs (insn_off, type_id); the verifier wants them where a program takes a
    subprogram's address (`bpf_loop`, timers).
    """

    btf_fd: int
    records: tuple[tuple[int, int], ...]


def prog_load(
    insns: bytes,
    *,
    name: str = "xdplab",
    license: str = "GPL",
    prog_type: int = PROG_TYPE_XDP,
    prog_flags: int = 0,
    expected_attach_type: int = ATTACH_TYPE_XDP,
    func_info: FuncInfo | None = None,
    want_log: bool = False,
) -> tuple[int, str]:
    """Load relocated instructions (`struct bpf_insn[]`); return (program fd, verifier log).

    The log is empty unless `want_log`. With `want_log` a refusal's OSError carries the log
    as its third argument (`error.filename`).
    """
    insn_buffer = ctypes.create_string_buffer(insns, len(insns))
    license_buffer = ctypes.create_string_buffer(license.encode())
    attr = _ProgLoadAttr(
        prog_type=prog_type,
        insn_cnt=len(insns) // 8,
        insns=ctypes.addressof(insn_buffer),
        license=ctypes.addressof(license_buffer),
        prog_flags=prog_flags,
        prog_name=name.encode()[:15],
        expected_attach_type=expected_attach_type,
    )
    records = None
    if func_info is not None:
        flat = [word for record in func_info.records for word in record]
        records = (ctypes.c_uint32 * len(flat))(*flat)
        attr.prog_btf_fd = func_info.btf_fd
        attr.func_info_rec_size = 8
        attr.func_info = ctypes.addressof(records)
        attr.func_info_cnt = len(func_info.records)
    log_buffer = None
    if want_log:
        log_buffer = ctypes.create_string_buffer(_LOG_BYTES)
        attr.log_level = 1
        attr.log_size = _LOG_BYTES
        attr.log_buf = ctypes.addressof(log_buffer)
    try:
        fd = _bpf(_PROG_LOAD, attr)
    except OSError as error:
        if log_buffer is None:
            raise
        raise OSError(
            error.errno, error.strerror, log_buffer.value.decode(errors="replace")
        ) from None
    return fd, log_buffer.value.decode(errors="replace") if log_buffer is not None else ""


@dataclass(frozen=True, slots=True)
class ProgInfo:
    """What OBJ_GET_INFO_BY_FD says of a program.

    `jited_addresses` are the kernel addresses of the main program and its subprograms in
    order; empty where the kernel hides them (no CAP_SYSLOG-like right, JIT off).
    `func_type_ids` are BTF type ids in the order of the subprograms.
    """

    id: int
    name: str
    jited_bytes: int
    jited_addresses: tuple[int, ...]
    btf_id: int
    func_type_ids: tuple[int, ...]


def prog_info(fd: int) -> ProgInfo:
    """Read a program's info, with room for 256 subprograms."""
    room = 256
    ksyms = (ctypes.c_uint64 * room)()
    funcs = (ctypes.c_uint32 * (2 * room))()
    info = _ProgInfo(
        nr_jited_ksyms=room,
        jited_ksyms=ctypes.addressof(ksyms),
        func_info_rec_size=8,
        func_info=ctypes.addressof(funcs),
        nr_func_info=room,
    )
    attr = _InfoAttr(fd=fd, info_len=ctypes.sizeof(info), info=ctypes.addressof(info))
    _bpf(_OBJ_GET_INFO_BY_FD, attr)
    addresses = tuple(ksyms[: min(info.nr_jited_ksyms, room)])
    return ProgInfo(
        id=info.id,
        name=info.name.decode(errors="replace"),
        jited_bytes=info.jited_prog_len,
        jited_addresses=addresses if all(addresses) else (),
        btf_id=info.btf_id,
        func_type_ids=tuple(funcs[1 : 2 * min(info.nr_func_info, room) : 2]),
    )


def prog_address(fd: int) -> int:
    """Kernel address of the program's JITed code; 0 where the kernel does not tell."""
    address = ctypes.c_uint64()
    info = _ProgInfo(nr_jited_ksyms=1, jited_ksyms=ctypes.addressof(address))
    attr = _InfoAttr(fd=fd, info_len=ctypes.sizeof(info), info=ctypes.addressof(info))
    _bpf(_OBJ_GET_INFO_BY_FD, attr)
    return address.value


def prog_name_by_id(prog_id: int) -> str:
    """The name (15 bytes at most) of a loaded program; "" where it has none or is gone."""
    try:
        fd = _bpf(_PROG_GET_FD_BY_ID, _IdAttr(id=prog_id))
    except OSError:
        return ""
    try:
        return prog_info(fd).name
    finally:
        os.close(fd)


def btf_fd_by_id(btf_id: int) -> int:
    """A new fd for a loaded BTF object."""
    return _bpf(_BTF_GET_FD_BY_ID, _IdAttr(id=btf_id))


def link_create_xdp(prog_fd: int, ifindex: int, flags: int) -> int:
    """Attach to an interface of the caller's namespace by a bpf_link; return the link's fd.

    `flags` is XDP_FLAGS_SKB_MODE or XDP_FLAGS_DRV_MODE. Closing the fd detaches.
    """
    return _bpf(
        _LINK_CREATE,
        _LinkCreateAttr(
            prog_fd=prog_fd, target_ifindex=ifindex, attach_type=ATTACH_TYPE_XDP, flags=flags
        ),
    )


def link_update(link_fd: int, prog_fd: int) -> None:
    """Put another program behind a link, in one step and half the time of a new link."""
    _bpf(_LINK_UPDATE, _LinkUpdateAttr(link_fd=link_fd, new_prog_fd=prog_fd))


def raw_tracepoint_open(name: str, prog_fd: int) -> int:
    """Run a program at a tracepoint, such as "xdp_exception"; return the link's fd.

    ENOENT where the kernel has none of that name. Closing the fd detaches.
    """
    text = ctypes.create_string_buffer(name.encode())
    attr = _RawTracepointAttr(name=ctypes.addressof(text), prog_fd=prog_fd)
    return _bpf(_RAW_TRACEPOINT_OPEN, attr)


def map_id(map_fd: int) -> int:
    """The number by which the kernel speaks of a map."""
    info = _MapInfo()
    attr = _InfoAttr(fd=map_fd, info_len=ctypes.sizeof(info), info=ctypes.addressof(info))
    _bpf(_OBJ_GET_INFO_BY_FD, attr)
    return int(info.id)


def map_update(map_fd: int, key: bytes, value: bytes) -> None:
    """Set one entry of a map. `key` and `value` are as long as the map was made for."""
    key_buffer = ctypes.create_string_buffer(key, len(key))
    value_buffer = ctypes.create_string_buffer(value, len(value))
    attr = _MapElemAttr(
        map_fd=map_fd, key=ctypes.addressof(key_buffer), value=ctypes.addressof(value_buffer)
    )
    _bpf(_MAP_UPDATE_ELEM, attr)


def map_lookup_by_cpu(map_fd: int, key: bytes, value_bytes: int) -> list[bytes]:
    """One entry of a per-CPU map: its value, `value_bytes` long, on each possible CPU in turn."""
    room = -(-value_bytes // 8) * 8
    key_buffer = ctypes.create_string_buffer(key, len(key))
    values = ctypes.create_string_buffer(room * possible_cpus())
    attr = _MapElemAttr(
        map_fd=map_fd, key=ctypes.addressof(key_buffer), value=ctypes.addressof(values)
    )
    _bpf(_MAP_LOOKUP_ELEM, attr)
    raw = values.raw
    return [raw[start : start + value_bytes] for start in range(0, len(raw), room)]


def map_lookup(map_fd: int, key: bytes, value_bytes: int) -> bytes | None:
    """One entry's value, None where the key is not there. Not for per-CPU maps."""
    key_buffer = ctypes.create_string_buffer(key, len(key))
    value = ctypes.create_string_buffer(value_bytes)
    attr = _MapElemAttr(
        map_fd=map_fd, key=ctypes.addressof(key_buffer), value=ctypes.addressof(value)
    )
    try:
        _bpf(_MAP_LOOKUP_ELEM, attr)
    except FileNotFoundError:
        return None
    return value.raw


def map_delete(map_fd: int, key: bytes) -> None:
    """Remove an entry; FileNotFoundError where it is not there, OSError(EINVAL) of an array."""
    key_buffer = ctypes.create_string_buffer(key, len(key))
    _bpf(_MAP_DELETE_ELEM, _MapElemAttr(map_fd=map_fd, key=ctypes.addressof(key_buffer)))


def map_keys(map_fd: int, key_bytes: int) -> Iterator[bytes]:
    """Keys in the kernel's order. Entries that come or go meanwhile may be missed."""
    buffer = ctypes.create_string_buffer(key_bytes)
    following = ctypes.create_string_buffer(key_bytes)
    key = 0
    while True:
        attr = _MapElemAttr(map_fd=map_fd, key=key, value=ctypes.addressof(following))
        try:
            _bpf(_MAP_GET_NEXT_KEY, attr)
        except FileNotFoundError:
            return
        buffer.raw = following.raw
        key = ctypes.addressof(buffer)
        yield buffer.raw


@cache
def possible_cpus() -> int:
    """How many CPUs per-CPU memory is made for, those included that may be plugged in later."""
    # Such as "0-7", or "0,2-3"; numbering is dense in practice, and the kernel goes by the highest.
    text = Path("/sys/devices/system/cpu/possible").read_text()
    return 1 + int(re.split("[,-]", text.strip())[-1])


def _ids(command: int) -> Iterator[int]:
    current = 0
    while True:
        attr = _IdAttr(id=current)
        try:
            _bpf(command, attr)
        except FileNotFoundError:
            return
        current = attr.next_id
        yield current


def live_ids() -> dict[str, frozenset[int]]:
    """Ids of every program, map and link in this kernel, by kind: what a leak test compares."""
    return {
        "prog": frozenset(_ids(_PROG_GET_NEXT_ID)),
        "map": frozenset(_ids(_MAP_GET_NEXT_ID)),
        "link": frozenset(_ids(_LINK_GET_NEXT_ID)),
    }
