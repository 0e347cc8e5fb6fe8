"""Which memory of a map programs may touch themselves, without a helper."""

from __future__ import annotations

from xdplab.program.spec import MapSpec
from xdplab.user.abi import UserMapStruct

_RDONLY_PROG = 1 << 7
"""BPF_F_RDONLY_PROG (linux/bpf.h)."""

# Numbers of enum bpf_map_type. No program ever has a pointer into these: programs, perf events,
# maps of arrays and of hashes, queues, stacks, Bloom filters.
_OUT_OF_REACH = frozenset({3, 4, 12, 13, 22, 23, 30})

# devmap, cpumap, xskmap, devmap_hash: the kernel lets programs read them.
_READ_ONLY = frozenset({14, 16, 17, 25})


def may_be_written(spec: MapSpec) -> bool:
    """Whether programs may write to values of a map."""
    return not spec.flags & _RDONLY_PROG and spec.type not in _READ_ONLY


def region_of(spec: MapSpec, struct: UserMapStruct) -> tuple[int, ...] | None:
    """The words of a map's region (translate_support.REGIONS), None where programs have none."""
    start = struct.values or 0
    if spec.type in _OUT_OF_REACH or not start:
        return None
    return (
        start,
        start + struct.values_bytes,
        int(may_be_written(spec)),
        struct.value_stride,
        struct.cpu_stride,
        struct.value_bytes,
    )
