"""Objects that only tests need, compiled from C where there is a compiler."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest

from xdplab.errors import CompileError
from xdplab.program import ObjectSpec, compile_object, read_object

_NO_SUCH_KFUNC = """
#include "xdplab.bpf.h"
char _license[] SEC("license") = "GPL";
extern int bpf_xdplab_is_not_there(struct xdp_md *ctx) __weak __ksym;
SEC("xdp") int no_such_kfunc(struct xdp_md *ctx)
{
	return bpf_xdplab_is_not_there(ctx) ? XDP_DROP : XDP_PASS;
}
SEC("xdp") int fine(struct xdp_md *ctx)
{
	return XDP_PASS;
}
"""

_TO_NOWHERE = """
#include "xdplab.bpf.h"
char _license[] SEC("license") = "GPL";
static long (*const bpf_redirect)(__u32 ifindex, __u64 flags) = (void *)23;
SEC("xdp") int to_nowhere(struct xdp_md *ctx)
{
	return bpf_redirect(77, 0);
}
"""

# Exposes, fills with a pattern, hides; then the operation under test; then exposes for the
# test to see: the frame that comes back begins with the bytes in question.
_CLEARING = """
#include "adjust_head.bpf.c"

static __always_inline long fill(struct xdp_md *ctx)
{
	char *at = frame_data(ctx);

	for (int byte = 0; byte < 216; byte++) {
		if (byte >= size)
			break;
		if (at + 1 > (char *)frame_end(ctx))
			return -1;
		*(volatile __u8 *)at = 0xaa;
		at++;
	}
	return 0;
}

#define LEFT_BY(name, operation)                                                      \\
	SEC("xdp") int left_by_##name(struct xdp_md *ctx)                                \\
	{                                                                                \\
		if (grow(ctx, size) || fill(ctx) || shrink(ctx, size))                      \\
			return XDP_DROP;                                                     \\
		if (operation)                                                               \\
			return XDP_DROP;                                                     \\
		return grow(ctx, size) ? XDP_DROP : XDP_PASS;                                \\
	}
LEFT_BY(helper, helper_pair(ctx))
LEFT_BY(words, words_pair(ctx))
LEFT_BY(constant_6, constant_pair(ctx, 6))
LEFT_BY(constant_20, constant_pair(ctx, 20))
LEFT_BY(constant_40, constant_pair(ctx, 40))
LEFT_BY(constant_200, constant_pair(ctx, 200))
"""


def _compiled(folder: Path, name: str, source: str) -> ObjectSpec:
    path = folder / f"{name}.bpf.c"
    path.write_text(source)
    with resources.as_file(resources.files("xdplab") / "bpf") as headers:
        try:
            return read_object(compile_object(path, include=[headers]), name)
        except CompileError as error:
            if "failed:" in str(error):
                raise
            pytest.skip(f"no compiler for BPF: {error}")


@pytest.fixture(scope="session")
def no_such_kfunc(tmp_path_factory: pytest.TempPathFactory) -> ObjectSpec:
    """An object of two programs, of which one calls a kfunc that no kernel has."""
    return _compiled(tmp_path_factory.mktemp("kfunc"), "kfunc", _NO_SUCH_KFUNC)


@pytest.fixture(scope="session")
def clearing(tmp_path_factory: pytest.TempPathFactory) -> ObjectSpec:
    """adjust_head's operations followed by a look at what they left."""
    return _compiled(tmp_path_factory.mktemp("clearing"), "clearing", _CLEARING)


@pytest.fixture(scope="session")
def to_nowhere(tmp_path_factory: pytest.TempPathFactory) -> ObjectSpec:
    """A program that redirects to an interface that nobody has."""
    return _compiled(tmp_path_factory.mktemp("nowhere"), "nowhere", _TO_NOWHERE)
