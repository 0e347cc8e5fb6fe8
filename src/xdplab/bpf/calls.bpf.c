/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The price list, first part: calls, loops, atomics, and helpers that need neither map nor packet.
 * Each program is what its table row is called after; suites/calls.py has the rows.
 */
#include "calls.bpf.h"

char _license[] SEC("license") = "GPL";

static long (*const bpf_ktime_get_ns)(void) = (void *)5;
static __u32 (*const bpf_get_prandom_u32)(void) = (void *)7;
static __u32 (*const bpf_get_smp_processor_id)(void) = (void *)8;
static long (*const bpf_get_numa_node_id)(void) = (void *)42;
static __u64 (*const bpf_jiffies64)(void) = (void *)118;
static __u64 (*const bpf_ktime_get_boot_ns)(void) = (void *)125;
static __u64 (*const bpf_ktime_get_coarse_ns)(void) = (void *)160;
static long (*const bpf_loop)(__u32 turns, void *callback, void *context,
			      __u64 flags) = (void *)181;

SEC("xdp")
int empty(struct xdp_md *ctx)
{
	REPEAT_OPERATION
		asm volatile("" : : : "memory");
	return XDP_PASS;
}

/* --- calls */

__noinline int nothing(int value)
{
	asm volatile("" : "+r"(value));
	return value;
}

SEC("xdp")
int function_call(struct xdp_md *ctx)
{
	int last = 0;

	REPEAT_OPERATION
	{
		last = nothing(turn);
		keep(last);
	}
	return last == OPERATIONS - 1 ? XDP_PASS : XDP_DROP;
}

/* Reading the node's number is a load in the kernel: of all helpers that are called, the least. */
SEC("xdp")
int helper_call(struct xdp_md *ctx)
{
	long node = bpf_get_numa_node_id();

	EACH_TURN(bpf_get_numa_node_id() != node)
	return XDP_PASS;
}

static long go_on(__u32 turn, void *context)
{
	keep(turn);
	return 0;
}

static long stop_at_once(__u32 turn, void *context)
{
	keep(turn);
	return 1;
}

/* Which of two callbacks it is, no compiler and no verifier may know. */
volatile __u32 stops;

SEC("xdp")
int indirect_call(struct xdp_md *ctx)
{
	void *callback = stops ? stop_at_once : go_on;

	return bpf_loop(OPERATIONS, callback, NULL, 0) == OPERATIONS ? XDP_PASS : XDP_DROP;
}

/* --- loops */

SEC("xdp")
int bpf_loop_turn(struct xdp_md *ctx)
{
	return bpf_loop(OPERATIONS, go_on, NULL, 0) == OPERATIONS ? XDP_PASS : XDP_DROP;
}

/*
 * One turn each time, so that what a loop costs to begin and to end is seen. In a function of its
 * own, which the verifier walks once: a thousand times it would be too much for it.
 */
__noinline int loop_once(int turns)
{
	return bpf_loop(turns & 1, go_on, NULL, 0);
}

SEC("xdp")
int bpf_loop_once(struct xdp_md *ctx)
{
	EACH_TURN(loop_once(1) != 1)
	return XDP_PASS;
}

/* --- atomics, on one word that nobody else touches */

__u64 word;

SEC("xdp")
int atomic_add(struct xdp_md *ctx)
{
	word = 0;
	REPEAT_OPERATION
		__sync_fetch_and_add(&word, 1);
	return word == OPERATIONS ? XDP_PASS : XDP_DROP;
}

SEC("xdp")
int atomic_fetch_add(struct xdp_md *ctx)
{
	word = 0;
	EACH_TURN(__sync_fetch_and_add(&word, 1) != turn)
	return word == OPERATIONS ? XDP_PASS : XDP_DROP;
}

SEC("xdp")
int atomic_xchg(struct xdp_md *ctx)
{
	word = 0;
	EACH_TURN(__sync_lock_test_and_set(&word, turn + 1) != turn)
	return word == OPERATIONS ? XDP_PASS : XDP_DROP;
}

SEC("xdp")
int atomic_cmpxchg(struct xdp_md *ctx)
{
	word = 0;
	EACH_TURN(__sync_val_compare_and_swap(&word, turn, turn + 1) != turn)
	return word == OPERATIONS ? XDP_PASS : XDP_DROP;
}

/* --- clocks, numbers */

#define CLOCK(name, helper)                                                                    \
	SEC("xdp")                                                                             \
	int name(struct xdp_md *ctx)                                                           \
	{                                                                                      \
		__u64 start = helper(), now = 0;                                               \
                                                                                               \
		REPEAT_OPERATION                                                               \
		{                                                                              \
			now = helper();                                                        \
			keep(now);                                                             \
		}                                                                              \
		return start && now >= start ? XDP_PASS : XDP_DROP;                            \
	}

CLOCK(ktime_get_ns, bpf_ktime_get_ns)
CLOCK(ktime_get_boot_ns, bpf_ktime_get_boot_ns)
CLOCK(ktime_get_coarse_ns, bpf_ktime_get_coarse_ns)
CLOCK(jiffies64, bpf_jiffies64)

SEC("xdp")
int get_smp_processor_id(struct xdp_md *ctx)
{
	__u32 cpu = bpf_get_smp_processor_id();

	EACH_TURN(bpf_get_smp_processor_id() != cpu)
	return XDP_PASS;
}

/* Many numbers, of which no bit has kept still. */
SEC("xdp")
int get_prandom_u32(struct xdp_md *ctx)
{
	__u32 ones = 0, zeros = 0;

	REPEAT_OPERATION
	{
		__u32 number = bpf_get_prandom_u32();

		ones |= number;
		zeros |= ~number;
	}
	return ones == ~0u && zeros == ~0u ? XDP_PASS : XDP_DROP;
}
