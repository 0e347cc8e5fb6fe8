/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bpf_xdp_adjust_head(ctx, -size) and back: as the helper is, and with the exposed bytes cleared
 * by the program. Programs named once_* handle one packet a run, loop_* repeat the operation.
 * A program that a helper refuses returns XDP_DROP, so that nothing is measured by mistake.
 */
#include "xdplab.bpf.h"

char _license[] SEC("license") = "GPL";

/* Bytes to expose and to hide again; user space sets it between runs. */
volatile __u32 size = 6;

static __always_inline long shrink(struct xdp_md *ctx, __u32 bytes)
{
	return bpf_xdp_adjust_head(ctx, bytes);
}

static __always_inline long grow(struct xdp_md *ctx, __u32 bytes)
{
	return bpf_xdp_adjust_head(ctx, -(int)bytes);
}

static __always_inline long helper_pair(struct xdp_md *ctx)
{
	__u32 bytes = size;

	return grow(ctx, bytes) || shrink(ctx, bytes);
}

/* Stores of constant number and size: what the compiler makes of a constant-size memset. */
static __always_inline long clear_constant(struct xdp_md *ctx, const __u32 bytes)
{
	char *start = frame_data(ctx);

	if (start + bytes > (char *)frame_end(ctx))
		return -1;
#pragma clang loop unroll(full)
	for (__u32 word = 0; word < bytes / 8; word++)
		*(volatile __u64 *)(start + 8 * word) = 0;
	if (bytes & 4)
		*(volatile __u32 *)(start + (bytes & ~7u)) = 0;
	if (bytes & 2)
		*(volatile __u16 *)(start + (bytes & ~3u)) = 0;
	if (bytes & 1)
		*(volatile __u8 *)(start + (bytes & ~1u)) = 0;
	return 0;
}

/*
 * Eight bytes a step for a size known at run time only. A function of its own, since the
 * verifier walks a global function once; inlined, it would walk every size in every turn.
 */
__noinline int clear_words(struct xdp_md *ctx)
{
	char *at = frame_data(ctx);
	char *end = frame_end(ctx);
	__u32 left = size;

	/* The headroom that a program can expose is below 256 bytes. */
#pragma clang loop unroll(disable)
	for (int step = 0; step < 32; step++) {
		if (left < 8)
			break;
		if (at + 8 > end)
			return -1;
		*(volatile __u64 *)at = 0;
		at += 8;
		left -= 8;
	}
	if (left & 4) {
		if (at + 4 > end)
			return -1;
		*(volatile __u32 *)at = 0;
		at += 4;
	}
	if (left & 2) {
		if (at + 2 > end)
			return -1;
		*(volatile __u16 *)at = 0;
		at += 2;
	}
	if (left & 1) {
		if (at + 1 > end)
			return -1;
		*(volatile __u8 *)at = 0;
	}
	return 0;
}

static __always_inline long words_pair(struct xdp_md *ctx)
{
	__u32 bytes = size;

	return grow(ctx, bytes) || clear_words(ctx) || shrink(ctx, bytes);
}

static __always_inline long constant_pair(struct xdp_md *ctx, const __u32 bytes)
{
	__u32 exposed = size;

	return grow(ctx, exposed) || clear_constant(ctx, bytes) || shrink(ctx, exposed);
}

/* What a function call costs on this machine: the yardstick beside every operation. */
__noinline int nothing(int value)
{
	asm volatile("" : "+r"(value));
	return value;
}

SEC("xdp")
int loop_empty(struct xdp_md *ctx)
{
	REPEAT_OPERATION
		asm volatile("" : : : "memory");
	return XDP_PASS;
}

SEC("xdp")
int loop_call(struct xdp_md *ctx)
{
	REPEAT_OPERATION
		keep(nothing(turn));
	return XDP_PASS;
}

#define ONCE_AND_LOOP(name, operation)                                                         \
	SEC("xdp")                                                                             \
	int once_##name(struct xdp_md *ctx)                                                    \
	{                                                                                      \
		return (operation) ? XDP_DROP : XDP_PASS;                                      \
	}                                                                                      \
                                                                                               \
	SEC("xdp")                                                                             \
	int loop_##name(struct xdp_md *ctx)                                                    \
	{                                                                                      \
		REPEAT_OPERATION                                                               \
		{                                                                              \
			if (operation)                                                         \
				return XDP_DROP;                                               \
		}                                                                              \
		return XDP_PASS;                                                               \
	}

ONCE_AND_LOOP(helper, helper_pair(ctx))
ONCE_AND_LOOP(helper_twice, helper_pair(ctx) || helper_pair(ctx))
ONCE_AND_LOOP(words, words_pair(ctx))

/* One program a size that the compiler must know; xdplab finds them by name. */
ONCE_AND_LOOP(constant_6, constant_pair(ctx, 6))
ONCE_AND_LOOP(constant_8, constant_pair(ctx, 8))
ONCE_AND_LOOP(constant_14, constant_pair(ctx, 14))
ONCE_AND_LOOP(constant_16, constant_pair(ctx, 16))
ONCE_AND_LOOP(constant_20, constant_pair(ctx, 20))
ONCE_AND_LOOP(constant_32, constant_pair(ctx, 32))
ONCE_AND_LOOP(constant_40, constant_pair(ctx, 40))
ONCE_AND_LOOP(constant_64, constant_pair(ctx, 64))
ONCE_AND_LOOP(constant_128, constant_pair(ctx, 128))
ONCE_AND_LOOP(constant_200, constant_pair(ctx, 200))

SEC("xdp")
int once_empty(struct xdp_md *ctx)
{
	return XDP_PASS;
}

/*
 * Does the kernel clear what adjust_head exposes? Write a pattern, hide it, expose it again,
 * look: `pattern_kept` becomes 1 where it is still there, 2 where it reads as zero.
 */
volatile __u32 pattern_kept;

SEC("xdp")
int probe_clears(struct xdp_md *ctx)
{
	const __u64 pattern = 0x5aa55aa5deadbeefULL;
	__u64 *word = frame_data(ctx);

	if ((void *)(word + 4) > frame_end(ctx))
		return XDP_ABORTED;
	word[0] = pattern;
	word[1] = pattern;
	if (shrink(ctx, 16) || grow(ctx, 16))
		return XDP_DROP;
	word = frame_data(ctx);
	if ((void *)(word + 4) > frame_end(ctx))
		return XDP_ABORTED;
	if (word[0] == pattern && word[1] == pattern)
		pattern_kept = 1;
	else if (word[0] == 0 && word[1] == 0)
		pattern_kept = 2;
	else
		pattern_kept = 3;
	return XDP_PASS;
}
