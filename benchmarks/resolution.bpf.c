/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Two programs that differ by eight stores, each once a packet and in a loop; resolution.py
 * times them. Volatile stores: the compiler must make all of them, in every turn.
 */
#include "xdplab.bpf.h"

char _license[] SEC("license") = "GPL";

volatile __u64 stored[9];

static __always_inline void one_store(__u64 value)
{
	stored[0] = value;
}

static __always_inline void eight_more(__u64 value)
{
#pragma clang loop unroll(full)
	for (int index = 1; index <= 8; index++)
		stored[index] = value;
}

SEC("xdp")
int once_a(struct xdp_md *ctx)
{
	one_store(ctx->data);
	return XDP_PASS;
}

SEC("xdp")
int once_b(struct xdp_md *ctx)
{
	one_store(ctx->data);
	eight_more(ctx->data);
	return XDP_PASS;
}

SEC("xdp")
int loop_a(struct xdp_md *ctx)
{
	REPEAT_OPERATION
		one_store(turn);
	return XDP_PASS;
}

SEC("xdp")
int loop_b(struct xdp_md *ctx)
{
	REPEAT_OPERATION
	{
		one_store(turn);
		eight_more(turn);
	}
	return XDP_PASS;
}
