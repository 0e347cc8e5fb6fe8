"""How fast the user-space engine is, beside ubpf's JIT, the kernel and a C compiler.

    .venv/bin/python benchmarks/engine.py [--rounds 200] [--ubpf PATH/libubpf.so] [--json FILE]

Eight programs (engine.bpf.c) on a frame of 64 bytes, each by
  - the engine in its modes: timed (what `xdplab run` times), timed with helpers inlined, checked,
    counted;
  - ubpf's JIT, where --ubpf names its shared library;
  - the kernel's test run of the attached program, the packet method, where it may be called;
  - native: the same C by the compiler of the package ziglang, for this processor, -O2.

All but the kernel go through the same loop of the runtime, over 64 buffers in turn, and have the
same helpers: native calls the runtime's; ubpf calls, through its table of external functions,
those of the map's type as the engine does, compiled once more with arguments in its order. For
ubpf loads from the context are rewritten to struct user_frame's 64-bit fields, as a kernel rewrites
them, so that packets may lie anywhere. The kernel's figure is the whole of a packet in its test
run, on its one buffer; nothing is subtracted from any figure.

Contenders take turns within a round, in another order each round. A figure is the least time of
all calls of 8000 packets; ratios are of figures of one run. Compiling and reloading are timed on
the program of about 100 instructions, from the object's specification to an address.

ubpf for the comparison: cmake -DCMAKE_BUILD_TYPE=Release -DUBPF_DISABLE_RETPOLINES=ON
-DUBPF_SKIP_EXTERNAL=ON -DBUILD_SHARED_LIBS=ON.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import dataclasses
import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xdplab.engines.base import XDP_DROP, XDP_PASS, XDP_TX, Method, Subject
from xdplab.engines.kernel import KernelEngine
from xdplab.engines.user import BUFFERS, PACKETS
from xdplab.errors import CompileError, UsageError, XdplabError
from xdplab.experiment import Stop
from xdplab.kernel import host
from xdplab.kernel.features import require_kernel_engine
from xdplab.packets.frame import Frame
from xdplab.program import ObjectSpec, compile_object, read_object
from xdplab.program import insn as isa
from xdplab.program.insn import encode
from xdplab.suites.table import Column, Row, Table
from xdplab.user import runtime
from xdplab.user.abi import UserBuffer, UserJob
from xdplab.user.buffer import FrameBuffer
from xdplab.user.cache import ObjectCache
from xdplab.user.calls import call_effects, find_spec
from xdplab.user.flow import find_blocks
from xdplab.user.flow_types import analyse
from xdplab.user.jit import LoadedCode, compile_ir
from xdplab.user.link import DataRef, LinkedProgram, MapRef, link
from xdplab.user.machine import UserObject
from xdplab.user.options import Mode, Options
from xdplab.user.pointer_types import Ctx, MapPointer
from xdplab.user.translate import map_symbol
from xdplab.user.translate_memory import CTX_NUMBERS, CTX_POINTERS
from xdplab.views.terminal import make_console, render

HERE = Path(__file__).resolve().parent
SOURCE = HERE / "engine.bpf.c"
HEADERS = HERE.parent / "src" / "xdplab" / "bpf"

PROGRAMS: Mapping[str, int] = {
    "xdp_drop": XDP_DROP,
    "xdp_parse": XDP_DROP,
    "xdp_array_count": XDP_PASS,
    "xdp_hash_count": XDP_PASS,
    "xdp_load_bytes": XDP_DROP,
    "xdp_checksum": XDP_DROP,
    "xdp_encap": XDP_TX,
    "xdp_filter": XDP_PASS,
}
"""Programs of engine.bpf.c, and what each returns where it did its work."""

COMPILED = "xdp_encap"
"""The program of about 100 instructions."""

TIMED, INLINED, CHECKED, COUNTED = "timed", "inlined", "checked", "counted"
UBPF, KERNEL, NATIVE = "ubpf", "kernel", "native"

OPTIONS: Mapping[str, Options] = {
    TIMED: Options(),
    INLINED: Options(inline_helpers=True),
    CHECKED: Options(Mode.CHECKED),
    COUNTED: Options(Mode.COUNTED),
}

CALLS = 3
"""Calls of a contender each time that it has its turn."""

RELOADS = 10
"""How often in a run the kernel's programs are loaded anew: where they lie changes their time."""

BUDGET = 1 << 62
"""Instructions that checked and counted programs may take in a call: no limit."""

FRAME = Frame(
    bytes(range(12))
    + b"\x08\x00"
    + struct.pack(">BBHHHBBH4B4B", 0x45, 0, 50, 0, 0, 64, 17, 0, 10, 0, 0, 1, 10, 0, 0, 2)
    + struct.pack(">HHHH", 7, 9, 30, 0)
    + bytes(22)
)
"""UDP from 10.0.0.1 to port 9 of 10.0.0.2, 64 bytes."""


@dataclass(frozen=True, slots=True)
class Target:
    """A ratio that is to be met: of the geometric mean, and where `worst` is given of each one."""

    over: str
    under: str
    mean: float | None
    worst: float | None = None


TARGETS = (
    Target(TIMED, UBPF, 0.65, 1.0),
    Target(TIMED, KERNEL, None, 1.0),
    Target(TIMED, NATIVE, 1.5),
    Target(CHECKED, TIMED, 1.4),
    Target(COUNTED, TIMED, 1.6),
)
COMPILE_TARGET_MS = 20.0
RELOAD_TARGET_MS = 2.0


@dataclass(slots=True)
class Figures:
    """What one contender took for one program: the least time of each round, in ns a packet."""

    rounds_ns: list[float] = field(default_factory=list)

    @property
    def best_ns(self) -> float:
        """The least of all rounds."""
        return min(self.rounds_ns)


Call = Callable[[], int]
"""One timed call: nanoseconds for PACKETS packets."""


class Ring:
    """The frame in 64 buffers, and the runtime's loop over them."""

    def __init__(self) -> None:
        self._frames = [FrameBuffer(FRAME, restores=False) for _ in range(BUFFERS)]
        self._ring = (UserBuffer * BUFFERS)(*(one.buffer for one in self._frames))
        self._run = runtime.library().function("user_run", ctypes.c_uint64, ctypes.c_void_p)

    def call(self, owner: UserObject, address: int, action: int, name: str) -> Call:
        """Timed calls of a native program with the maps and the frame of `owner`.

        It runs once first: UsageError where that gives another action or leaves another frame.
        """
        job = UserJob(
            program=address,
            frame=ctypes.addressof(owner.frame),
            buffers=ctypes.addressof(self._ring),
            buffer_count=BUFFERS,
            clock=time.CLOCK_MONOTONIC,
            packets=PACKETS,
        )

        def run() -> int:
            owner.state.budget = BUDGET
            return int(self._run(ctypes.addressof(job)))

        run()
        if job.done != PACKETS or job.actions[action] != PACKETS:
            raise UsageError(f"{name} did not do its work: {list(job.actions)} of each action")
        for one in self._frames:
            data = ctypes.string_at(one.buffer.data, len(FRAME.data))
            if data != FRAME.data:
                raise UsageError(f"{name} left another frame behind than it found")
        return run


class Ubpf:
    """ubpf's JIT on this object's programs."""

    def __init__(self, path: Path) -> None:
        try:
            self._library = ctypes.CDLL(str(path.resolve()))
        except OSError as error:
            raise UsageError(f"loading {path}: {error}") from None
        for name, result, arguments in (
            ("ubpf_create", ctypes.c_void_p, []),
            ("ubpf_register", ctypes.c_int, [ctypes.c_uint, ctypes.c_char_p, ctypes.c_void_p]),
            ("ubpf_load", ctypes.c_int, [ctypes.c_char_p, ctypes.c_uint32, ctypes.c_void_p]),
            ("ubpf_compile", ctypes.c_void_p, [ctypes.c_void_p]),
        ):
            function = getattr(self._library, name)
            function.restype = result
            function.argtypes = [ctypes.c_void_p, *arguments] if arguments else []
        self._adapters: dict[str, LoadedCode] = {}

    def compile(self, owner: UserObject, linked: LinkedProgram) -> int:
        """The address of ubpf's machine code of a program; its VM stays until the process ends."""
        numbers: dict[str, int] = {}
        code = encode(_for_ubpf(owner, linked, numbers))
        machine = self._library.ubpf_create()
        for symbol, number in numbers.items():
            helper = self._adapter(symbol)
            if self._library.ubpf_register(machine, number, symbol.encode(), helper):
                raise UsageError(f"ubpf refused the external function {symbol}")
        said = ctypes.c_char_p()
        address: int | None = None
        if not self._library.ubpf_load(machine, code, len(code), ctypes.byref(said)):
            address = self._library.ubpf_compile(machine, ctypes.byref(said))
        if not address:
            words = (said.value or b"no reason").decode(errors="replace").strip()
            raise UsageError(f"ubpf refused {linked.name}: {words}")
        return int(address)

    def _adapter(self, symbol: str) -> int:
        """A helper with ubpf's order of arguments: the five registers, then the context."""
        if symbol not in self._adapters:
            registers = [f"i64 %r{number}" for number in range(1, 6)]
            ir = (
                f"declare i64 @{symbol}(ptr, i64, i64, i64, i64, i64)\n"
                f"define i64 @program({', '.join(registers)}, ptr %frame) nounwind {{\n"
                f"  %result = call i64 @{symbol}(ptr %frame, {', '.join(registers)})\n"
                "  ret i64 %result\n}\n"
            )
            data = compile_ir(ir, Options(inline_helpers=True, faithful=False))
            self._adapters[symbol] = LoadedCode(data, {})
        return self._adapters[symbol].address


def _for_ubpf(
    owner: UserObject, linked: LinkedProgram, numbers: dict[str, int]
) -> Iterator[isa.Insn]:
    """A program's instructions with addresses filled in; `numbers` gets the helpers it calls."""
    blocks = find_blocks(linked)
    maps = owner.spec.maps
    types = analyse(linked, blocks, call_effects(linked, maps))
    slots = iter(enumerate(linked.insns))
    for slot, insn in slots:
        if insn.is_wide:
            _, second = next(slots)
            match linked.references.get(slot):
                case MapRef(name):
                    value = owner.maps[name].address
                case DataRef(section, offset):
                    value = ctypes.addressof(owner.section(section)) + offset
                case _:
                    value = isa.wide_immediate(insn, second)
            low, high = struct.unpack("<ii", struct.pack("<Q", value))
            yield dataclasses.replace(insn, src=0, imm=low)
            yield dataclasses.replace(second, imm=high)
        elif insn.code == isa.JMP | isa.CALL:
            first = types[slot][1]
            map_type = maps[first.name].type if isinstance(first, MapPointer) else None
            symbol = find_spec(linked, slot, insn).symbol_for(map_type)
            yield dataclasses.replace(insn, imm=numbers.setdefault(symbol, len(numbers) + 1))
        elif insn.insn_class == isa.LDX and isinstance(base := types[slot][insn.src], Ctx):
            offset = base.offset + insn.off
            if offset in CTX_POINTERS:
                code = isa.LDX | isa.MEM | isa.DW
                yield dataclasses.replace(insn, code=code, off=CTX_POINTERS[offset] - base.offset)
            else:
                yield dataclasses.replace(insn, off=CTX_NUMBERS[offset] - base.offset)
        else:
            yield insn


def compile_c(program: str) -> bytes:
    """The source's C as a relocatable object for this processor, one program as its entry."""
    with tempfile.TemporaryDirectory(prefix="xdplab-benchmark-") as scratch:
        output = Path(scratch, "native.o")
        argv = [sys.executable, "-m", "ziglang", "cc", "-O2", "-target", "native", "-c"]
        argv += ["-DNATIVE", f"-D{program}=program", "-fPIC", "-fno-sanitize=all"]
        argv += ["-fno-stack-protector", "-fno-asynchronous-unwind-tables", "-fomit-frame-pointer"]
        argv += ["-fno-strict-aliasing", str(SOURCE), "-o", str(output)]
        caches = {"ZIG_GLOBAL_CACHE_DIR": scratch, "ZIG_LOCAL_CACHE_DIR": scratch}
        done = subprocess.run(
            argv, cwd=scratch, env=os.environ | caches, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise CompileError(f"Compiling {SOURCE} for this machine failed:\n{done.stderr}")
        return output.read_bytes()


class Bench:
    """Every contender with every program, ready to be timed."""

    def __init__(self, spec: ObjectSpec, ubpf: Path | None, exit_stack: contextlib.ExitStack):
        self.spec = spec
        self.calls: dict[tuple[str, str], Call] = {}
        self.instructions: dict[str, int] = {}
        self.missing: dict[str, str] = {}
        self._exit = exit_stack
        self._ring = Ring()
        self._kept: list[object] = []
        self._kernel = self._open_kernel()
        peer = Ubpf(ubpf) if ubpf else None
        if peer is None:
            self.missing[UBPF] = "no --ubpf was given"
        self._kept.append(peer)
        for program, action in PROGRAMS.items():
            for name, options in OPTIONS.items():
                owner = self._object(options)
                self._add(name, program, owner, owner.program(program).address, action)
            linked = link(spec, program)
            self.instructions[program] = len(linked.insns)
            if peer:
                owner = self._object(Options())
                self._add(UBPF, program, owner, peer.compile(owner, linked), action)
            owner = self._object(Options())
            symbols = {map_symbol(name): one.address for name, one in owner.maps.items()}
            code = LoadedCode(compile_c(program), symbols | runtime.library().symbols())
            self._kept.append(code)
            self._add(NATIVE, program, owner, code.address, action)

    def _object(self, options: Options) -> UserObject:
        return self._exit.enter_context(UserObject(self.spec, options))

    def _add(self, name: str, program: str, owner: UserObject, address: int, action: int) -> None:
        call = self._ring.call(owner, address, action, f"{program} by {name}")
        self.calls[program, name] = call

    def _open_kernel(self) -> Any:
        try:
            require_kernel_engine()
        except XdplabError as error:
            self.missing[KERNEL] = str(error)
            return None
        subjects = [
            Subject(name, self.spec, name, FRAME, action=action)
            for name, action in PROGRAMS.items()
        ]
        session = self._exit.enter_context(KernelEngine().open(subjects, Method.PACKET))
        if session.missing:
            self.missing[KERNEL] = "; ".join(session.missing.values())
            return None
        return session

    def reload_kernel(self) -> None:
        """Give the kernel's programs another place."""
        if self._kernel:
            self._kernel.place(list(PROGRAMS))
            for program in PROGRAMS:
                self.calls[program, KERNEL] = self._kernel.timer(program)


class Loading:
    """Milliseconds from a specification to an address: compiled, and from the cache."""

    def __init__(self, folder: Path) -> None:
        self._cache = ObjectCache(folder)
        self.taken_ms: dict[str, list[float]] = {"compile": [], "reload": []}

    def round(self, spec: ObjectSpec) -> None:
        """Time both once; the cache is filled by the first reload, which does not count."""
        for name, cache in (("compile", None), ("reload", self._cache)):
            with UserObject(spec, cache=cache) as owner:
                is_cold = cache is not None and not cache.folder.exists()
                start = time.perf_counter()
                owner.program(COMPILED)
                if not is_cold:
                    self.taken_ms[name].append(1e3 * (time.perf_counter() - start))


def measure(
    bench: Bench, loading: Loading, rounds: int, stop: Stop
) -> dict[tuple[str, str], Figures]:
    """Contenders in turns; the order within a program moves on by one each round."""
    figures: dict[tuple[str, str], Figures] = {}
    for number in range(rounds):
        if stop.asked and number > 1:
            break
        if number % max(1, rounds // RELOADS) == 0:
            bench.reload_kernel()
        for program in PROGRAMS:
            keys = [key for key in bench.calls if key[0] == program]
            start = number % len(keys)
            for key in keys[start:] + keys[:start]:
                call = bench.calls[key]
                best = min(call() for _ in range(CALLS)) / PACKETS
                figures.setdefault(key, Figures()).rounds_ns.append(best)
        loading.round(bench.spec)
    return figures


def ratios(figures: Mapping[tuple[str, str], Figures], over: str, under: str) -> list[float]:
    """The ratio of each program, in order; empty where one of the two was not measured."""
    return [
        figures[program, over].best_ns / figures[program, under].best_ns
        for program in PROGRAMS
        if (program, over) in figures and (program, under) in figures
    ]


def table(bench: Bench, figures: Mapping[tuple[str, str], Figures]) -> Table:
    """Nanoseconds a packet, and the timed engine's ratios to its peers."""
    names = [
        name
        for name in (TIMED, INLINED, CHECKED, COUNTED, UBPF, KERNEL, NATIVE)
        if any(key[1] == name for key in figures)
    ]
    peers = [name for name in (UBPF, KERNEL, NATIVE) if name in names]
    columns = [Column("program"), Column("instructions")]
    columns += [Column(name, "ns") for name in names]
    columns += [Column(f"timed / {name}") for name in peers]
    rows = [
        Row(
            (
                program.removeprefix("xdp_"),
                bench.instructions[program],
                *(f"{figures[program, name].best_ns:.2f}" for name in names),
                *(
                    f"{figures[program, TIMED].best_ns / figures[program, name].best_ns:.2f}"
                    for name in peers
                ),
            )
        )
        for program in PROGRAMS
    ]
    means = (f"{statistics.geometric_mean(ratios(figures, TIMED, name)):.2f}" for name in peers)
    rows.append(Row(("geometric mean", None, *(None for _ in names), *means)))
    rounds = len(next(iter(figures.values())).rounds_ns)
    return Table(
        f"ns per packet of 64 bytes, least of {rounds} rounds of {CALLS} calls",
        tuple(columns),
        rows,
        tuple(f"{name} was not measured: {reason}" for name, reason in bench.missing.items()),
    )


def target_lines(
    figures: Mapping[tuple[str, str], Figures], loading: Mapping[str, Sequence[float]]
) -> Iterator[tuple[str, bool, str]]:
    """For each target: what it is of, whether it is met, and a sentence."""
    for target in TARGETS:
        found = ratios(figures, target.over, target.under)
        if not found:
            continue
        name = f"{target.over}/{target.under}"
        mean = statistics.geometric_mean(found)
        met, wanted = True, []
        if target.mean is not None:
            met = mean <= target.mean
            wanted.append(f"{target.mean:g} in the mean")
        if target.worst is not None:
            met = met and max(found) <= target.worst
            wanted.append(f"{target.worst:g} everywhere")
        worst = list(PROGRAMS)[found.index(max(found))].removeprefix("xdp_")
        yield (
            name,
            met,
            f"{name} {mean:.2f} in the geometric mean, at most {max(found):.2f} ({worst}); "
            f"the target is at most {' and '.join(wanted)}",
        )
    for name, limit in (("compile", COMPILE_TARGET_MS), ("reload", RELOAD_TARGET_MS)):
        taken = loading[name]
        yield (
            name,
            min(taken) <= limit,
            f"{name} {min(taken):.2f} ms, median {statistics.median(taken):.2f}, of "
            f"{COMPILED.removeprefix('xdp_')}; the target is at most {limit:g}",
        )


def main() -> int:
    """Exit code: 0 measured (whatever the ratios), 3 not possible here, 130 stopped."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=200, help="turns of each contender")
    parser.add_argument("--ubpf", type=Path, help="ubpf's shared library, to compare with its JIT")
    parser.add_argument("--json", type=Path, help="write every round's figures to this file")
    arguments = parser.parse_args()
    if arguments.rounds < 2:
        parser.error("--rounds must be 2 or more")
    stop = Stop()
    try:
        with contextlib.ExitStack() as exit_stack, stop.on_signals():
            exit_stack.callback(os.sched_setaffinity, 0, os.sched_getaffinity(0))
            os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
            spec = read_object(compile_object(SOURCE, include=(HEADERS,)), "engine")
            bench = Bench(spec, arguments.ubpf, exit_stack)
            folder = exit_stack.enter_context(tempfile.TemporaryDirectory(prefix="xdplab-"))
            timings = Loading(Path(folder, "programs"))
            figures = measure(bench, timings, arguments.rounds, stop)
            loading = timings.taken_ms
    except XdplabError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    render(table(bench, figures), make_console())
    print()
    lines = list(target_lines(figures, loading))
    for _, met, line in lines:
        print(f"{'PASS' if met else 'short'}: {line}")
    if arguments.json:
        document = {
            "environment": host.environment(),
            "instructions": bench.instructions,
            "missing": bench.missing,
            "rounds_ns": {
                program: {
                    key[1]: figure.rounds_ns for key, figure in figures.items() if key[0] == program
                }
                for program in PROGRAMS
            },
            "loading_ms": loading,
            "targets": {name: {"met": met, "text": line} for name, met, line in lines},
        }
        arguments.json.write_text(json.dumps(document, indent=1) + "\n")
    return 130 if stop.asked else 0


if __name__ == "__main__":
    sys.exit(main())
