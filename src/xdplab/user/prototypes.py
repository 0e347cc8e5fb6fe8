"""Helpers and kfuncs that the runtime has, described as the kernel's bpf_func_proto does.

What a translation needs to follow values, to check memory before a call, and to call. A helper
or kfunc that is not here does not exist in the user-space engine.
"""

from __future__ import annotations

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
    MEM_OR_NULL is memory of the size that `return_size` tells.
    """

    SCALAR = auto()
    VOID = auto()
    MAP_VALUE_OR_NULL = auto()
    MEM_OR_NULL = auto()


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
    number of the argument with the size of the returned memory. `changes_packet`: pointers into
    the packet are void after the call.
    """

    number: int
    name: str
    symbol: str
    arguments: tuple[Argument, ...]
    returns: ReturnKind = ReturnKind.SCALAR
    return_size: int | None = None
    changes_packet: bool = False
    by_map_type: Mapping[int, str] = field(default_factory=dict)

    def symbol_for(self, map_type: int | None) -> str:
        """The function to call for a map of this type, None where it is not known."""
        return self.symbol if map_type is None else self.by_map_type.get(map_type, self.symbol)


_CTX = Argument(ArgumentKind.CTX)
_MAP = Argument(ArgumentKind.MAP)
_KEY = Argument(ArgumentKind.MAP_KEY)
_VALUE = Argument(ArgumentKind.MAP_VALUE)
_SCALAR = Argument(ArgumentKind.SCALAR)
_SIZE = Argument(ArgumentKind.SIZE)


def _memory(size: int, *, writes: bool = False, nullable: bool = False) -> Argument:
    return Argument(ArgumentKind.MEM, size_argument=size, writes=writes, nullable=nullable)


def _helper(
    number: int,
    name: str,
    *arguments: Argument,
    returns: ReturnKind = ReturnKind.SCALAR,
    return_size: int | None = None,
    changes_packet: bool = False,
    by_map_type: Mapping[int, str] | None = None,
) -> HelperSpec:
    types = {key: f"user_helper_{name}_{end}" for key, end in (by_map_type or {}).items()}
    return HelperSpec(
        number,
        name,
        f"user_helper_{name}",
        arguments,
        returns,
        return_size,
        changes_packet,
        MappingProxyType(types),
    )


_LOOKUPS = {
    1: "hash",
    2: "array",
    5: "percpu_hash",
    6: "percpu_array",
    9: "lru_hash",
    10: "lru_hash",
}

_HELPERS = (
    _helper(
        1,
        "map_lookup_elem",
        _MAP,
        _KEY,
        returns=ReturnKind.MAP_VALUE_OR_NULL,
        by_map_type=_LOOKUPS,
    ),
    _helper(2, "map_update_elem", _MAP, _KEY, _VALUE, _SCALAR),
    _helper(3, "map_delete_elem", _MAP, _KEY),
    _helper(44, "xdp_adjust_head", _CTX, _SCALAR, changes_packet=True),
    _helper(54, "xdp_adjust_meta", _CTX, _SCALAR, changes_packet=True),
    _helper(65, "xdp_adjust_tail", _CTX, _SCALAR, changes_packet=True),
    _helper(188, "xdp_get_buff_len", _CTX),
    _helper(189, "xdp_load_bytes", _CTX, _SCALAR, _memory(4, writes=True), _SIZE),
    _helper(190, "xdp_store_bytes", _CTX, _SCALAR, _memory(4), _SIZE),
)

HELPERS: Mapping[int, HelperSpec] = MappingProxyType({spec.number: spec for spec in _HELPERS})
"""Helpers by their number, the immediate of a call instruction."""

KFUNCS: Mapping[str, HelperSpec] = MappingProxyType(
    {
        "bpf_xdp_pull_data": HelperSpec(
            -1,
            "bpf_xdp_pull_data",
            "user_helper_xdp_pull_data",
            (_CTX, _SCALAR),
            changes_packet=True,
        )
    }
)
"""Kfuncs by their name."""
