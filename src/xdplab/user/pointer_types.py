"""What a register or a stack slot may hold, as far as the translation cares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from xdplab.program.insn import Insn

MASK64 = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Ctx:
    """The context, `offset` bytes into struct xdp_md."""

    offset: int = 0


@dataclass(frozen=True, slots=True)
class MaybeCtx:
    """The context on some path, or anything else."""


@dataclass(frozen=True, slots=True)
class Stack:
    """`offset` bytes from this function's r10 (0 or below), None where it varies."""

    offset: int | None


@dataclass(frozen=True, slots=True)
class Packet:
    """`offset` bytes from the packet's start, None where it varies or counts from metadata."""

    offset: int | None


@dataclass(frozen=True, slots=True)
class PacketEnd:
    """The end of the packet's linear part."""


@dataclass(frozen=True, slots=True)
class MapPointer:
    """A map itself, as helpers take it."""

    name: str


@dataclass(frozen=True, slots=True)
class MapValue:
    """`offset` bytes into a value of a map, None where it varies, or so far behind NULL."""

    name: str
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Memory:
    """`offset` bytes into `size_bytes` bytes that a helper lent, such as a callback's key."""

    size_bytes: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Data:
    """Somewhere in a data section."""

    section: str


@dataclass(frozen=True, slots=True)
class Callback:
    """The function that starts at slot `start`."""

    start: int


@dataclass(frozen=True, slots=True)
class Constant:
    """A number that is the same on all paths, 0 to 2**64 - 1."""

    value: int


Type = (
    Ctx
    | MaybeCtx
    | Stack
    | Packet
    | PacketEnd
    | MapPointer
    | MapValue
    | Memory
    | Data
    | Callback
    | Constant
)
Types = tuple[Type | None, ...]
"""By register, r0 to r10; None is unknown, but never the context."""


@dataclass(frozen=True, slots=True)
class CallEffect:
    """What a helper or kfunc does to types, given those of r1 to r5 (by register number).

    `result` is the type of r0. `writes` has, for each argument through which memory may be written,
    its number and how many bytes at most, None where that is not known.
    `callback` is the number of the argument that is a function of the program, which then gets
    `callback_arguments` in r1 to r5.
    """

    result: Type | None = None
    writes: tuple[tuple[int, int | None], ...] = ()
    callback: int | None = None
    callback_arguments: tuple[Type | None, ...] = (None,) * 5


CallEffects = Callable[[int, Insn, Types], CallEffect]
"""Tells the effect of the helper or kfunc call at a slot."""


def join(one: Type | None, other: Type | None) -> Type | None:
    """What holds of a value that is `one` on some paths and `other` on the rest."""
    if one == other:
        return one
    if isinstance(one, Ctx | MaybeCtx) or isinstance(other, Ctx | MaybeCtx):
        return MaybeCtx()
    if isinstance(one, Stack) and isinstance(other, Stack):
        return Stack(None)
    if isinstance(one, Packet) and isinstance(other, Packet):
        return Packet(None)
    if isinstance(one, MapValue) and isinstance(other, MapValue) and one.name == other.name:
        return MapValue(one.name)
    return None


def shift(type: Type | None, distance: int | None) -> Type | None:
    """`type` after adding `distance`, None for a number that is not known."""
    match type:
        case Ctx(offset):
            return Ctx(offset + distance) if distance is not None else MaybeCtx()
        case Memory(size_bytes, offset):
            return Memory(size_bytes, offset + distance) if distance is not None else None
        case Stack(offset) | Packet(offset) | MapValue(_, offset):
            known = distance is not None and offset is not None
            return replace(type, offset=offset + distance if known else None)  # type: ignore[operator]
        case PacketEnd():
            return Packet(None)
        case Constant(value):
            return Constant((value + distance) & MASK64) if distance is not None else None
        case Data() | MaybeCtx():
            return type
        case _:
            return None
