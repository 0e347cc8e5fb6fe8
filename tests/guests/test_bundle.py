"""What a guest is given: relocated programs, BTF that kernels take, an archive that they unpack."""

from __future__ import annotations

import gzip
import shutil
import struct
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from xdplab.engines.base import Method, Network, Subject
from xdplab.errors import MissingFeatureError
from xdplab.guests.bundle import REPEAT, Bundle
from xdplab.guests.initramfs import initramfs, pack, runner
from xdplab.guests.relocate import FixupKind, acceptable_btf, relocate
from xdplab.packets.frame import Frame
from xdplab.program.bounded import Region
from xdplab.program.btf import Btf
from xdplab.program.elf import ElfFile
from xdplab.program.insn import CALL_KFUNC, CALL_LOCAL, PSEUDO_FUNC, decode, subprogram_starts
from xdplab.program.shipped import shipped_object

FRAME = Frame(bytes(64))


def subject(object_name: str, program: str, key: str = "one", **more: object) -> Subject:
    """A subject of one of the package's own objects."""
    return Subject(key, shipped_object(object_name), program, FRAME, **more)  # type: ignore[arg-type]


def records(encoded: bytes) -> list[tuple[int, bytes]]:
    """Kinds and contents of a bundle's records."""
    found, at = [], 0
    while at < len(encoded):
        kind, size = struct.unpack_from("<II", encoded, at)
        found.append((kind, encoded[at + 8 : at + 8 + size]))
        at += 8 + size
    assert at == len(encoded)
    return found


def test_calls_and_callbacks_lead_to_functions_and_kfuncs_wait_for_the_kernel() -> None:
    relocated = relocate(shipped_object("calls"), "indirect_call")
    insns = decode(relocated.insns)
    starts = {start for start, _ in relocated.func_info}
    assert set(subprogram_starts(relocated.insns)) == starts
    for slot, insn in enumerate(insns):
        if (insn.code == 0x85 and insn.src == CALL_LOCAL) or (
            insn.is_wide and insn.src == PSEUDO_FUNC
        ):
            assert slot + 1 + insn.imm in starts
    kfunc = relocate(shipped_object("calls_kfunc"), "kfunc_call")
    (fixup, *_) = [one for one in kfunc.fixups if one.kind is FixupKind.KFUNC]
    assert decode(kfunc.insns)[fixup.slot].src == CALL_KFUNC


def test_maps_and_data_are_fixups_by_name() -> None:
    relocated = relocate(shipped_object("calls_maps"), "lookup_array_16")
    assert "array_16" in {one.name for one in relocated.fixups}
    assert all(decode(relocated.insns)[one.slot].is_wide for one in relocated.fixups)


def test_btf_keeps_its_numbers_and_loses_what_kernels_refuse() -> None:
    spec = shipped_object("calls")
    file = ElfFile(spec.raw)
    section = file.find(".BTF")
    assert section is not None
    data = file.content(section).data
    blob, functions = acceptable_btf(data, {"nothing_of_the_sort"})
    before, after = Btf(Region(data, "before")), Btf(Region(blob, "after"))
    assert before.data_sections()
    assert not after.data_sections()
    for name, number in functions.items():
        assert after.name(after.type(number)) == name == before.name(before.type(number))
    static, _ = acceptable_btf(data, set(functions))
    assert all(Btf(Region(static, "s")).type(n).member_count == 0 for n in functions.values())


def test_rows_come_last_and_have_their_frames() -> None:
    bundle = Bundle()
    bundle.add("g", [subject("adjust_head", "once_helper", globals={"size": 6})], Method.PACKET)
    bundle.add("h", [subject("adjust_head", "loop_empty", operations=1000)], Method.OPERATION)
    kinds = [kind for kind, _ in records(bundle.encode())]
    assert kinds == sorted(kinds, key=lambda kind: kind == 4)
    assert kinds.count(4) == 2
    assert bundle.rows["g", "one"].repeat == REPEAT
    assert bundle.rows["h", "one"].repeat == 1
    assert bundle.encode() == bundle.encode()


def test_subjects_of_one_load_share_it_and_a_twin_has_its_own() -> None:
    bundle = Bundle()
    several = [
        subject("adjust_head", "once_helper", str(size), globals={"size": size}) for size in (6, 20)
    ]
    twin = subject("adjust_head", "once_helper", "twin", instance=1)
    bundle.add("g", [*several, twin], Method.PACKET)
    progs = [bundle.rows["g", key].prog for key in ("6", "20", "twin")]
    assert progs[0] == progs[1] != progs[2]


def test_what_no_guest_can_run_is_missing_with_its_reason() -> None:
    bundle = Bundle()
    network = Network("198.18.0.0/15", "192.0.2.2", bytes(6))
    bundle.add("g", [subject("calls", "empty", network=network)], Method.OPERATION)
    assert not bundle.rows
    assert "route" in bundle.missing["g", "one"]


def test_what_is_looked_up_in_a_running_kernel_is_refused() -> None:
    spec = shipped_object("calls_kfunc")
    assert relocate(spec, "kfunc_call").fixups
    externs = {name: replace(one, kind="ksym") for name, one in spec.externs.items()}
    with pytest.raises(MissingFeatureError, match="a ksym"):
        relocate(replace(spec, externs=externs), "kfunc_call")


def test_the_archive_is_what_cpio_unpacks(tmp_path: Path) -> None:
    if shutil.which("cpio") is None:
        pytest.skip("cpio is not installed")
    content = {"init": b"\x7fELF", "bundle": bytes(range(7))}
    archive = gzip.decompress(pack(content))
    listed = subprocess.run(
        ["cpio", "-i", "-t", "-v"], input=archive, capture_output=True, check=True, cwd=tmp_path
    ).stdout.decode()
    assert all(name in listed for name in ("dev/console", "proc", "sys", "init", "bundle"))
    subprocess.run(["cpio", "-i", "init", "bundle"], input=archive, check=True, cwd=tmp_path)
    assert {name: (tmp_path / name).read_bytes() for name in content} == content


def test_the_archive_repeats_and_has_the_runner() -> None:
    assert initramfs(b"x") == initramfs(b"x")
    assert runner() in gzip.decompress(initramfs(b""))
    # A static program for x86-64 (e_machine 62) without an interpreter.
    assert struct.unpack_from("<H", runner(), 18) == (62,)
    assert b"ld-musl" not in runner()
