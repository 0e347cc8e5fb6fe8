"""Damaged object files in checked mode: never a crash of the process, never a hang.

    .venv/bin/python benchmarks/fuzz_objects.py [--objects N] [--seed S] [--seconds T]

Each object is the package's own or one of the tests' with bytes of instructions flipped, functions
spliced, fields of map definitions and relocations changed, or bytes of the file. It is read,
one of its programs is linked, translated and compiled in checked mode, and gets three packets,
after which its maps are read. That happens in a worker process, which tells what it is about to do:
where it dies (a crash), or a step on an object takes more than 2 s of the clock (a hang), the
seed is printed and another one takes over. `--one SEED` does one object in this process.

Exits 1 where there was a crash, a hang, or an exception that is none of xdplab's.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.user.sources import CHECKS, SOURCE
from tests.user.test_objects import random_frame
from xdplab.errors import ObjectError, XdplabError
from xdplab.program import ObjectSpec, compile_object, read_object
from xdplab.program import insn as isa
from xdplab.program.insn import decode, encode
from xdplab.program.shipped import shipped_object
from xdplab.program.spec import MapSpec, ProgramSpec, Relocation
from xdplab.user.machine import UserObject
from xdplab.user.maps import PERF_EVENT_ARRAY, RINGBUF, UserMap
from xdplab.user.options import Mode, Options
from xdplab.user.prototypes import HELPERS

HANG_S = 2.0
PACKETS = 3
READ_BYTES = 1 << 20
"""Values that are larger are not read from outside, which takes as long as they are large."""
SHIPPED = ("adjust_head", "packet_access", "calibrate")
MAP_TYPES = (1, 2, 3, 4, 5, 6, 9, 10, 11, 12, 13, 14, 16, 17, 22, 23, 25, 27, 30)
NUMBERS = (0, 1, 2, 3, 4, 7, 8, 16, 20, 64, 255, 256, 4096, 65535, 65536, 1 << 20, (1 << 31) - 1,
           1 << 31, (1 << 32) - 1)  # fmt: skip

HELPER_SOURCE = r"""
#include <linux/bpf.h>
#define SEC(name) __attribute__((section(name), used))
#define __uint(name, value) int (*name)[value]
#define __type(name, type_) typeof(type_) *name
static void *(*const lookup)(void *, const void *) = (void *)1;
static long (*const update)(void *, const void *, const void *, __u64) = (void *)2;
static long (*const erase)(void *, const void *) = (void *)3;
static long (*const printk)(const char *, unsigned, ...) = (void *)6;
static long (*const output)(void *, void *, __u64, void *, __u64) = (void *)25;
static long (*const redirect_map)(void *, __u64, __u64) = (void *)51;
static long (*const adjust_head)(void *, int) = (void *)44;
static long (*const push)(void *, const void *, __u64) = (void *)87;
static long (*const pop)(void *, void *) = (void *)88;
static void *(*const reserve)(void *, __u64, __u64) = (void *)131;
static void (*const submit)(void *, __u64) = (void *)132;
static long (*const each)(void *, void *, void *, __u64) = (void *)164;
static long (*const print)(char *, unsigned, const char *, const void *, unsigned) = (void *)165;
static long (*const loop)(unsigned, void *, void *, __u64) = (void *)181;
static long (*const from_mem)(void *, unsigned, __u64, void *) = (void *)197;
static long (*const ring_dynptr)(void *, unsigned, __u64, void *) = (void *)198;
static void (*const submit_dynptr)(void *, __u64) = (void *)199;
static long (*const read_dynptr)(void *, unsigned, void *, unsigned, __u64) = (void *)201;
static long (*const tail_call)(void *, void *, unsigned) = (void *)12;
char _license[] SEC("license") = "GPL";
#define MAP(name, kind, key_, value_, count) \
	struct { __uint(type, kind); __uint(max_entries, count); __type(key, key_); \
		__type(value, value_); } name SEC(".maps")
MAP(hash, BPF_MAP_TYPE_HASH, __u64, char[20], 16);
MAP(lru, BPF_MAP_TYPE_LRU_HASH, __u32, __u64, 4);
MAP(targets, BPF_MAP_TYPE_DEVMAP, __u32, __u32, 4);
struct { __uint(type, BPF_MAP_TYPE_LPM_TRIE); __uint(max_entries, 8); __uint(map_flags, 1);
	__type(key, __u64); __type(value, __u32); } lpm SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_RINGBUF); __uint(max_entries, 4096); } ring SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY); __uint(key_size, 4);
	__uint(value_size, 4); } perf SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_PROG_ARRAY); __uint(max_entries, 4); __uint(key_size, 4);
	__uint(value_size, 4); } programs SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_QUEUE); __uint(max_entries, 4); __type(value, __u64); }
	queue SEC(".maps");
char text[64] = "text";
const char format[] = "%s %pi4 %pI6 %d %lx\n";
static int visit(void *map, __u64 *key, char *value, __u64 *sum)
{
	*sum += *key + value[3];
	erase(map, key);
	return 0;
}
static int turn(unsigned i, __u64 *sum)
{
	*sum += i;
	lookup(&hash, sum);
	return 0;
}
SEC("xdp") int maps(struct xdp_md *ctx)
{
	__u64 key = ctx->rx_queue_index, sum = 0, prefix = 0x0102030400000010;
	char value[20] = "value";
	__u32 small = 3;
	update(&hash, &key, value, 0);
	update(&lru, &small, &key, 0);
	update(&lpm, &prefix, &small, 0);
	char *found = lookup(&hash, &key);
	if (found)
		found[5] = value[3];
	__u32 *wide = lookup(&lpm, &prefix);
	if (wide)
		*wide += 1;
	push(&queue, &key, 0);
	pop(&queue, &sum);
	each(&hash, visit, &sum, 0);
	loop(20, turn, &sum, 0);
	return sum & 1 ? redirect_map(&targets, 1, 2) : XDP_PASS;
}
SEC("xdp") int texts(struct xdp_md *ctx)
{
	__u64 values[5] = { (long)text, (long)text, (long)values, 5, 6 };
	char room[64];
	char plain[] = "%s and %d, %pi4\n";
	print(room, sizeof(room), format, values, sizeof(values));
	printk(plain, sizeof(plain), text, 5, room);
	return room[3];
}
SEC("xdp") int rings(struct xdp_md *ctx)
{
	char *data = (char *)(long)ctx->data;
	char small[8] = { 0 };
	struct bpf_dynptr dynptr;
	long *record = reserve(&ring, 24, 0);
	if (record) {
		record[0] = 5;
		record[2] = 6;
		submit(record, 0);
	}
	output(ctx, &perf, 0xffffffff | 20ull << 32, small, sizeof(small));
	from_mem(text, sizeof(text), 0, &dynptr);
	read_dynptr(small, sizeof(small), &dynptr, 4, 0);
	ring_dynptr(&ring, 40, 0, &dynptr);
	submit_dynptr(&dynptr, 0);
	adjust_head(ctx, 8);
	tail_call(ctx, &programs, 1);
	return small[3];
}
"""


@dataclass(frozen=True, slots=True)
class Base:
    """What is damaged: an object file, and what it says."""

    name: str
    raw: bytes
    spec: ObjectSpec


@cache
def bases() -> tuple[Base, ...]:
    """The objects that all others are made of."""
    found = [Base(name, shipped_object(name).raw, shipped_object(name)) for name in SHIPPED]
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("made", SOURCE), ("checks", CHECKS), ("helpers", HELPER_SOURCE)):
            source = Path(folder, f"{name}.bpf.c")
            source.write_text(text)
            raw = compile_object(source)
            # What uses most of the runtime is taken most often.
            found += [Base(name, raw, read_object(raw, name))] * (3 if name == "helpers" else 2)
    return tuple(found)


def damaged_file(pick: random.Random, base: Base) -> bytes:
    """The file with bytes changed: of instructions mostly, else anywhere."""
    raw = bytearray(base.raw)
    spans = [
        (start, len(function.insns))
        for function in (*base.spec.programs.values(), *base.spec.subprograms.values())
        if (start := base.raw.find(function.insns)) >= 0
    ]
    is_anywhere = pick.random() < 0.3
    for _ in range(pick.choice((1, 1, 2, 3, 8))):
        start, size = (0, len(raw)) if is_anywhere else pick.choice(spans)
        at = start + pick.randrange(size)
        match pick.randrange(3):
            case 0:
                raw[at] ^= 1 << pick.randrange(8)
            case 1:
                raw[at] = pick.choice((0, 1, 0x7F, 0xFF, pick.randrange(256)))
            case _:
                number = struct.pack("<I", pick.choice(NUMBERS))
                raw[at : at + 4] = number[: len(raw) - at]
    if is_anywhere and pick.random() < 0.1:
        del raw[pick.randrange(len(raw)) :]
    return bytes(raw)


def damaged_spec(pick: random.Random, spec: ObjectSpec) -> ObjectSpec:
    """What was read with functions spliced, and maps, relocations and instructions changed."""
    functions = {**spec.programs, **spec.subprograms}
    maps = dict(spec.maps)
    changed = dict(functions)
    for _ in range(pick.choice((1, 1, 2, 4))):
        name = pick.choice(list(functions))
        match pick.randrange(4):
            case 0:
                changed[name] = _spliced(pick, changed[name], pick.choice(list(changed.values())))
            case 1 if maps:
                key = pick.choice(list(maps))
                maps[key] = _changed_map(pick, maps[key])
            case 2:
                changed[name] = _relocated(pick, spec, changed[name])
            case _:
                changed[name] = _patched(pick, changed[name])
    return replace(
        spec,
        programs={name: changed[name] for name in spec.programs},
        subprograms={name: changed[name] for name in spec.subprograms},
        maps=maps,
    )


def _spliced(pick: random.Random, one: ProgramSpec, other: ProgramSpec) -> ProgramSpec:
    """The start of one function and the end of another, with their relocations."""
    cut = pick.randrange(one.insn_count + 1)
    start = pick.randrange(other.insn_count + 1)
    moved = [
        replace(relocation, insn_index=relocation.insn_index - start + cut)
        for relocation in other.relocations
        if relocation.insn_index >= start
    ]
    kept = [relocation for relocation in one.relocations if relocation.insn_index < cut]
    insns = one.insns[: 8 * cut] + other.insns[8 * start :]
    return replace(one, insns=insns, relocations=(*kept, *moved), line_info=())


def _changed_map(pick: random.Random, spec: MapSpec) -> MapSpec:
    match pick.randrange(5):
        case 0:
            kind = pick.choice(MAP_TYPES)
            return replace(spec, type=kind, type_name=str(kind))
        case 1:
            return replace(spec, key_size=pick.choice(NUMBERS))
        case 2:
            return replace(spec, value_size=pick.choice(NUMBERS))
        case 3:
            return replace(spec, max_entries=pick.choice(NUMBERS))
        case _:
            return replace(spec, flags=spec.flags ^ 1 << pick.randrange(14))


def _relocated(pick: random.Random, spec: ObjectSpec, one: ProgramSpec) -> ProgramSpec:
    if not one.relocations:
        return one
    relocations = list(one.relocations)
    at = pick.randrange(len(relocations))
    old = relocations[at]
    match pick.randrange(4):
        case 0:
            del relocations[at]
        case 1 if spec.maps:
            name = pick.choice(list(spec.maps))
            relocations[at] = Relocation(old.insn_index, name, ".maps", 0, "map")
        case 2 if spec.sections:
            section = pick.choice(list(spec.sections))
            addend = pick.choice((0, 4, 63, 64, -8, 1 << 20, -(1 << 31)))
            relocations[at] = Relocation(old.insn_index, "", section, addend, "data")
        case _ if one.insn_count:
            relocations[at] = replace(old, insn_index=pick.randrange(one.insn_count))
    return replace(one, relocations=tuple(relocations))


def _patched(pick: random.Random, one: ProgramSpec) -> ProgramSpec:
    """Fields of instructions changed, calls to other helpers among them."""
    insns = list(decode(one.insns))
    if not insns:
        # A splice may have left nothing to change.
        return one
    for _ in range(pick.choice((1, 2, 3, 6))):
        slot = pick.randrange(len(insns))
        insn = insns[slot]
        if insn.code == isa.JMP | isa.CALL and insn.src == 0 and pick.random() < 0.7:
            insns[slot] = replace(insn, imm=pick.choice(list(HELPERS)))
            continue
        match pick.randrange(5):
            case 0:
                insns[slot] = replace(insn, code=insn.code ^ 1 << pick.randrange(8))
            case 1:
                insns[slot] = replace(insn, dst=pick.randrange(11))
            case 2:
                insns[slot] = replace(insn, src=pick.randrange(11))
            case 3:
                off = pick.choice((pick.randint(-600, 600), insn.off + 8, -8, 0))
                insns[slot] = replace(insn, off=max(-32768, min(32767, off)))
            case _:
                number = pick.choice((*NUMBERS, -1, -8, -(1 << 31)))
                insns[slot] = replace(insn, imm=(number + (1 << 31)) % (1 << 32) - (1 << 31))
    return replace(one, insns=encode(insns))


def one(seed: int) -> Counter[str]:
    """One object, from its file to what it left in its maps; what became of it."""
    pick = random.Random(seed)
    base = pick.choice(bases())
    found: Counter[str] = Counter()
    spec = base.spec
    if pick.random() < 0.5:
        try:
            spec = read_object(damaged_file(pick, base), base.name)
        except ObjectError:
            return Counter({"read errors": 1})
        if not spec.programs:
            return Counter({"without programs": 1})
    if spec is base.spec or pick.random() < 0.3:
        spec = damaged_spec(pick, spec)
    try:
        with UserObject(spec, Options(Mode.CHECKED), seed=seed) as owner:
            _run(pick, owner, found)
    except XdplabError:
        found["refused"] += 1
    return found


def _run(pick: random.Random, owner: UserObject, found: Counter[str]) -> None:
    for one_map in owner.maps.values():
        if one_map.spec.type == PERF_EVENT_ARRAY:
            # Flags of the map may forbid it.
            with contextlib.suppress(OSError):
                one_map.listen()
    program = owner.program(pick.choice(list(owner.spec.programs)))
    found["translated"] += 1
    for name in owner.spec.globals:
        if pick.random() < 0.5 and owner.spec.globals[name].size_bytes <= 8:
            owner.memory_of(name).raw = pick.randbytes(owner.spec.globals[name].size_bytes)
    for _ in range(PACKETS):
        outcome = program.run(random_frame(pick))
        found["packets"] += 1
        if outcome.fault:
            assert outcome.retval == 0, outcome
            assert outcome.fault.message
            found[f"faults: {outcome.fault.kind.name}"] += 1
    owner.host.take_trace()
    for one_map in owner.maps.values():
        _read(one_map)


def _read(one_map: UserMap) -> None:
    if one_map.spec.value_size > READ_BYTES:
        return
    if one_map.spec.type in (RINGBUF, PERF_EVENT_ARRAY):
        one_map.drain()
        return
    try:
        for _, key in zip(range(20), one_map.keys(), strict=False):
            one_map.lookup(key)
    except OSError:
        pass


def work() -> None:
    """A worker: seeds on standard input, one line for each on standard output."""
    bases()
    print("ready", flush=True)
    for line in sys.stdin:
        try:
            found = one(int(line))
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}"
            found = Counter({f"exceptions: {type(error).__name__} at {place}": 1})
        print(json.dumps(found), flush=True)


class Worker:
    """A process that does seeds until one kills it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._answer()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def do(self, seed: int) -> Counter[str]:
        """What became of the object with that seed, or a crash or a hang, and how it took."""
        assert self._process.stdin is not None
        hung = threading.Event()

        def end() -> None:
            hung.set()
            self._process.kill()

        timer = threading.Timer(10 * HANG_S, end)
        timer.start()
        start = time.monotonic()
        self._process.stdin.write(f"{seed}\n")
        self._process.stdin.flush()
        answer = self._answer()
        timer.cancel()
        if not answer.endswith("}\n"):
            self._process.wait()
            return Counter({"hangs" if hung.is_set() else "crashes": 1})
        found: Counter[str] = Counter(json.loads(answer))
        if time.monotonic() - start > HANG_S:
            found["hangs"] += 1
        return found

    @property
    def is_alive(self) -> bool:
        """Whether it can do another one."""
        return self._process.poll() is None

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()


def main() -> int:
    """Run as many as were asked for, and print what became of them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--objects", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after that long")
    parser.add_argument("--one", type=int, help="one object, in this process")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work()
        return 0
    if options.one is not None:
        print(dict(one(options.one)))
        return 0
    total: Counter[str] = Counter()
    worker = Worker()
    start = time.monotonic()
    for number in range(options.objects):
        if time.monotonic() - start > options.seconds:
            break
        seed = options.seed * 1_000_003 + number
        found = worker.do(seed)
        total["objects"] += 1
        total.update(found)
        for what in found:
            if what in ("crashes", "hangs") or what.startswith("exceptions"):
                print(f"{what}: --one {seed}", flush=True)
        if not worker.is_alive:
            worker.close()
            worker = Worker()
    elapsed_s = time.monotonic() - start
    worker.close()
    for what in ("crashes", "hangs"):
        total[what] += 0
    for what, count in sorted(total.items()):
        print(f"{count:8} {what}")
    print(f"{total['objects'] / elapsed_s:8.1f} objects a second")
    is_wrong = total["crashes"] or total["hangs"] or any("exceptions" in what for what in total)
    return 1 if is_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
