/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * traits.bpf.h as a kernel would have it: functions that are called with a key and a length, and the
 * change that was proposed for the moves in them, words in place of a memmove() call.
 */
#include "native.h"

typedef u64 __u64;
typedef u32 __u32;
typedef u16 __u16;

/* As bpf.h has it, but for pointers of this machine. */
struct xdp_md {
	u64 data_meta;
	u64 data;
};

#include "../bpf/traits.bpf.h"

/* A subject's memory is the area. */
volatile u64 area_bytes;

inline_always struct xdp_md area_of(u8 *memory)
{
	struct xdp_md ctx = { (u64)memory, (u64)memory + area_bytes };

	return ctx;
}

never_inline static u64 nothing(u64 value)
{
	__asm__ volatile("" : "+r"(value));
	return value;
}

never_inline static int get(struct xdp_md *ctx, u64 key, u64 *value)
{
	return traits_get(ctx, key, value, sizeof(*value));
}

never_inline static int set(struct xdp_md *ctx, u64 key, const u64 *value)
{
	return traits_set(ctx, key, value, sizeof(*value), 0);
}

never_inline static int del(struct xdp_md *ctx, u64 key)
{
	return traits_del(ctx, key);
}

/*
 * In the manner of the kernel's memmove() for x86: pieces of 32 bytes in four registers, from the end
 * where the target is behind the source; what is below 32 is read whole before it is written.
 */
never_inline static void move_bytes(u8 *to, const u8 *from, u64 bytes)
{
	if (to > from) {
		while (bytes >= 32) {
			u64 a = TRAITS_U64(from + bytes - 8), b = TRAITS_U64(from + bytes - 16);
			u64 c = TRAITS_U64(from + bytes - 24), d = TRAITS_U64(from + bytes - 32);

			TRAITS_U64(to + bytes - 8) = a;
			TRAITS_U64(to + bytes - 16) = b;
			TRAITS_U64(to + bytes - 24) = c;
			TRAITS_U64(to + bytes - 32) = d;
			bytes -= 32;
			keep_memory();
		}
	} else {
		while (bytes >= 32) {
			u64 a = TRAITS_U64(from), b = TRAITS_U64(from + 8);
			u64 c = TRAITS_U64(from + 16), d = TRAITS_U64(from + 24);

			TRAITS_U64(to) = a;
			TRAITS_U64(to + 8) = b;
			TRAITS_U64(to + 16) = c;
			TRAITS_U64(to + 24) = d;
			to += 32;
			from += 32;
			bytes -= 32;
			keep_memory();
		}
	}
	if (bytes >= 16) {
		u64 a = TRAITS_U64(from), b = TRAITS_U64(from + 8);
		u64 c = TRAITS_U64(from + bytes - 16), d = TRAITS_U64(from + bytes - 8);

		TRAITS_U64(to) = a;
		TRAITS_U64(to + 8) = b;
		TRAITS_U64(to + bytes - 16) = c;
		TRAITS_U64(to + bytes - 8) = d;
	} else if (bytes >= 8) {
		u64 a = TRAITS_U64(from), b = TRAITS_U64(from + bytes - 8);

		TRAITS_U64(to) = a;
		TRAITS_U64(to + bytes - 8) = b;
	} else if (bytes >= 4) {
		u32 a = TRAITS_U32(from), b = TRAITS_U32(from + bytes - 4);

		TRAITS_U32(to) = a;
		TRAITS_U32(to + bytes - 4) = b;
	} else if (bytes >= 2) {
		u16 a = TRAITS_U16(from), b = TRAITS_U16(from + bytes - 2);

		TRAITS_U16(to) = a;
		TRAITS_U16(to + bytes - 2) = b;
	} else if (bytes) {
		*to = *from;
	}
}

/* The proposed change: words, then what is left; from the end when moving up. */
inline_always void move_words(u8 *to, const u8 *from, u64 bytes)
{
	if (to > from) {
		for (; bytes >= 8; bytes -= 8) {
			TRAITS_U64(to + bytes - 8) = TRAITS_U64(from + bytes - 8);
			keep_memory();
		}
		if (bytes & 4) {
			bytes -= 4;
			TRAITS_U32(to + bytes) = TRAITS_U32(from + bytes);
		}
		if (bytes & 2)
			TRAITS_U16(to) = TRAITS_U16(from);
	} else {
		for (; bytes >= 8; bytes -= 8) {
			TRAITS_U64(to) = TRAITS_U64(from);
			keep_memory();
			to += 8;
			from += 8;
		}
		if (bytes & 4) {
			TRAITS_U32(to) = TRAITS_U32(from);
			to += 4;
			from += 4;
		}
		if (bytes & 2)
			TRAITS_U16(to) = TRAITS_U16(from);
	}
}

/* Bytes of the values, by the instruction that BPF lacks. */
inline_always u64 counted_bytes(u64 high, u64 low)
{
	return 2 * __builtin_popcountll(low) + 4 * __builtin_popcountll(high) +
	       2 * __builtin_popcountll(high & low);
}

/* Set and delete for a kernel: exact counts, and a move that is given. */
inline_always int kernel_set(struct xdp_md *ctx, u64 key, const u64 *value,
			     void (*move)(u8 *, const u8 *, u64))
{
	struct traits_keys *keys = (void *)ctx->data_meta;
	u64 high, low, bit, before, behind;
	u8 *at;

	if (key >= TRAITS_KEYS)
		return -EINVAL;
	high = keys->high;
	low = keys->low;
	bit = 1ull << key;
	before = counted_bytes(traits_below(high, key), traits_below(low, key));
	at = (u8 *)ctx->data_meta + TRAITS_HEADER_BYTES + before;
	if (!(high & low & bit)) {
		if ((high | low) & bit)
			return -EBUSY;
		behind = counted_bytes(traits_above(high, key), traits_above(low, key));
		if ((u64)at + behind + 8 > ctx->data)
			return -ENOSPC;
		if (behind)
			move(at + 8, at, behind);
		keys->high = high | bit;
		keys->low = low | bit;
	}
	TRAITS_U64(at) = *value;
	return 0;
}

inline_always int kernel_del(struct xdp_md *ctx, u64 key, void (*move)(u8 *, const u8 *, u64))
{
	struct traits_keys *keys = (void *)ctx->data_meta;
	u64 high, low, bit, before, behind, bytes;
	u8 *at;

	if (key >= TRAITS_KEYS)
		return -EINVAL;
	high = keys->high;
	low = keys->low;
	bit = 1ull << key;
	if (!((high | low) & bit))
		return -ENOENT;
	before = counted_bytes(traits_below(high, key), traits_below(low, key));
	bytes = counted_bytes(high & bit, low & bit);
	behind = counted_bytes(traits_above(high, key), traits_above(low, key));
	at = (u8 *)ctx->data_meta + TRAITS_HEADER_BYTES + before;
	if (behind)
		move(at, at + bytes, behind);
	keys->high = high & ~bit;
	keys->low = low & ~bit;
	return 0;
}

#define WITH_MOVE(name, move)                                                             \
	never_inline static int set_##name(struct xdp_md *ctx, u64 key, const u64 *value) \
	{                                                                                 \
		return kernel_set(ctx, key, value, move);                                 \
	}                                                                                 \
                                                                                          \
	never_inline static int del_##name(struct xdp_md *ctx, u64 key)                   \
	{                                                                                 \
		return kernel_del(ctx, key, move);                                        \
	}

WITH_MOVE(by_memmove, move_bytes)
WITH_MOVE(by_words, move_words)

/* What a call is given, so that no function is made for this key alone. */
#define LOOP(name, operations_a_turn, failed)                                   \
	NATIVE(name)                                                            \
	{                                                                       \
		struct xdp_md ctx = area_of(memory);                            \
		u64 key = 32, value = 0x1122334455667788ull;                    \
                                                                                \
		__asm__ volatile("" : "+r"(key) : "r"(&ctx), "r"(&value));      \
		turns = (turns + operations_a_turn - 1) / operations_a_turn;    \
		REPEAT_OPERATION                                                \
		{                                                               \
			keep_memory();                                          \
			if (failed)                                             \
				return FAILED;                                  \
		}                                                               \
		return DONE;                                                    \
	}

LOOP(empty, 1, key != 32)
LOOP(call_get, 1, get(&ctx, key, &value) != 8)
LOOP(call_set, 1, set(&ctx, key, &value))
LOOP(call_move, 2, set(&ctx, key, &value) || del(&ctx, key))
LOOP(call_move_by_memmove, 2, set_by_memmove(&ctx, key, &value) || del_by_memmove(&ctx, key))
LOOP(call_move_by_words, 2, set_by_words(&ctx, key, &value) || del_by_words(&ctx, key))

NATIVE(function_call)
{
	REPEAT_OPERATION
	{
		keep_memory();
		keep(nothing(turn));
	}
	return DONE;
}

NATIVE(indirect_call)
{
	u64 (*target)(u64) = nothing;

	REPEAT_OPERATION
	{
		keep_memory();
		__asm__ volatile("" : "+r"(target));
		keep(target(turn));
	}
	return DONE;
}
