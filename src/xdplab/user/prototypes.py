"""Helpers and kfuncs that the runtime has, described as the kernel's bpf_func_proto does.

What a translation needs to follow values, to check memory before a call, and to call. A helper
or kfunc that is not here does not exist in the user-space engine. This is one table,
which is why the file is longer than others.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from types import MappingProxyType


class ArgumentKind(Enum):
    """What a helper takes in one register (the kernel's enum bpf_arg_type).

    MAP_KEY and MAP_VALUE have the sizes of the map in the nearest earlier MAP argument. MEM has
    the size that another argument gives, or a constant one. STRING ends with a zero byte.
    CALLBACK is a native function `u64 (*)(struct user_frame *, u64 r1, ..., u64 r5)`. CONTEXT is
    what a callback is handed on, whatever it is.
    """

    CTX = auto()
    MAP = auto()
    MAP_KEY = auto()
    MAP_VALUE = auto()
    MEM = auto()
    SIZE = auto()
    SCALAR = auto()
    STRING = auto()
    CALLBACK = auto()
    CONTEXT = auto()
    DYNPTR = auto()
    RINGBUF_MEM = auto()
    SPIN_LOCK = auto()


class ReturnKind(Enum):
    """What r0 holds after a call (the kernel's enum bpf_return_type).

    MAP_VALUE_OR_NULL is a value of the map in argument 1, but for a map of maps the inner map.
    MEM_OR_NULL is memory of the size that `return_size` or `return_bytes` tells. ACTION is
    an enum xdp_action, what the program usually returns.
    """

    SCALAR = auto()
    VOID = auto()
    MAP_VALUE_OR_NULL = auto()
    MEM_OR_NULL = auto()
    ACTION = auto()


@dataclass(frozen=True, slots=True)
class Argument:
    """One register of a call.

    For MEM, `size_argument` is the number (1 to 5) of the register that holds the size in
    bytes, or `size_bytes` the constant size. `writes`: the helper may write there. `nullable`:
    NULL is allowed (with a size of 0 where there is a size).
    """

    kind: ArgumentKind
    size_argument: int | None = None
    size_bytes: int | None = None
    writes: bool = False
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class HelperSpec:
    """One helper or kfunc.

    `number` is that of enum bpf_func_id, -1 for a kfunc. `symbol` is the C function, always
    `u64 (struct user_frame *, u64 r1, ..., u64 r5)`. `by_map_type` gives functions that may be
    called instead where the map's type (enum bpf_map_type) is known. `return_size` is the
    number of the argument with the size of the returned memory, `return_bytes` its constant
    size. `changes_packet`: pointers into the packet are void after the call. `map_types`: the only
    types of maps (enum bpf_map_type) that it takes, empty where it looks itself. `reads_freely`: it
    reads what addresses among its values point to, and has a twin `user_checked_NAME` that asks
    for each whether that may be.
    """

    number: int
    name: str
    symbol: str
    arguments: tuple[Argument, ...]
    returns: ReturnKind = ReturnKind.SCALAR
    return_size: int | None = None
    return_bytes: int | None = None
    changes_packet: bool = False
    map_types: tuple[int, ...] = ()
    reads_freely: bool = False
    by_map_type: Mapping[int, str] = field(default_factory=dict)

    @property
    def checked_symbol(self) -> str:
        """The twin that asks before it reads, where `reads_freely`; it takes all of r1 to r5."""
        return self.symbol.replace("user_helper_", "user_checked_")

    def symbol_for(self, map_type: int | None) -> str:
        """The function to call for a map of this type, None where it is not known."""
        return self.symbol if map_type is None else self.by_map_type.get(map_type, self.symbol)


_CTX = Argument(ArgumentKind.CTX)
_MAP = Argument(ArgumentKind.MAP)
_KEY = Argument(ArgumentKind.MAP_KEY)
_VALUE = Argument(ArgumentKind.MAP_VALUE)
_VALUE_OUT = Argument(ArgumentKind.MAP_VALUE, writes=True)
_SCALAR = Argument(ArgumentKind.SCALAR)
_SIZE = Argument(ArgumentKind.SIZE)
_STRING = Argument(ArgumentKind.STRING)
_CALLBACK = Argument(ArgumentKind.CALLBACK)
_CONTEXT = Argument(ArgumentKind.CONTEXT, nullable=True)
_RECORD = Argument(ArgumentKind.RINGBUF_MEM)
_LOCK = Argument(ArgumentKind.SPIN_LOCK, size_bytes=4, writes=True)
_DYNPTR = Argument(ArgumentKind.DYNPTR, size_bytes=16)
_DYNPTR_OUT = Argument(ArgumentKind.DYNPTR, size_bytes=16, writes=True)
_ITERATOR = Argument(ArgumentKind.MEM, size_bytes=8, writes=True)


def _memory(size: int, *, writes: bool = False, nullable: bool = False) -> Argument:
    return Argument(ArgumentKind.MEM, size_argument=size, writes=writes, nullable=nullable)


def _helper(
    number: int,
    name: str,
    *arguments: Argument,
    returns: ReturnKind = ReturnKind.SCALAR,
    return_size: int | None = None,
    return_bytes: int | None = None,
    changes_packet: bool = False,
    by_map_type: Mapping[int, str] | None = None,
    map_types: tuple[int, ...] = (),
    reads_freely: bool = False,
) -> HelperSpec:
    types = {key: f"user_helper_{name}_{end}" for key, end in (by_map_type or {}).items()}
    return HelperSpec(
        number=number,
        name=name,
        symbol=f"user_helper_{name.removeprefix('bpf_')}",
        arguments=arguments,
        returns=returns,
        return_size=return_size,
        return_bytes=return_bytes,
        changes_packet=changes_packet,
        by_map_type=MappingProxyType(types),
        map_types=map_types,
        reads_freely=reads_freely,
    )


_kfunc = functools.partial(_helper, -1)
_VALUE_POINTER = ReturnKind.MAP_VALUE_OR_NULL
_MEMORY_POINTER = ReturnKind.MEM_OR_NULL
_VOID = ReturnKind.VOID

# Map types that have a lookup of their own to call; numbers of enum bpf_map_type.
_LOOKUPS = {
    1: "hash",
    2: "array",
    5: "percpu_hash",
    6: "percpu_array",
    9: "lru_hash",
    10: "lru_hash",
    11: "lpm_trie",
    12: "array_of_maps",
    13: "hash_of_maps",
}
_SOCKET = (_CTX, _memory(3), _SIZE, _SCALAR, _SCALAR)

_HASHES = (1, 5, 9, 10)
_PERF, _RING, _TARGETS = (4,), (27,), (14, 16, 17, 25)
_UPDATES = {2: "array", 6: "percpu_array", **dict.fromkeys(_HASHES, "hash")}

_HELPERS = (
    _helper(1, "map_lookup_elem", _MAP, _KEY, returns=_VALUE_POINTER, by_map_type=_LOOKUPS),
    _helper(2, "map_update_elem", _MAP, _KEY, _VALUE, _SCALAR, by_map_type=_UPDATES),
    _helper(3, "map_delete_elem", _MAP, _KEY, by_map_type=dict.fromkeys(_HASHES, "hash")),
    _helper(5, "ktime_get_ns"),
    _helper(6, "trace_printk", _memory(2), _SIZE, _SCALAR, _SCALAR, _SCALAR, reads_freely=True),
    _helper(7, "get_prandom_u32"),
    _helper(8, "get_smp_processor_id"),
    _helper(23, "redirect", _SCALAR, _SCALAR, returns=ReturnKind.ACTION),
    _helper(25, "perf_event_output", _CTX, _MAP, _SCALAR, _memory(5), _SIZE, map_types=_PERF),
    _helper(
        28,
        "csum_diff",
        _memory(2, nullable=True),
        _SIZE,
        _memory(4, nullable=True),
        _SIZE,
        _SCALAR,
    ),
    _helper(42, "get_numa_node_id"),
    _helper(44, "xdp_adjust_head", _CTX, _SCALAR, changes_packet=True),
    _helper(
        51,
        "redirect_map",
        _MAP,
        _SCALAR,
        _SCALAR,
        returns=ReturnKind.ACTION,
        by_map_type={14: "devmap", 16: "slots", 17: "slots", 25: "devmap_hash"},
        map_types=_TARGETS,
    ),
    _helper(54, "xdp_adjust_meta", _CTX, _SCALAR, changes_packet=True),
    _helper(65, "xdp_adjust_tail", _CTX, _SCALAR, changes_packet=True),
    _helper(69, "fib_lookup", _CTX, _memory(3, writes=True), _SIZE, _SCALAR),
    _helper(84, "sk_lookup_tcp", *_SOCKET),
    _helper(85, "sk_lookup_udp", *_SOCKET),
    _helper(86, "sk_release", _SCALAR),
    _helper(87, "map_push_elem", _MAP, _VALUE, _SCALAR),
    _helper(88, "map_pop_elem", _MAP, _VALUE_OUT),
    _helper(89, "map_peek_elem", _MAP, _VALUE_OUT),
    _helper(93, "spin_lock", _LOCK, returns=_VOID),
    _helper(94, "spin_unlock", _LOCK, returns=_VOID),
    _helper(99, "skc_lookup_tcp", *_SOCKET),
    _helper(118, "jiffies64"),
    _helper(125, "ktime_get_boot_ns"),
    _helper(130, "ringbuf_output", _MAP, _memory(3), _SIZE, _SCALAR, map_types=_RING),
    _helper(
        131,
        "ringbuf_reserve",
        _MAP,
        _SIZE,
        _SCALAR,
        returns=_MEMORY_POINTER,
        return_size=2,
        map_types=_RING,
    ),
    _helper(132, "ringbuf_submit", _RECORD, _SCALAR, returns=_VOID),
    _helper(133, "ringbuf_discard", _RECORD, _SCALAR, returns=_VOID),
    _helper(134, "ringbuf_query", _MAP, _SCALAR, map_types=_RING),
    _helper(160, "ktime_get_coarse_ns"),
    _helper(
        163,
        "check_mtu",
        _CTX,
        _SCALAR,
        Argument(ArgumentKind.MEM, size_bytes=4, writes=True),
        _SCALAR,
        _SCALAR,
    ),
    _helper(164, "for_each_map_elem", _MAP, _CALLBACK, _CONTEXT, _SCALAR),
    _helper(
        165,
        "snprintf",
        _memory(2, writes=True, nullable=True),
        _SIZE,
        _STRING,
        _memory(5, nullable=True),
        _SIZE,
        reads_freely=True,
    ),
    _helper(
        177,
        "trace_vprintk",
        _memory(2),
        _SIZE,
        _memory(4, nullable=True),
        _SIZE,
        reads_freely=True,
    ),
    _helper(181, "loop", _SCALAR, _CALLBACK, _CONTEXT, _SCALAR),
    _helper(182, "strncmp", _memory(2), _SIZE, _STRING),
    _helper(188, "xdp_get_buff_len", _CTX),
    _helper(189, "xdp_load_bytes", _CTX, _SCALAR, _memory(4, writes=True), _SIZE),
    _helper(190, "xdp_store_bytes", _CTX, _SCALAR, _memory(4), _SIZE),
    _helper(195, "map_lookup_percpu_elem", _MAP, _KEY, _SCALAR, returns=_VALUE_POINTER),
    _helper(197, "dynptr_from_mem", _memory(2, writes=True), _SIZE, _SCALAR, _DYNPTR_OUT),
    _helper(198, "ringbuf_reserve_dynptr", _MAP, _SCALAR, _SCALAR, _DYNPTR_OUT, map_types=_RING),
    _helper(199, "ringbuf_submit_dynptr", _DYNPTR_OUT, _SCALAR, returns=_VOID),
    _helper(200, "ringbuf_discard_dynptr", _DYNPTR_OUT, _SCALAR, returns=_VOID),
    _helper(201, "dynptr_read", _memory(2, writes=True), _SIZE, _DYNPTR, _SCALAR, _SCALAR),
    _helper(202, "dynptr_write", _DYNPTR, _SCALAR, _memory(4), _SIZE, _SCALAR),
    _helper(203, "dynptr_data", _DYNPTR, _SCALAR, _SIZE, returns=_MEMORY_POINTER, return_size=3),
    _helper(208, "ktime_get_tai_ns"),
)

HELPERS: Mapping[int, HelperSpec] = MappingProxyType({spec.number: spec for spec in _HELPERS})
"""Helpers by their number, the immediate of a call instruction."""

_SLICE = (_DYNPTR, _SCALAR, _memory(4, writes=True, nullable=True), _SIZE)

_KFUNCS = (
    _kfunc("bpf_xdp_pull_data", _CTX, _SCALAR, changes_packet=True),
    _kfunc("bpf_dynptr_from_xdp", _CTX, _SCALAR, _DYNPTR_OUT),
    _kfunc("bpf_dynptr_slice", *_SLICE, returns=_MEMORY_POINTER, return_size=4),
    _kfunc("bpf_dynptr_slice_rdwr", *_SLICE, returns=_MEMORY_POINTER, return_size=4),
    _kfunc("bpf_dynptr_adjust", _DYNPTR_OUT, _SCALAR, _SCALAR),
    _kfunc("bpf_dynptr_is_null", _DYNPTR),
    _kfunc("bpf_dynptr_is_rdonly", _DYNPTR),
    _kfunc("bpf_dynptr_size", _DYNPTR),
    _kfunc("bpf_dynptr_clone", _DYNPTR, _DYNPTR_OUT),
    _kfunc("bpf_iter_num_new", _ITERATOR, _SCALAR, _SCALAR),
    _kfunc("bpf_iter_num_next", _ITERATOR, returns=_MEMORY_POINTER, return_bytes=4),
    _kfunc("bpf_iter_num_destroy", _ITERATOR, returns=_VOID),
    *(
        _kfunc(name, returns=_VOID)
        for name in (
            "bpf_rcu_read_lock",
            "bpf_rcu_read_unlock",
            "bpf_preempt_disable",
            "bpf_preempt_enable",
        )
    ),
    # A driver without hardware metadata; the results that it would fill stay as they are.
    _kfunc("bpf_xdp_metadata_rx_timestamp", _CTX, _SCALAR),
    _kfunc("bpf_xdp_metadata_rx_hash", _CTX, _SCALAR, _SCALAR),
    _kfunc("bpf_xdp_metadata_rx_vlan_tag", _CTX, _SCALAR, _SCALAR),
)

KFUNCS: Mapping[str, HelperSpec] = MappingProxyType({spec.name: spec for spec in _KFUNCS})
"""Kfuncs by their name."""
