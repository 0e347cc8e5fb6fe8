"""The ways to clear memory that the suite memset compares: names, sizes, what was published."""

from __future__ import annotations

from dataclasses import dataclass

CONSTANT_SIZES = (
    *(32, 64, 128, 192, 199, 200, 201, 204, 208, 256, 512, 768, 1024, 2048, 4096, 8192),
)
RUN_TIME_SIZES = (
    *(16, 32, 64, 128, 192, 200, 208, 256, 512, 768, 1024, 1280, 1536, 2048, 4096, 8192),
)
BLOCK_SIZES = (32, 64, 128, 192, 200, 208, 256, 512, 768, 1024, 2048)
"""Sizes in bytes of the published families; native/memset.c has functions for constant ones."""

STORED_BYTES = 128
"""What this compiler stores in place for a constant size, in kernel code: the `constant` family
goes over to rep stosq above it, as the published figures' compiler did."""

LOOP, CALL, REFERENCE_CYCLE = "loop", "function-call", "reference-cycle"

PLACES = {
    "map": CONSTANT_SIZES,
    "packet": (32, 64, 128, 200, 256),
    "metadata": (32, 64, 128, 200),
    "stack": (32, 64, 128, 200, 256),
}
"""Where a BPF program clears -> the sizes for which bpf/memset.bpf.c has a program."""


@dataclass(frozen=True, slots=True)
class Family:
    """A way to clear; `function` is that of native/memset.c, {} in it the size."""

    variant: str
    title: str
    function: str
    sizes: tuple[int, ...]
    requires: tuple[str, ...] = ()


FAMILIES = (
    Family("constant", "constant size", "constant_{}", CONSTANT_SIZES),
    Family(
        "constant-stores",
        "constant, stores",
        "stores_{}",
        tuple(s for s in CONSTANT_SIZES if s > STORED_BYTES),
    ),
    Family("blocks", "blocks + switch", "blocks", BLOCK_SIZES),
    Family("run-time", "run-time size", "run_time", RUN_TIME_SIZES),
    Family("rep-stosb", "rep stosb", "rep_stosb", RUN_TIME_SIZES),
    Family("words", "words", "words", RUN_TIME_SIZES),
    Family("avx2", "AVX2", "avx2", RUN_TIME_SIZES, ("avx2",)),
    Family("libc", "C library", "libc", RUN_TIME_SIZES),
)
PAGE_BYTES = 4096
PAGE = ("page-rep-stosb", "page-rep-stosq", "page-words")


PUBLISHED_NS = {
    ("constant", 32): "0.673",
    ("avx2", 256): "3.954",
    ("words", 256): "8.435",
    ("run-time", 256): "9.489",
    ("constant", 256): "12.126",
}
"""Variant and size -> ns a turn of the published loop, what it takes itself included. Source: the
micro-benchmark of memset that reviews of bpf_xdp_adjust_head cite; those of 256 bytes on an Intel
E5-1650 v4."""

PUBLISHED_LOOP_NS = "0.562"
"""Of which this is the loop's, beside the constant 32."""
