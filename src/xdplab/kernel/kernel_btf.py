"""What the running kernel's own BTF says it has."""

from __future__ import annotations

import struct
from functools import cache
from pathlib import Path

from xdplab.kernel.verifier import missing_feature
from xdplab.program import ObjectSpec

VMLINUX = Path("/sys/kernel/btf/vmlinux")
"""The kernel's BTF; its modules' are its neighbours, named after them."""

_BTF_KIND_ENUM, _BTF_KIND_FUNC = 6, 12


@cache
def has_function(name: str) -> bool:
    """Whether the kernel or a loaded module has a function of that name, a kfunc for instance.

    OSError where the kernel's BTF cannot be read.
    """
    if btf_has_function(VMLINUX.read_bytes(), name):
        return True
    # A module's strings stand on the kernel's, so that its types alone do not resolve; that
    # the name is among its strings is as much as is asked here.
    wanted = b"\0" + name.encode() + b"\0"
    modules = (path for path in VMLINUX.parent.iterdir() if path != VMLINUX)
    return any(wanted in path.read_bytes() for path in modules)


def btf_has_function(btf: bytes, name: str) -> bool:
    """Whether raw BTF (`struct btf_header` first) has a BTF_KIND_FUNC of that name."""
    order = "<" if btf[:2] == b"\x9f\xeb" else ">"
    header_bytes, types, types_bytes, strings, strings_bytes = struct.unpack_from(
        f"{order}5I", btf, 4
    )
    types += header_bytes
    strings += header_bytes
    wanted = b"\0" + name.encode() + b"\0"
    place = btf.find(wanted, strings, strings + strings_bytes)
    if place < 0:
        return False
    # A type begins with name_off and info, where info is kind << 24 | linkage (static, global,
    # extern). Searching for these eight bytes spares walking 100,000 types.
    for linkage in range(3):
        record = struct.pack(f"{order}2I", place + 1 - strings, _BTF_KIND_FUNC << 24 | linkage)
        at = btf.find(record, types, types + types_bytes)
        while at >= 0:
            if (at - types) % 4 == 0:
                return True
            at = btf.find(record, at + 1, types + types_bytes)
    return False


@cache
def enum_names(name: str) -> dict[int, str]:
    """The running kernel's enum of that name: value -> enumerator; empty where it has none.

    OSError where the kernel's BTF cannot be read.
    """
    return btf_enum_names(VMLINUX.read_bytes(), name)


def btf_enum_names(btf: bytes, name: str) -> dict[int, str]:
    """The enum (BTF_KIND_ENUM) of that name in raw BTF: value -> enumerator."""
    order = "<" if btf[:2] == b"\x9f\xeb" else ">"
    header_bytes, types, types_bytes, strings, strings_bytes = struct.unpack_from(
        f"{order}5I", btf, 4
    )
    types += header_bytes
    strings += header_bytes

    def text(offset: int) -> str:
        start = strings + offset
        return btf[start : btf.index(b"\0", start)].decode(errors="replace")

    place = btf.find(b"\0" + name.encode() + b"\0", strings, strings + strings_bytes)
    if place < 0:
        return {}
    wanted = struct.pack(f"{order}I", place + 1 - strings)
    at = btf.find(wanted, types, types + types_bytes)
    while at >= 0:
        # Any word may have that value by chance: the next one must say enum, with members.
        if (at - types) % 4 == 0:
            (info,) = struct.unpack_from(f"{order}I", btf, at + 4)
            members = info & 0xFFFF
            if info >> 24 & 0x1F == _BTF_KIND_ENUM and members:
                pairs = struct.iter_unpack(f"{order}Ii", btf[at + 12 : at + 12 + 8 * members])
                return {value: text(offset) for offset, value in pairs}
        at = btf.find(wanted, at + 1, types + types_bytes)
    return {}


def require_kfuncs(spec: ObjectSpec, program: str) -> None:
    """MissingFeatureError for a weak kfunc that this kernel lacks.

    libbpf leaves a call of number 0 in its place, and the verifier's words for what follows
    from that name neither the kfunc nor the cause.
    """
    for relocation in spec.programs[program].relocations:
        extern = spec.externs.get(relocation.symbol)
        if relocation.kind != "extern" or extern is None or extern.kind != "kfunc":
            continue
        try:
            known = has_function(extern.name)
        except OSError:
            return
        if not known:
            raise missing_feature(f"loading program {program} of {spec.name}", extern.name)
