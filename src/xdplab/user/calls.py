"""Which helper or kfunc an instruction calls, and what that does to types."""

from __future__ import annotations

from collections.abc import Mapping

from xdplab.errors import MissingFeatureError
from xdplab.program.insn import Insn
from xdplab.program.spec import MapSpec
from xdplab.user.flow import is_tail_call
from xdplab.user.link import ExternRef, LinkedProgram
from xdplab.user.pointer_types import (
    CallEffect,
    CallEffects,
    Constant,
    MapPointer,
    MapValue,
    Memory,
    Type,
    Types,
)
from xdplab.user.prototypes import HELPERS, KFUNCS, Argument, ArgumentKind, HelperSpec, ReturnKind

DYNPTR_BYTES = 16
"""sizeof(struct bpf_dynptr)."""

_MAPS_OF_MAPS = frozenset((12, 13))
"""BPF_MAP_TYPE_ARRAY_OF_MAPS, BPF_MAP_TYPE_HASH_OF_MAPS."""


def find_spec(program: LinkedProgram, slot: int, insn: Insn) -> HelperSpec:
    """The description of the helper or kfunc that is called at `slot`.

    MissingFeatureError where the user-space engine has none.
    """
    reference = program.references.get(slot)
    if isinstance(reference, ExternRef):
        if reference.name in KFUNCS:
            return KFUNCS[reference.name]
        feature, shown = reference.name, f"kfunc {reference.name}"
    else:
        if insn.src == 0 and insn.imm in HELPERS:
            return HELPERS[insn.imm]
        feature, shown = f"helper {insn.imm}", f"helper {insn.imm}"
    raise MissingFeatureError(
        feature,
        f"Translating {program.place(slot)}: it calls {shown}, which the user-space engine "
        "does not have. Run it on the kernel engine",
    )


def is_optional(program: LinkedProgram, slot: int) -> bool:
    """Whether the call at `slot` is of a weak kfunc whose presence the program looks at first."""
    called = program.references.get(slot)
    return (
        isinstance(called, ExternRef)
        and called.weak
        and any(
            reference == called and program.insns[other].is_wide
            for other, reference in program.references.items()
        )
    )


def call_effects(program: LinkedProgram, maps: Mapping[str, MapSpec]) -> CallEffects:
    """What calls do to types, for flow_types.analyse."""

    def effect(slot: int, insn: Insn, types: Types) -> CallEffect:
        if is_tail_call(insn):
            return CallEffect()
        try:
            spec = find_spec(program, slot, insn)
        except MissingFeatureError:
            if is_optional(program, slot):
                return CallEffect()
            raise
        kinds = [argument.kind for argument in spec.arguments]
        is_loop = ArgumentKind.CALLBACK in kinds
        return CallEffect(
            result=_result(spec, types[1], maps),
            writes=tuple(
                (number, _written_bytes(argument, types))
                for number, argument in enumerate(spec.arguments, 1)
                if argument.writes or argument.kind is ArgumentKind.DYNPTR
            ),
            callback=kinds.index(ArgumentKind.CALLBACK) + 1 if is_loop else None,
            callback_arguments=_callback_arguments(spec, types[1], maps),
        )

    return effect


def _result(spec: HelperSpec, first: Type | None, maps: Mapping[str, MapSpec]) -> Type | None:
    if spec.returns is not ReturnKind.MAP_VALUE_OR_NULL or not isinstance(first, MapPointer):
        return None
    return None if maps[first.name].type in _MAPS_OF_MAPS else MapValue(first.name, 0)


def _callback_arguments(
    spec: HelperSpec, first: Type | None, maps: Mapping[str, MapSpec]
) -> tuple[Type | None, ...]:
    """A callback of bpf_for_each_map_elem gets the map, a key and its value; others numbers."""
    if spec.name != "for_each_map_elem" or not isinstance(first, MapPointer):
        return (None,) * 5
    return first, Memory(maps[first.name].key_size), MapValue(first.name, 0), None, None


def _written_bytes(argument: Argument, types: Types) -> int | None:
    if argument.kind is ArgumentKind.DYNPTR:
        return DYNPTR_BYTES
    if argument.size_argument is not None:
        size = types[argument.size_argument]
        return size.value if isinstance(size, Constant) else None
    return argument.size_bytes
