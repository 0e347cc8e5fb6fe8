"""Operations on traits in BPF, on the kernel and in the user-space engine, and what a dict answers.

A sequence is performed on one packet, up to 64 operations a run of operations.bpf.c; after each of
them the whole area is looked at. benchmarks/traits_model.py does the same for as long as one likes.
"""

from __future__ import annotations

import errno
import random
import struct
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

from xdplab import traits
from xdplab.kernel.libbpf import LoadedObject
from xdplab.kernel.testrun import TestRun
from xdplab.packets.frame import MAXIMUM_METADATA_BYTES, Frame
from xdplab.program import ObjectSpec, compile_object, read_object
from xdplab.user.machine import UserObject
from xdplab.user.options import Mode, Options

OPS = 64
_OP = struct.Struct("<6IQ")
_RESULT = struct.Struct(f"<qQ{MAXIMUM_METADATA_BYTES}s")
_UNTOUCHED = b"\x5a" * 8
"""What the buffer of a get holds before it."""

CONSTANT_KEYS = (0, 1, 30, 31, 32, 33, 62, 63, 64)
"""Keys that operations.bpf.c has code of its own for; 64 is none."""


class Kind(IntEnum):
    """As in operations.bpf.c."""

    SET = 0
    GET = 1
    DEL = 2
    IS_SET = 3


class Compiled(IntEnum):
    """What the compiler knows: nothing, the length, the key as well if it is a constant one."""

    VARIABLE = 0
    CONSTANT_LENGTH = 1
    CONSTANT_KEY = 2


class Op(NamedTuple):
    """One call; `value_bytes` is the value's length of a set and the buffer's of a get."""

    kind: Kind
    key: int
    value_bytes: int = 8
    value: int = 0
    flags: int = 0
    compiled: Compiled = Compiled.VARIABLE

    def packed(self) -> bytes:
        """As struct op."""
        return _OP.pack(
            self.kind, self.key, self.value_bytes, self.flags, self.compiled, 0, self.value
        )


class Answer(NamedTuple):
    """What a call returned, and the eight bytes of a get's buffer."""

    returned: int
    buffer: bytes


class Run(NamedTuple):
    """What came of a list of operations: answers, the area after each, the frame at the end."""

    answers: list[Answer]
    areas: list[bytes]
    data: bytes


@dataclass
class Model:
    """Traits as a dict: docs/traits.md in Python."""

    area_bytes: int
    values: dict[int, bytes] = field(default_factory=dict)

    def perform(self, op: Op) -> Answer:
        """What the operation answers; its effect is in `values`."""
        if op.key >= traits.KEYS:
            return self._no(errno.EINVAL)
        stored = self.values.get(op.key)
        match op.kind:
            case Kind.SET:
                return Answer(self._set(op, stored), _UNTOUCHED)
            case Kind.IS_SET:
                return Answer(int(stored is not None), _UNTOUCHED)
        if stored is None:
            return self._no(errno.ENOENT)
        if op.kind is Kind.DEL:
            del self.values[op.key]
            return Answer(0, _UNTOUCHED)
        if len(stored) > op.value_bytes:
            return self._no(errno.ENOSPC)
        return Answer(len(stored), stored + _UNTOUCHED[len(stored) :])

    def _set(self, op: Op, stored: bytes | None) -> int:
        if op.flags or op.value_bytes not in traits.VALUE_BYTES:
            return -errno.EINVAL
        value = (op.value % (1 << 8 * op.value_bytes)).to_bytes(op.value_bytes, "little")
        if stored is not None and len(stored) != len(value):
            return -errno.EBUSY
        if stored is None and self.used_bytes + len(value) > self.area_bytes:
            return -errno.ENOSPC
        self.values[op.key] = value
        return 0

    @property
    def used_bytes(self) -> int:
        """Header and values."""
        return traits.HEADER_BYTES + sum(map(len, self.values.values()))

    @staticmethod
    def _no(error: int) -> Answer:
        return Answer(-error, _UNTOUCHED)


class Machines:
    """operations.bpf.c in the kernel (where it may be) and in the user-space engine."""

    def __init__(self, stack: ExitStack, *, in_kernel: bool) -> None:
        spec = operations_object()
        self.user = {
            mode.value: stack.enter_context(UserObject(spec, Options(mode)))
            for mode in (Mode.TIMED, Mode.CHECKED)
        }
        self.kernel = stack.enter_context(LoadedObject(spec)) if in_kernel else None

    def perform(self, frame: Frame, ops: Sequence[Op]) -> dict[str, Run]:
        """What came of the operations, up to OPS of them, by machine."""
        found = {}
        packed = b"".join(op.packed() for op in ops).ljust(_OP.size * OPS, b"\0")
        for name, owner in self.user.items():
            owner.memory_of("ops").raw = packed
            owner.write("op_count", len(ops))
            outcome = owner.program("perform_ops").run(frame)
            assert outcome.fault is None, outcome.fault
            assert len(outcome.metadata) == len(frame.metadata)
            found[name] = _run(owner.memory_of("results").raw, frame, len(ops), outcome.data)
        if self.kernel is not None:
            self.kernel.memory_of("ops").raw = packed
            self.kernel.memory_of("op_count").raw = len(ops).to_bytes(4, "little")
            data = run_in_kernel(self.kernel, "perform_ops", frame)
            results = self.kernel.memory_of("results").raw
            found["kernel"] = _run(results, frame, len(ops), data[len(frame.metadata) :])
        return found


def operations_object() -> ObjectSpec:
    """operations.bpf.c, compiled; CompileError where there is no compiler."""
    source = Path(__file__).with_name("operations.bpf.c")
    return read_object(compile_object(source, include=[traits.include_folder()]), "operations")


def run_in_kernel(loaded: LoadedObject, program: str, frame: Frame) -> bytes:
    """Metadata and data behind a test run of the program."""
    meta = len(frame.metadata)
    ctx = struct.pack("<6I", meta, meta + len(frame.data), 0, 0, 0, 0)
    return TestRun(loaded.prog_fd(program), frame.metadata + frame.data, ctx).outcome().data


def _run(results: bytes, frame: Frame, count: int, data: bytes) -> Run:
    answers, areas = [], []
    for returned, value, area in list(_RESULT.iter_unpack(results))[:count]:
        answers.append(Answer(returned, value.to_bytes(8, "little")))
        areas.append(area[: len(frame.metadata)])
    return Run(answers, areas, data)


def differences(
    machines: Machines, frame: Frame, values: dict[int, bytes], ops: Sequence[Op]
) -> Iterator[str]:
    """Where a machine did not do as the dict does, on a frame whose area has these values."""
    model = Model(len(frame.metadata), dict(values))
    expected = []
    for op in ops:
        answer = model.perform(op)
        # The bytes of what is set, to the last; those behind it may be any.
        used = traits.encode(model.values)[: model.used_bytes] if frame.metadata else b""
        expected.append((answer, used[: model.area_bytes]))
    for name, run in machines.perform(frame, ops).items():
        for number, ((answer, used), op) in enumerate(zip(expected, ops, strict=True)):
            if run.answers[number] != answer:
                yield f"{name}, {number}: {op} answered {run.answers[number]}, not {answer}"
            if run.areas[number][: len(used)] != used:
                yield f"{name}, {number}: {op} left {run.areas[number].hex()}, not {used.hex()}"
        if run.data != frame.data:
            yield f"{name}: the packet's own bytes changed"


def random_case(pick: random.Random, count: int) -> tuple[Frame, dict[int, bytes], list[Op]]:
    """A frame with random traits, those traits, and operations that hit and miss them."""
    area_bytes = pick.choice((16, 20, 64, 216, 4 * pick.randint(4, MAXIMUM_METADATA_BYTES // 4)))
    keys = pick.sample(range(traits.KEYS), pick.choice((2, 6, 12, 30, 64)))
    keys += [pick.choice(CONSTANT_KEYS[:-1])]
    values: dict[int, bytes] = {}
    left = area_bytes - traits.HEADER_BYTES
    # Of one length as often as mixed; full to the last byte as often as not.
    lengths = pick.choice((traits.VALUE_BYTES, (8,), (4,), (2,)))
    for key in keys[: pick.randint(0, len(keys))]:
        length = pick.choice(lengths)
        if key not in values and length <= left:
            values[key] = pick.randbytes(length)
            left -= length
    used = traits.HEADER_BYTES + sum(map(len, values.values()))
    area = traits.encode(values, used) + pick.randbytes(area_bytes - used)
    ops = [_random_op(pick, keys, lengths) for _ in range(count)]
    return Frame(pick.randbytes(64), area), values, ops


def _random_op(pick: random.Random, keys: Sequence[int], lengths: Sequence[int]) -> Op:
    kind = pick.choices((Kind.SET, Kind.GET, Kind.DEL, Kind.IS_SET), (5, 3, 4, 1))[0]
    key = pick.choice(keys)
    compiled = pick.choice(tuple(Compiled))
    if compiled is Compiled.CONSTANT_KEY:
        key = pick.choice(CONSTANT_KEYS)
    elif pick.random() < 0.02:
        key = pick.choice((64, 65, 255, 1 << 31, (1 << 32) - 1))
    length = pick.choice(lengths)
    if pick.random() < 0.1:
        length = pick.choice((0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 1 << 31))
    flags = 1 if pick.random() < 0.02 else 0
    return Op(kind, key, length, pick.getrandbits(64), flags, compiled)


@contextmanager
def machines(*, in_kernel: bool) -> Iterator[Machines]:
    """Machines that are given up when the block is left."""
    with ExitStack() as stack:
        yield Machines(stack, in_kernel=in_kernel)
