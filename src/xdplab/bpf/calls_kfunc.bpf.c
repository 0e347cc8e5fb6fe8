/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The price list's kfuncs, in an object of their own: whoever opens it has to read the kernel's
 * types, which takes longer than all the rest.
 */
#include "calls.bpf.h"

char _license[] SEC("license") = "GPL";

extern __u64 bpf_dynptr_size(const struct bpf_dynptr *dynptr) __weak __ksym;
extern int bpf_iter_num_new(struct bpf_iter_num *iterator, int start, int end) __weak __ksym;
extern int *bpf_iter_num_next(struct bpf_iter_num *iterator) __weak __ksym;
extern void bpf_iter_num_destroy(struct bpf_iter_num *iterator) __weak __ksym;

SEC("xdp")
int kfunc_call(struct xdp_md *ctx)
{
	__u64 bytes = frame_end(ctx) - frame_data(ctx);
	struct bpf_dynptr frame;

	if (bpf_dynptr_from_xdp(ctx, 0, &frame))
		return XDP_DROP;
	EACH_TURN(bpf_dynptr_size(&frame) != bytes)
	return XDP_PASS;
}

SEC("xdp")
int dynptr_from_xdp(struct xdp_md *ctx)
{
	struct bpf_dynptr frame;

	EACH_TURN(bpf_dynptr_from_xdp(ctx, 0, &frame))
	return XDP_PASS;
}

SEC("xdp")
int dynptr_slice_34(struct xdp_md *ctx)
{
	struct bpf_dynptr frame;
	char buffer[34];

	if (bpf_dynptr_from_xdp(ctx, 0, &frame))
		return XDP_DROP;
	EACH_TURN(!bpf_dynptr_slice(&frame, 0, buffer, sizeof(buffer)))
	return XDP_PASS;
}

SEC("xdp")
int iterator_turn(struct xdp_md *ctx)
{
	struct bpf_iter_num numbers;
	int *number, last = -1;

	bpf_iter_num_new(&numbers, 0, OPERATIONS);
	while ((number = bpf_iter_num_next(&numbers))) {
		last = *number;
		keep(last);
	}
	bpf_iter_num_destroy(&numbers);
	return last == OPERATIONS - 1 ? XDP_PASS : XDP_DROP;
}

__noinline int iterate_once(int start)
{
	struct bpf_iter_num numbers;
	int *number, turns = 0;

	bpf_iter_num_new(&numbers, start, start + 1);
	while ((number = bpf_iter_num_next(&numbers)))
		turns += *number == start;
	bpf_iter_num_destroy(&numbers);
	return turns;
}

SEC("xdp")
int iterator_once(struct xdp_md *ctx)
{
	EACH_TURN(iterate_once(turn) != 1)
	return XDP_PASS;
}
