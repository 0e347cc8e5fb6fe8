"""ctypes structures equal to those of runtime/abi.h; a test compares every size and offset.

Fields have the C names. Addresses are plain integers (`c_void_p`), and what they point to
stays the creator's: ctypes keeps nothing alive.
"""

from __future__ import annotations

import ctypes
from enum import IntEnum

HEADROOM_BYTES = 256
"""XDP_PACKET_HEADROOM (linux/bpf.h)."""

XDP_FRAME_BYTES = 40
"""sizeof(struct xdp_frame): kept free at the start of the headroom."""

TAILROOM_BYTES = 320
"""struct skb_shared_info, aligned to cache lines: no program may grow into it."""

FRAGS = 17
"""MAX_SKB_FRAGS."""

ACTIONS = 8
"""Counters of a job: retvals 0 to 6, and the last for all others."""


class Fault(IntEnum):
    """enum user_fault: what kind of address a fault was about."""

    NONE = 0
    PACKET = 1
    STACK = 2
    MAP_VALUE = 3
    DATA = 4
    CTX = 5
    NULL = 6
    OTHER = 7
    BUDGET = 8
    HELPER = 9
    DEPTH = 10


class ClearHead(IntEnum):
    """enum user_clear_head: how adjust_head clears the bytes that it exposes."""

    NONE = 0
    MEMSET = 1
    REP_STOSB = 2
    WORDS = 3
    CONSTANT = 4


class Move(IntEnum):
    """enum user_move: how adjust_head moves metadata."""

    MEMMOVE = 0
    WORDS = 1


class SkbReuse(IntEnum):
    """enum user_skb_reuse: where the veth model's heads go whose frame goes on."""

    OFF = 0
    NAPI_CACHE = 1


class Redirect(IntEnum):
    """enum user_redirect: what the last redirect of a packet named."""

    NONE = 0
    IFINDEX = 1
    MAP = 2


class UserFrag(ctypes.Structure):
    """struct user_frag; `room_bytes` counts from `data`, 0 where a frag cannot grow."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("bytes", ctypes.c_uint32),
        ("room_bytes", ctypes.c_uint32),
    )


class UserRoute(ctypes.Structure):
    """struct user_route."""

    _fields_ = (
        ("family", ctypes.c_uint8),
        ("prefix_bits", ctypes.c_uint8),
        ("mtu", ctypes.c_uint16),
        ("ifindex", ctypes.c_uint32),
        ("address", ctypes.c_uint8 * 16),
        ("gateway", ctypes.c_uint8 * 16),
        ("dmac", ctypes.c_uint8 * 6),
        ("smac", ctypes.c_uint8 * 6),
        ("result", ctypes.c_uint32),
        ("metric", ctypes.c_uint32),
    )


class UserHost(ctypes.Structure):
    """struct user_host; runtime.Host makes one with its buffers."""

    _fields_ = (
        ("clock_monotonic", ctypes.c_int32),
        ("clock_boottime", ctypes.c_int32),
        ("clock_coarse", ctypes.c_int32),
        ("clock_tai", ctypes.c_int32),
        ("nr_cpus", ctypes.c_uint32),
        ("numa_node", ctypes.c_uint32),
        ("route_count", ctypes.c_uint32),
        ("mtu", ctypes.c_uint32),
        ("routes", ctypes.c_void_p),
        ("trace", ctypes.c_void_p),
        ("trace_bytes", ctypes.c_uint64),
        ("trace_used", ctypes.c_uint64),
        ("trace_lost", ctypes.c_uint64),
    )


class UserState(ctypes.Structure):
    """struct user_state."""

    _fields_ = (
        ("time_ns", ctypes.c_uint64),
        ("fixed_time", ctypes.c_uint32),
        ("cpu", ctypes.c_uint32),
        ("random", ctypes.c_uint32 * 4),
        ("budget", ctypes.c_uint64),
        ("clear_head", ctypes.c_uint32),
        ("trait_move", ctypes.c_uint32),
        ("redirect_kind", ctypes.c_uint32),
        ("redirect_ifindex", ctypes.c_uint32),
        ("redirect_flags", ctypes.c_uint64),
        ("redirect_map", ctypes.c_void_p),
        ("redirect_key", ctypes.c_uint64),
        ("fault", ctypes.c_uint32),
        ("fault_insn", ctypes.c_uint32),
        ("fault_address", ctypes.c_uint64),
        ("fault_bytes", ctypes.c_uint64),
        ("fault_low", ctypes.c_uint64),
        ("fault_high", ctypes.c_uint64),
        ("helper", ctypes.c_uint32),
        ("tail_calls", ctypes.c_uint32),
        ("instructions", ctypes.c_uint64),
        ("counts", ctypes.c_void_p),
        ("host", ctypes.c_void_p),
    )


class UserFrame(ctypes.Structure):
    """struct user_frame."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("data_end", ctypes.c_void_p),
        ("data_meta", ctypes.c_void_p),
        ("hard_start", ctypes.c_void_p),
        ("hard_end", ctypes.c_void_p),
        ("ingress_ifindex", ctypes.c_uint32),
        ("rx_queue_index", ctypes.c_uint32),
        ("egress_ifindex", ctypes.c_uint32),
        ("frag_count", ctypes.c_uint32),
        ("frags", UserFrag * FRAGS),
        ("state", ctypes.c_void_p),
    )


class UserMapStruct(ctypes.Structure):
    """struct user_map; maps.UserMap makes one with its memory."""

    _fields_ = (
        ("type", ctypes.c_uint32),
        ("key_bytes", ctypes.c_uint32),
        ("value_bytes", ctypes.c_uint32),
        ("max_entries", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("id", ctypes.c_uint32),
        ("nr_cpus", ctypes.c_uint32),
        ("padding", ctypes.c_uint32),
        ("extra", ctypes.c_uint64),
        ("values", ctypes.c_void_p),
        ("value_stride", ctypes.c_uint64),
        ("values_bytes", ctypes.c_uint64),
        ("cpu_stride", ctypes.c_uint64),
        ("inside", ctypes.c_void_p),
    )


class UserBuffer(ctypes.Structure):
    """struct user_buffer."""

    _fields_ = (
        ("hard_start", ctypes.c_void_p),
        ("hard_end", ctypes.c_void_p),
        ("data", ctypes.c_void_p),
        ("data_end", ctypes.c_void_p),
        ("data_meta", ctypes.c_void_p),
        ("original", ctypes.c_void_p),
        ("original_bytes", ctypes.c_uint64),
        ("frags", ctypes.c_void_p),
        ("frag_count", ctypes.c_uint32),
        ("padding", ctypes.c_uint32),
    )


class UserJob(ctypes.Structure):
    """struct user_job."""

    _fields_ = (
        ("program", ctypes.c_void_p),
        ("frame", ctypes.c_void_p),
        ("buffers", ctypes.c_void_p),
        ("buffer_count", ctypes.c_uint32),
        ("clock", ctypes.c_int32),
        ("packets", ctypes.c_uint64),
        ("stack_shift", ctypes.c_uint64),
        ("done", ctypes.c_uint64),
        ("actions", ctypes.c_uint64 * ACTIONS),
    )


class UserVethJob(ctypes.Structure):
    """struct user_veth_job."""

    _fields_ = (
        ("program", ctypes.c_void_p),
        ("frame", ctypes.c_void_p),
        ("memory", ctypes.c_void_p),
        ("memory_bytes", ctypes.c_uint64),
        ("packet", ctypes.c_void_p),
        ("packet_bytes", ctypes.c_uint32),
        ("skb_reuse", ctypes.c_uint32),
        ("ring_entries", ctypes.c_uint32),
        ("budget", ctypes.c_uint32),
        ("clock", ctypes.c_int32),
        ("padding", ctypes.c_uint32),
        ("warmup", ctypes.c_uint64),
        ("packets", ctypes.c_uint64),
        ("generated", ctypes.c_uint64),
        ("polled", ctypes.c_uint64),
        ("forwarded", ctypes.c_uint64),
        ("polled_far", ctypes.c_uint64),
        ("dropped", ctypes.c_uint64),
        ("passed", ctypes.c_uint64),
        ("lost", ctypes.c_uint64),
        ("refused", ctypes.c_uint64),
        ("seen", ctypes.c_uint64),
        ("heads_made", ctypes.c_uint64),
        ("heads_free", ctypes.c_uint64),
        ("heads_cached", ctypes.c_uint64),
        ("pages_out", ctypes.c_uint64),
        ("buffers_out", ctypes.c_uint64),
    )


STRUCTURES: dict[str, type[ctypes.Structure]] = {
    "user_frag": UserFrag,
    "user_frame": UserFrame,
    "user_state": UserState,
    "user_route": UserRoute,
    "user_host": UserHost,
    "user_map": UserMapStruct,
    "user_buffer": UserBuffer,
    "user_job": UserJob,
    "user_veth_job": UserVethJob,
}
"""Every structure of abi.h by its C name."""
