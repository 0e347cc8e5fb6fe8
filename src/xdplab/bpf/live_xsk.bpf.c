/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * xdplab xsk-drop and xsk-tx: packets of one queue go to the AF_XDP socket there, counted first;
 * those of other queues pass to the stack.
 */
#include "live.bpf.h"

char _license[] SEC("license") = "GPL";

static long (*const bpf_redirect_map)(void *map, __u64 key, __u64 flags) = (void *)51;

struct {
	int (*type)[BPF_MAP_TYPE_XSKMAP];
	int (*key_size)[4];
	int (*value_size)[4];
	int (*max_entries)[MAX_QUEUES];
} sockets SEC(".maps");

static __always_inline int handle(struct xdp_md *ctx)
{
	struct actions *counters = here(received);

	count_queue(ctx);
	return count(counters, bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_PASS));
}

SEC("xdp")
int xdplab_live(struct xdp_md *ctx)
{
	return handle(ctx);
}

SEC("xdp.frags")
int xdplab_frags(struct xdp_md *ctx)
{
	return handle(ctx);
}
