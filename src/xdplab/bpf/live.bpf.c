/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * xdplab drop, pass, tx and redirect: one program, made by its constants into the one that is
 * wanted. The twin in section xdp.frags is for interfaces whose packets do not fit one page.
 */
#include "live.bpf.h"

char _license[] SEC("license") = "GPL";

static long (*const bpf_redirect)(__u32 ifindex, __u64 flags) = (void *)23;

const volatile __u32 action = XDP_DROP;
const volatile __u32 out_ifindex = 0;

static __always_inline int handle(struct xdp_md *ctx)
{
	struct actions *counters = here(received);

	count_queue(ctx);
	if (operate(ctx))
		return count_aborted(counters);
	if (action == XDP_REDIRECT)
		return count(counters, bpf_redirect(out_ifindex, 0));
	return count(counters, action);
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
