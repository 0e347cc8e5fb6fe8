/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Programs that do nothing but return an action: what anybody's program with that action is net of
 * on live paths.
 */
#include "xdplab.bpf.h"

char _license[] SEC("license") = "GPL";

static long (*const bpf_redirect)(__u32 ifindex, __u64 flags) = (void *)23;

/* Set before loading: where `redirect` sends packets. */
const volatile __u32 out_ifindex = 0;

SEC("xdp.frags")
int drop(struct xdp_md *ctx)
{
	return XDP_DROP;
}

SEC("xdp.frags")
int pass(struct xdp_md *ctx)
{
	return XDP_PASS;
}

SEC("xdp.frags")
int tx(struct xdp_md *ctx)
{
	return XDP_TX;
}

SEC("xdp.frags")
int redirect(struct xdp_md *ctx)
{
	return bpf_redirect(out_ifindex, 0);
}
