/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The paths of the veth model, one program each. It runs at both ends and tells them apart by
 * the interface: 1 is veth0, where packets arrive; 3 is veth2, whose peer veth3 gets what is
 * redirected to it.
 */
#include "xdplab.bpf.h"

char _license[] SEC("license") = "GPL";

enum { VETH0 = 1, VETH2 = 3 };

static long (*const bpf_redirect)(__u32 ifindex, __u64 flags) = (void *)23;

#define PATH(name, first, second)                                                              \
	SEC("xdp")                                                                             \
	int name(struct xdp_md *ctx)                                                           \
	{                                                                                      \
		return ctx->ingress_ifindex == VETH0 ? first : second;                         \
	}

PATH(tx_drop, XDP_TX, XDP_DROP)
PATH(tx_pass, XDP_TX, XDP_PASS)
PATH(redirect_drop, bpf_redirect(VETH2, 0), XDP_DROP)
PATH(redirect_pass, bpf_redirect(VETH2, 0), XDP_PASS)
