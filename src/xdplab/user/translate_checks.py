"""Checks of addresses to LLVM IR: is this memory of that kind, and may it be used?"""

from __future__ import annotations

from xdplab.user.abi import Fault, UserFrame, UserMapStruct
from xdplab.user.map_memory import may_be_written
from xdplab.user.pointer_types import Data, MapValue, Memory, Packet, PacketEnd, Stack, Type
from xdplab.user.translate_ir import FRAME, MEMORY, STACK_BYTES, Emitter
from xdplab.user.translate_scope import Scope

LEAST_PACKET_BYTES = 14
"""The linear part of a packet is never shorter: ETH_HLEN (linux/if_ether.h)."""

_BOUNDS = (
    UserFrame.data.offset,
    UserFrame.data_meta.offset,
    UserFrame.data_end.offset,
)


def stack_bounds(emitter: Emitter) -> tuple[str, str]:
    """Start and end of the function's stack as i64."""
    high = emitter.value("ptrtoint ptr %top to i64")
    return emitter.value(f"sub i64 {high}, {STACK_BYTES}"), high


def check(scope: Scope, kind: Type | None, where: str, size: str, writes: bool) -> None:
    """Fail unless `size` bytes (i64) at `where` (i64) are memory of `kind`'s that may be used."""
    emitter = scope.emitter
    match kind:
        case Packet() | PacketEnd():
            data, meta, high = (emitter.load_field("%frame", at, 64, FRAME) for at in _BOUNDS)
            low = emitter.value(f"call i64 @llvm.umin.i64(i64 {data}, i64 {meta})")
            _inside(scope, Fault.PACKET, where, size, low, high, LEAST_PACKET_BYTES)
        case Stack():
            low, high = stack_bounds(emitter)
            _inside(scope, Fault.STACK, where, size, low, high, STACK_BYTES)
        case Data(section):
            low = emitter.value(f"ptrtoint ptr {scope.section_symbol(section)} to i64")
            high = emitter.value(f"add i64 {low}, {scope.section_bytes[section]}")
            if writes and section.startswith(".rodata"):
                scope.fail(Fault.DATA, where, size, low, high)
                emitter.begin(emitter.new_label("unreached"))
            _inside(scope, Fault.DATA, where, size, low, high, scope.section_bytes[section])
        case Memory(size_bytes, offset):
            _within(scope, Fault.OTHER, where, size, offset, size_bytes)
        case MapValue(name, place):
            if place is None:
                _inside_value(scope, scope.map_symbol(name), where, size)
            else:
                # A lookup answers with a whole value or with NULL.
                start = emitter.value(f"sub i64 {where}, {place}")
                is_value = emitter.value(f"icmp ne i64 {start}, 0")
                scope.require(is_value, Fault.NULL, where, size)
                value_bytes = scope.maps[name].value_size
                _within(scope, Fault.MAP_VALUE, where, size, place, value_bytes)
            if writes and not may_be_written(scope.maps[name]):
                scope.fail(Fault.MAP_VALUE, where, size)
                emitter.begin(emitter.new_label("unreached"))
        case _:
            writes_text = "true" if writes else "false"
            found = emitter.value(
                f"call i1 @search(ptr %frame, i64 {where}, i64 {size}, i1 {writes_text})"
            )
            scope.require(found, Fault.OTHER, where, size)


def _within(scope: Scope, kind: Fault, where: str, size: str, offset: int, size_bytes: int) -> None:
    """What is `offset` into `size_bytes` bytes stays in them."""
    emitter = scope.emitter
    end = emitter.value(f"add i64 {size}, {offset}")
    low = emitter.value(f"sub i64 {where}, {offset}")
    high = emitter.value(f"add i64 {low}, {size_bytes}")
    fits = emitter.value(f"icmp ule i64 {end}, {size_bytes}")
    starts = emitter.value(f"icmp ule i64 {offset}, {end}")
    fine = emitter.value(f"and i1 {fits}, {starts}")
    scope.require(fine, kind, where, size, low, high)


def _inside(
    scope: Scope, kind: Fault, where: str, size: str, low: str, high: str, least: int = 0
) -> None:
    """Between two addresses that are at least `least` bytes apart."""
    emitter = scope.emitter
    if size.isdigit() and int(size) <= least:
        # One comparison does: how far the last place for it is cannot be below nothing.
        ahead = emitter.value(f"sub i64 {where}, {low}")
        span = emitter.value(f"sub i64 {high}, {low}")
        last = emitter.value(f"sub i64 {span}, {size}")
        fits = emitter.value(f"icmp ule i64 {ahead}, {last}")
    else:
        arguments = ", ".join(f"i64 {number}" for number in (where, size, low, high))
        fits = emitter.value(f"call i1 @inside({arguments})")
    scope.require(fits, kind, where, size, low, high)


def _inside_value(scope: Scope, symbol: str, where: str, size: str) -> None:
    """Inside of one value, not only of all: keys and links lie between those of a hash map."""
    emitter = scope.emitter

    def word(offset: int) -> str:
        return emitter.load_field(symbol, offset, 64, MEMORY)

    low = word(UserMapStruct.values.offset)
    high = emitter.value(f"add i64 {low}, {word(UserMapStruct.values_bytes.offset)}")
    _inside(scope, Fault.MAP_VALUE, where, size, low, high)
    ahead = emitter.value(f"sub i64 {where}, {low}")
    stride, copies = word(UserMapStruct.value_stride.offset), word(UserMapStruct.cpu_stride.offset)
    arguments = f"i64 {ahead}, i64 {stride}, i64 {copies}"
    offset = emitter.value(f"call i64 @offset_in_value({arguments})")
    narrow = emitter.load_field(symbol, UserMapStruct.value_bytes.offset, 32, MEMORY)
    value_bytes = emitter.value(f"zext i32 {narrow} to i64")
    end = emitter.value(f"add i64 {offset}, {size}")
    fits = emitter.value(f"icmp ule i64 {end}, {value_bytes}")
    start = emitter.value(f"sub i64 {where}, {offset}")
    value_end = emitter.value(f"add i64 {start}, {value_bytes}")
    scope.require(fits, Fault.MAP_VALUE, where, size, start, value_end)
