/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Redirects every packet to the AF_XDP socket of its queue, and passes those of queues without one.
 * A driver that has no multi-buffer XDP refuses programs that take frags: there is one of each.
 */
#include "xdplab.bpf.h"
#include "seal.bpf.h"

char _license[] SEC("license") = "GPL";

static long (*const bpf_redirect_map)(void *map, __u64 key, __u64 flags) = (void *)51;

struct {
	int (*type)[BPF_MAP_TYPE_XSKMAP];
	int (*key_size)[4];
	int (*value_size)[4];
	int (*max_entries)[1024];
} xsks SEC(".maps");

static __always_inline int redirect(struct xdp_md *ctx)
{
	return bpf_redirect_map(&xsks, ctx->rx_queue_index, XDP_PASS);
}

static __always_inline int seal_and_redirect(struct xdp_md *ctx)
{
	/* What could not be sealed arrives unsealed, and its reader sees that. */
	seal_metadata(ctx);
	return redirect(ctx);
}

SEC("xdp")
int redirecting(struct xdp_md *ctx)
{
	return redirect(ctx);
}

SEC("xdp.frags")
int redirecting_frags(struct xdp_md *ctx)
{
	return redirect(ctx);
}

SEC("xdp")
int sealing(struct xdp_md *ctx)
{
	return seal_and_redirect(ctx);
}

SEC("xdp.frags")
int sealing_frags(struct xdp_md *ctx)
{
	return seal_and_redirect(ctx);
}
