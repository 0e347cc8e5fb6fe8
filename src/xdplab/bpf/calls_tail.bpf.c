/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The price list's tail calls. A run may make 33 of them, which no loop goes around. So each program
 * calls itself until the kernel refuses: nothing counts, nothing else is done. The call behind that
 * succeeds, and spoils the run, only where the first one was refused for another reason than the
 * limit. The programs beside them call into an empty slot, which is refused each time.
 */
#include "xdplab.bpf.h"

char _license[] SEC("license") = "GPL";

static long (*const bpf_tail_call)(void *ctx, void *map, __u32 index) = (void *)12;

enum { CONSTANT, VARIABLE, COUNTED, SPOILED, EMPTY, SLOTS };

int tail_call_constant(struct xdp_md *ctx);
int tail_call_variable(struct xdp_md *ctx);
int tail_calls_counted(struct xdp_md *ctx);
int spoiled(struct xdp_md *ctx);

/* One table for all: libbpf fills every table of an object, whoever uses it. */
struct {
	int (*type)[BPF_MAP_TYPE_PROG_ARRAY];
	int (*key_size)[4];
	int (*max_entries)[SLOTS];
	int (*values[])(struct xdp_md *);
} slots SEC(".maps") = {
	.values = {
		[CONSTANT] = tail_call_constant,
		[VARIABLE] = tail_call_variable,
		[COUNTED] = tail_calls_counted,
		[SPOILED] = spoiled,
	},
};

SEC("xdp")
int spoiled(struct xdp_md *ctx)
{
	return XDP_DROP;
}

SEC("xdp")
int tail_call_constant(struct xdp_md *ctx)
{
	bpf_tail_call(ctx, &slots, CONSTANT);
	bpf_tail_call(ctx, &slots, SPOILED);
	return XDP_PASS;
}

SEC("xdp")
int no_tail_call_constant(struct xdp_md *ctx)
{
	bpf_tail_call(ctx, &slots, EMPTY);
	bpf_tail_call(ctx, &slots, EMPTY);
	return XDP_PASS;
}

/* Always 0, which no compiler and no verifier may know. */
volatile __u32 beyond;

SEC("xdp")
int tail_call_variable(struct xdp_md *ctx)
{
	bpf_tail_call(ctx, &slots, VARIABLE + beyond);
	bpf_tail_call(ctx, &slots, SPOILED + beyond);
	return XDP_PASS;
}

SEC("xdp")
int no_tail_call_variable(struct xdp_md *ctx)
{
	bpf_tail_call(ctx, &slots, EMPTY + beyond);
	bpf_tail_call(ctx, &slots, EMPTY + beyond);
	return XDP_PASS;
}

/* Whether a run may make as many as the suite divides by; user space sets both to begin with. */
volatile __u32 runs, expected;

SEC("xdp")
int tail_calls_counted(struct xdp_md *ctx)
{
	runs++;
	bpf_tail_call(ctx, &slots, COUNTED);
	return runs == expected + 1 ? XDP_PASS : XDP_DROP;
}
