/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What traits.bpf.h costs: its public calls in a loop, as a program would make them, next to a
 * function call and an indirect one. A call that does not succeed ends the program with XDP_DROP.
 *
 * The verifier walks every turn of a loop, and every way through a call in each of them: a thousand
 * turns are too many. So the loop is in a function of a hundred turns, which is verified once and
 * called ten times. A hundred, since fewer change the figures: behind the call of another function
 * it takes tens of turns until returns and the stack are as fast again as in a long loop.
 */
#include "xdplab.bpf.h"
#include "traits.bpf.h"

char _license[] SEC("license") = "GPL";

#define TURNS 100

/* A constant that the compiler makes where it stands, not ahead in the loop. */
static __always_inline int here(int value)
{
	asm volatile("" : "+r"(value));
	return value;
}

/* A thousand times `operation`, which is not 0 where it fails. Each turn reads memory anew. */
#define LOOP(name, operation)                                                                  \
	__noinline int turns_##name(struct xdp_md *ctx)                                        \
	{                                                                                      \
		keep(ctx);                                                                     \
		_Pragma("clang loop unroll(disable)") for (int turn = 0; turn < TURNS; turn++) \
		{                                                                              \
			asm volatile("" : : : "memory");                                       \
			if (operation)                                                         \
				return here(1);                                                \
		}                                                                              \
		return here(0);                                                                \
	}                                                                                      \
                                                                                               \
	SEC("xdp")                                                                             \
	int loop_##name(struct xdp_md *ctx)                                                    \
	{                                                                                      \
		_Pragma("clang loop unroll(disable)") for (int part = 0;                       \
							   part < OPERATIONS / TURNS; part++)  \
			if (turns_##name(ctx))                                                 \
				return XDP_DROP;                                               \
		return XDP_PASS;                                                               \
	}

__noinline int nothing(int value)
{
	asm volatile("" : "+r"(value));
	return value;
}

static __always_inline int call(int turn)
{
	keep(nothing(turn));
	return 0;
}

static __always_inline int get(struct xdp_md *ctx, __u64 key)
{
	__u64 value;

	if (traits_get(ctx, key, &value, sizeof(value)) != sizeof(value))
		return -1;
	keep(value);
	return 0;
}

static __always_inline int set(struct xdp_md *ctx, __u64 key)
{
	__u64 value = 0x1122334455667788ULL;

	return traits_set(ctx, key, &value, sizeof(value), 0);
}

/* The header as a call finds it, so that each of a thousand can insert, or delete, again. */
volatile __u64 header_high, header_low;

static __always_inline int put_header(struct xdp_md *ctx)
{
	struct traits_keys *keys = (void *)(long)ctx->data_meta;

	if ((void *)(keys + 1) > frame_data(ctx))
		return -1;
	keys->high = header_high;
	keys->low = header_low;
	return 0;
}

LOOP(empty, 0)
LOOP(call, call(turn))
LOOP(put_header, put_header(ctx))
LOOP(is_set, traits_is_set(ctx, 32) != 1)
LOOP(get, get(ctx, 32))
LOOP(get_last, get(ctx, 60))
LOOP(set, set(ctx, 32))
LOOP(set_last, set(ctx, 60))
LOOP(insert, put_header(ctx) || set(ctx, 32))
LOOP(del, put_header(ctx) || traits_del(ctx, 32))
/* Two operations a turn. */
LOOP(move, set(ctx, 32) || traits_del(ctx, 32))
LOOP(head, bpf_xdp_adjust_head(ctx, -8) || bpf_xdp_adjust_head(ctx, 8))

/*
 * An indirect call: a helper that is given one callback only gets a direct call of it inlined, so
 * that there is a choice of two.
 */
volatile __u32 other_callback;

static long (*const bpf_loop)(__u32 turns, void *callback, void *context, __u64 flags) = (void *)181;

static long callback(__u32 index, void *context)
{
	asm volatile("" : "+r"(index));
	return 0;
}

static long callback_as_well(__u32 index, void *context)
{
	asm volatile("" : "+r"(index) : : "memory");
	return 0;
}

SEC("xdp")
int loop_indirect_call(struct xdp_md *ctx)
{
	void *chosen = other_callback ? callback_as_well : callback;
	long turns = bpf_loop(OPERATIONS, chosen, (void *)0, 0);

	return turns == OPERATIONS ? XDP_PASS : XDP_DROP;
}

/*
 * Traits on the way: the first program sets some and redirects, the second, attached where packets
 * then arrive, reads them and counts the packets on which it found them as they were set.
 */
#define CARRIED_BYTES 64

volatile __u32 redirect_ifindex;
__u64 carried, lost;

static long (*const bpf_redirect)(__u32 ifindex, __u64 flags) = (void *)23;

SEC("xdp")
int redirect_with_traits(struct xdp_md *ctx)
{
	__u64 mark = 0x1122334455667788ULL;
	__u32 queue = ctx->rx_queue_index;
	__u16 label = 0x99aa;

	if (traits_init(ctx, CARRIED_BYTES) || traits_set(ctx, 32, &mark, sizeof(mark), 0) ||
	    traits_set(ctx, 40, &queue, sizeof(queue), 0) ||
	    traits_set(ctx, 8, &label, sizeof(label), 0))
		return XDP_DROP;
	return bpf_redirect(redirect_ifindex, 0);
}

SEC("xdp")
int drop_with_traits(struct xdp_md *ctx)
{
	__u64 mark;
	__u32 queue;
	__u16 label;

	if (traits_get(ctx, 32, &mark, sizeof(mark)) == sizeof(mark) &&
	    mark == 0x1122334455667788ULL &&
	    traits_get(ctx, 40, &queue, sizeof(queue)) == sizeof(queue) &&
	    traits_get(ctx, 8, &label, sizeof(label)) == sizeof(label) && label == 0x99aa)
		__sync_fetch_and_add(&carried, 1);
	else
		__sync_fetch_and_add(&lost, 1);
	return XDP_DROP;
}
