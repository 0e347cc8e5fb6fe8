"""Calls to LLVM IR: subprograms, helpers, kfuncs and tail calls, and checks of arguments."""

from __future__ import annotations

from xdplab.errors import MissingFeatureError
from xdplab.program.insn import Insn
from xdplab.user.abi import Fault, UserMapStruct, UserState
from xdplab.user.calls import DYNPTR_BYTES, find_spec
from xdplab.user.link import FunctionRef
from xdplab.user.pointer_types import (
    Callback,
    Ctx,
    Data,
    MapPointer,
)
from xdplab.user.prototypes import (
    Argument,
    ArgumentKind,
    HelperSpec,
)
from xdplab.user.translate_checks import check
from xdplab.user.translate_ir import MEMORY, STATE
from xdplab.user.translate_scope import Scope
from xdplab.user.translate_support import MAY_READ

TAIL_CALLS = 33
"""MAX_TAIL_CALL_CNT (include/linux/bpf.h)."""

_MAKES_DYNPTR = frozenset(
    {
        ("dynptr_from_mem", 4),
        ("ringbuf_reserve_dynptr", 4),
        ("bpf_dynptr_from_xdp", 3),
        ("bpf_dynptr_clone", 2),
    }
)
"""Helpers with the number of the argument that is no dynptr before the call."""

_RECORD_HEADER_BYTES = 8
"""BPF_RINGBUF_HDR_SZ: what lies before a ring buffer's record."""


def emit_call(scope: Scope, insn: Insn) -> None:
    """A call that comes back: of a function of the program, a helper or a kfunc."""
    emitter = scope.emitter
    reference = scope.program.references.get(scope.slot)
    if isinstance(reference, FunctionRef):
        arguments = [f"i64 {emitter.get(number)}" for number in range(1, 6)]
        emitter.put(0, emitter.call(f"@sub{reference.start}", ["ptr %frame", *arguments]))
    else:
        try:
            spec = find_spec(scope.program, scope.slot, insn)
        except MissingFeatureError:
            # The program looked for it and knows that it is not there.
            emitter.put(0, 0)
            return
        if scope.options.checks:
            for number, argument in enumerate(spec.arguments, 1):
                _check_argument(scope, number, argument, spec)
        first = scope.type_of(1)
        map_type = scope.maps[first.name].type if isinstance(first, MapPointer) else None
        symbol = spec.symbol_for(map_type)
        asks = scope.options.checks and spec.reads_freely
        if asks:
            symbol = spec.checked_symbol
        scope.symbols.functions.add(symbol)
        # C takes no notice of arguments that it has no name for; only what is linked together
        # must agree on their number.
        count = 5 if scope.options.inline_helpers or asks else len(spec.arguments)
        arguments = [f"i64 {emitter.get(number)}" for number in range(1, count + 1)]
        asked = [f"ptr @{MAY_READ}"] if asks else []
        emitter.put(0, emitter.call(f"@{symbol}", ["ptr %frame", *arguments, *asked]))
    if scope.options.guards:
        _leave_after_fault(scope)


def _leave_after_fault(scope: Scope) -> None:
    emitter = scope.emitter
    fault = emitter.load_field("%state", UserState.fault.offset, 32, STATE)
    none = emitter.value(f"icmp eq i32 {fault}, 0")
    fine = emitter.new_label("fine")
    emitter.branch(none, fine, "out", likely=True)
    emitter.begin(fine)


def emit_tail_call(scope: Scope, next_slot: int) -> None:
    """bpf_tail_call: ends the block. Where it cannot be done the program goes on at `next_slot`."""
    emitter = scope.emitter
    onward = f"b{next_slot}"
    if scope.options.checks:
        _check_map(scope, 2)
    table = emitter.value(f"inttoptr i64 {emitter.get(2)} to ptr")
    index = emitter.get(3, 32)
    count = emitter.load_field(table, UserMapStruct.max_entries.offset, 32, MEMORY)
    kind = emitter.load_field(table, UserMapStruct.type.offset, 32, MEMORY)
    in_range = emitter.value(f"icmp ult i32 {index}, {count}")
    is_programs = emitter.value(f"icmp eq i32 {kind}, 3")
    possible = emitter.value(f"and i1 {in_range}, {is_programs}")
    look, go = emitter.new_label("look"), emitter.new_label("go")
    emitter.branch(possible, look, onward)
    emitter.begin(look)
    calls = emitter.load_field("%state", UserState.tail_calls.offset, 32, STATE)
    values = emitter.load_field(table, UserMapStruct.values.offset, 64, MEMORY)
    start = emitter.value(f"inttoptr i64 {values} to ptr")
    wide = emitter.value(f"zext i32 {index} to i64")
    target = emitter.value(f"getelementptr i64, ptr {start}, i64 {wide}")
    native = emitter.value(f"load i64, ptr {target}, {MEMORY}")
    is_there = emitter.value(f"icmp ne i64 {native}, 0")
    is_allowed = emitter.value(f"icmp ult i32 {calls}, {TAIL_CALLS}")
    emitter.branch(emitter.value(f"and i1 {is_there}, {is_allowed}"), go, onward)
    emitter.begin(go)
    more = emitter.value(f"add i32 {calls}, 1")
    counter = emitter.field("%state", UserState.tail_calls.offset)
    emitter.do(f"store i32 {more}, ptr {counter}, {STATE}")
    function = emitter.value(f"inttoptr i64 {native} to ptr")
    if scope.options.guards:
        emitter.do("store i32 %depth, ptr @depth")
    # The entry has its successor's type and gives its own frame up, so that chains use no stack.
    verb = "musttail call" if scope.is_entry and not scope.options.guards else "call"
    result = emitter.value(f"{verb} i64 {function}(ptr %frame)")
    emitter.do(f"ret i64 {result}")


def _check_map(scope: Scope, number: int) -> None:
    if not isinstance(scope.type_of(number), MapPointer):
        known = scope.emitter.value(f"call i1 @is_map(i64 {scope.emitter.get(number)})")
        scope.require(known, Fault.HELPER, scope.emitter.get(number))


def _check_map_type(scope: Scope, number: int, types: tuple[int, ...]) -> None:
    """Fail for a map of a type that the helper does not take and does not look at itself."""
    emitter = scope.emitter
    struct = emitter.value(f"inttoptr i64 {emitter.get(number)} to ptr")
    found = emitter.load_field(struct, UserMapStruct.type.offset, 32, MEMORY)
    fine = "false"
    for wanted in types:
        same = emitter.value(f"icmp eq i32 {found}, {wanted}")
        fine = emitter.value(f"or i1 {fine}, {same}")
    scope.require(fine, Fault.HELPER, emitter.get(number))


def _check_argument(scope: Scope, number: int, argument: Argument, spec: HelperSpec) -> None:
    emitter = scope.emitter
    kind = scope.type_of(number)
    match argument.kind:
        case ArgumentKind.CTX:
            if kind != Ctx(0):
                frame = emitter.value("ptrtoint ptr %frame to i64")
                given = emitter.get(number)
                same = emitter.value(f"icmp eq i64 {given}, {frame}")
                scope.require(same, Fault.HELPER, given)
        case ArgumentKind.MAP:
            _check_map(scope, number)
            if spec.map_types:
                _check_map_type(scope, number, spec.map_types)
        case ArgumentKind.CALLBACK:
            if not isinstance(kind, Callback):
                scope.fail(Fault.HELPER, emitter.get(number))
                emitter.begin(emitter.new_label("unreached"))
        case ArgumentKind.STRING:
            # Sections are laid out with a zero behind them: a string in one ends there.
            if isinstance(kind, Data):
                check(scope, kind, emitter.get(number), "1", writes=False)
            else:
                scope.fail(Fault.HELPER, emitter.get(number))
                emitter.begin(emitter.new_label("unreached"))
        case ArgumentKind.DYNPTR:
            _check_memory(scope, number, str(DYNPTR_BYTES), argument)
            if (spec.name, number) not in _MAKES_DYNPTR:
                given = emitter.get(number)
                sound = emitter.value(f"call i1 @is_dynptr(ptr %frame, i64 {given})")
                scope.require(sound, Fault.HELPER, given)
        case ArgumentKind.RINGBUF_MEM:
            header = emitter.value(f"sub i64 {emitter.get(number)}, {_RECORD_HEADER_BYTES}")
            check(scope, None, header, str(_RECORD_HEADER_BYTES), writes=True)
        case ArgumentKind.SPIN_LOCK:
            _check_memory(scope, number, "4", argument)
        case ArgumentKind.MAP_KEY | ArgumentKind.MAP_VALUE:
            _check_memory(scope, number, _map_bytes(scope, number, argument, spec), argument)
        case ArgumentKind.MEM:
            if argument.size_argument is not None:
                size = emitter.get(argument.size_argument)
            else:
                size = str(argument.size_bytes or 0)
            _check_memory(scope, number, size, argument)


def _map_bytes(scope: Scope, number: int, argument: Argument, spec: HelperSpec) -> str:
    """The size of a key or a value of the map in the nearest earlier argument."""
    emitter = scope.emitter
    is_key = argument.kind is ArgumentKind.MAP_KEY
    register = max(
        place
        for place, other in enumerate(spec.arguments[: number - 1], 1)
        if other.kind is ArgumentKind.MAP
    )
    kind = scope.type_of(register)
    if isinstance(kind, MapPointer):
        found = scope.maps[kind.name]
        return str(found.key_size if is_key else found.value_size)
    struct = emitter.value(f"inttoptr i64 {emitter.get(register)} to ptr")
    offset = UserMapStruct.key_bytes.offset if is_key else UserMapStruct.value_bytes.offset
    return emitter.value(f"zext i32 {emitter.load_field(struct, offset, 32, MEMORY)} to i64")


def _check_memory(scope: Scope, number: int, size: str, argument: Argument) -> None:
    emitter = scope.emitter
    where = emitter.get(number)
    done, looked_at = emitter.new_label("done"), emitter.new_label("check")
    nothing = emitter.value(f"icmp eq i64 {size}, 0")
    if argument.nullable and argument.size_argument is None:
        is_null = emitter.value(f"icmp eq i64 {where}, 0")
        nothing = emitter.value(f"or i1 {nothing}, {is_null}")
    emitter.branch(nothing, done, looked_at)
    emitter.begin(looked_at)
    writes = argument.writes
    check(scope, scope.type_of(number), where, size, writes)
    emitter.do(f"br label %{done}")
    emitter.begin(done)
