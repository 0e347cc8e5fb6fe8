/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Traits: a key/value store in a packet's metadata, the bytes in front of its data. What is set
 * travels with the packet: to later programs, over XDP_REDIRECT, up with XDP_PASS, to an AF_XDP
 * socket. Any kernel with bpf_xdp_adjust_meta has what it takes.
 *
 *	int traits_init(ctx, area_bytes)
 *	int traits_set(ctx, key, &value, sizeof(value), 0)
 *	int traits_get(ctx, key, &value, sizeof(value))
 *	int traits_del(ctx, key)
 *	int traits_is_set(ctx, key)
 *
 * Include it behind <linux/bpf.h> or vmlinux.h, which have __u64 and struct xdp_md. docs/traits.md
 * tells of errors, limits and costs; xdplab.traits is the same encoding in Python.
 *
 * The area is a header of two u64 words, high and low, and the values in order of keys without
 * gaps. Bit k of (high, low) codes key k: 00 unset, 01 two bytes, 10 four, 11 eight. What lies
 * behind the last value is free, and its bytes mean nothing.
 *
 * What is inlined is made for keys and lengths that the compiler knows; it moves up to 16 values.
 * Whatever is rarer goes to a function, which the verifier looks at once. All of it is one file,
 * long as that is, so that it can be copied.
 */
#ifndef XDPLAB_TRAITS_BPF_H
#define XDPLAB_TRAITS_BPF_H

/* As in errno.h, which not every BPF program can include. */
#ifndef ENOENT
#define ENOENT 2
#endif
#ifndef EBUSY
#define EBUSY 16
#endif
#ifndef EINVAL
#define EINVAL 22
#endif
#ifndef ENOSPC
#define ENOSPC 28
#endif

#define TRAITS_KEYS 64
#define TRAITS_HEADER_BYTES 16

#define TRAITS_INLINE static inline __attribute__((always_inline))
/* Global, so that it is verified on its own; weak, so that objects that have it can be linked. */
#define TRAITS_FUNCTION __attribute__((noinline, weak))

/* Values have any type and lie at even offsets, whatever that is in memory. */
typedef __u64 __attribute__((may_alias)) traits_u64;
typedef __u32 __attribute__((may_alias)) traits_u32;
typedef __u16 __attribute__((may_alias)) traits_u16;
#define TRAITS_U64(at) (*(traits_u64 *)(at))
#define TRAITS_U32(at) (*(traits_u32 *)(at))
#define TRAITS_U16(at) (*(traits_u16 *)(at))

struct traits_keys {
	__u64 high;
	__u64 low;
};

/*
 * An offset into the area, 528 at most. The verifier wants to see it masked; the barriers keep the
 * compiler from finding that the mask changes nothing, and from masking another register.
 */
TRAITS_INLINE __u64 traits_bounded(__u64 offset)
{
	__asm__ volatile("" : "+r"(offset));
	offset &= 1023;
	__asm__ volatile("" : "+r"(offset));
	return offset;
}

/* Points `pointer` at `bytes` bytes at an offset into the area; -EINVAL if it ends before that. */
#define TRAITS_PLACE(pointer, offset, bytes)                                                      \
	do {                                                                                      \
		pointer = area + traits_bounded(offset);                                          \
		if (pointer + (bytes) > end)                                                      \
			return -EINVAL;                                                           \
	} while (0)

TRAITS_INLINE __u64 traits_count(__u64 keys)
{
	keys -= (keys >> 1) & 0x5555555555555555ULL;
	keys = (keys & 0x3333333333333333ULL) + ((keys >> 2) & 0x3333333333333333ULL);
	keys = (keys + (keys >> 4)) & 0x0f0f0f0f0f0f0f0fULL;
	return keys * 0x0101010101010101ULL >> 56;
}

/* Masks of 32 bits are part of an instruction; those of 64 are instructions of their own. */
TRAITS_INLINE __u32 traits_count_32(__u32 keys)
{
	keys -= (keys >> 1) & 0x55555555;
	keys = (keys & 0x33333333) + ((keys >> 2) & 0x33333333);
	keys = (keys + (keys >> 4)) & 0x0f0f0f0f;
	return keys * 0x01010101 >> 24;
}

/*
 * Bytes of the values of these keys, 63 at most: 2 * count(low) + 4 * count(high) + 2 * count(both),
 * counted together. A field of four bits has four keys: up to 8 of low and both, 4 of high. One of
 * eight has their weighted sum, up to 32, and the multiplication adds the eight fields.
 */
TRAITS_INLINE __u64 traits_bytes(__u64 high, __u64 low)
{
	const __u64 m1 = 0x5555555555555555ULL, m2 = 0x3333333333333333ULL;
	const __u64 m4 = 0x0f0f0f0f0f0f0f0fULL;
	__u64 both = high & low;

	/* All values have eight bytes: a third of the work. */
	if (high == low)
		return 8 * traits_count(low);
	low -= (low >> 1) & m1;
	high -= (high >> 1) & m1;
	both -= (both >> 1) & m1;
	low = (low & m2) + ((low >> 2) & m2) + (both & m2) + ((both >> 2) & m2);
	high = (high & m2) + ((high >> 2) & m2);
	low = (low & m4) + ((low >> 4) & m4);
	high = (high + (high >> 4)) & m4;
	return 2 * ((low + 2 * high) * 0x0101010101010101ULL >> 56);
}

/* Those of `keys` that are below `key`, shifted up: that leaves their number as it is. */
TRAITS_INLINE __u64 traits_below(__u64 keys, __u64 key)
{
	return keys << 1 << (TRAITS_KEYS - 1 - key);
}

TRAITS_INLINE __u64 traits_above(__u64 keys, __u64 key)
{
	return keys >> 1 >> key;
}

TRAITS_INLINE __u64 traits_offset(__u64 high, __u64 low, __u64 key)
{
	if (!traits_below(high | low, key))
		return TRAITS_HEADER_BYTES;
	return TRAITS_HEADER_BYTES + traits_bytes(traits_below(high, key), traits_below(low, key));
}

/* How many of `keys` are above `key`. */
TRAITS_INLINE __u64 traits_behind(__u64 keys, __u64 key)
{
	if (__builtin_constant_p(key) && key >= 31)
		return traits_count_32(traits_above(keys, key));
	return traits_count(traits_above(keys, key));
}

/* Moves that many bytes of values to another offset, where the two may overlap. */
TRAITS_FUNCTION int traits_move(struct xdp_md *ctx, __u64 from, __u64 to, __u64 bytes)
{
	char *area = (char *)(long)ctx->data_meta, *end = (char *)(long)ctx->data;
	char *source, *target;
	__u64 done = 0;

	bytes &= 1023;
	if (to > from) {
#pragma clang loop unroll(disable)
		for (int step = 0; step < TRAITS_KEYS; step++) {
			if (bytes < 8)
				break;
			bytes -= 8;
			TRAITS_PLACE(source, from + bytes, 8);
			TRAITS_PLACE(target, to + bytes, 8);
			TRAITS_U64(target) = TRAITS_U64(source);
		}
		if (bytes & 4) {
			bytes -= 4;
			TRAITS_PLACE(source, from + bytes, 4);
			TRAITS_PLACE(target, to + bytes, 4);
			TRAITS_U32(target) = TRAITS_U32(source);
		}
		if (bytes & 2) {
			TRAITS_PLACE(source, from, 2);
			TRAITS_PLACE(target, to, 2);
			TRAITS_U16(target) = TRAITS_U16(source);
		}
		return 0;
	}
#pragma clang loop unroll(disable)
	for (int step = 0; step < TRAITS_KEYS; step++) {
		if (bytes < 8)
			break;
		TRAITS_PLACE(source, from + done, 8);
		TRAITS_PLACE(target, to + done, 8);
		TRAITS_U64(target) = TRAITS_U64(source);
		bytes -= 8;
		done += 8;
	}
	if (bytes & 4) {
		TRAITS_PLACE(source, from + done, 4);
		TRAITS_PLACE(target, to + done, 4);
		TRAITS_U32(target) = TRAITS_U32(source);
		done += 4;
	}
	if (bytes & 2) {
		TRAITS_PLACE(source, from + done, 2);
		TRAITS_PLACE(target, to + done, 2);
		TRAITS_U16(target) = TRAITS_U16(source);
	}
	return 0;
}

/* traits_set as a function: any key and length, and the rest of the area whatever it is. */
TRAITS_FUNCTION int traits_set_any(struct xdp_md *ctx, __u64 key, __u64 value, __u64 bytes)
{
	char *area = (char *)(long)ctx->data_meta, *end = (char *)(long)ctx->data, *at;
	struct traits_keys *keys = (void *)area;
	__u64 high, low, bit, offset;

	if (key >= TRAITS_KEYS || (bytes != 2 && bytes != 4 && bytes != 8))
		return -EINVAL;
	if ((char *)(keys + 1) > end)
		return -ENOSPC;
	high = keys->high;
	low = keys->low;
	bit = 1ULL << key;
	offset = traits_offset(high, low, key);
	if ((high | low) & bit) {
		if (!(high & bit) != (bytes == 2) || !(low & bit) != (bytes == 4))
			return -EBUSY;
	} else {
		__u64 moved = traits_bytes(traits_above(high, key), traits_above(low, key));

		if (area + traits_bounded(offset + moved + bytes) > end)
			return -ENOSPC;
		if (traits_move(ctx, offset, offset + bytes, moved))
			return -EINVAL;
		if (bytes != 2)
			keys->high = high | bit;
		if (bytes != 4)
			keys->low = low | bit;
	}
	if (bytes == 8) {
		TRAITS_PLACE(at, offset, 8);
		TRAITS_U64(at) = value;
	} else if (bytes == 4) {
		TRAITS_PLACE(at, offset, 4);
		TRAITS_U32(at) = value;
	} else {
		TRAITS_PLACE(at, offset, 2);
		TRAITS_U16(at) = value;
	}
	return 0;
}

/* traits_del as a function. */
TRAITS_FUNCTION int traits_del_any(struct xdp_md *ctx, __u64 key)
{
	char *area = (char *)(long)ctx->data_meta, *end = (char *)(long)ctx->data;
	struct traits_keys *keys = (void *)area;
	__u64 high, low, bit, offset, bytes, moved;

	if (key >= TRAITS_KEYS)
		return -EINVAL;
	if ((char *)(keys + 1) > end)
		return -ENOENT;
	high = keys->high;
	low = keys->low;
	bit = 1ULL << key;
	if (!((high | low) & bit))
		return -ENOENT;
	offset = traits_offset(high, low, key);
	bytes = high & low & bit ? 8 : high & bit ? 4 : 2;
	moved = traits_bytes(traits_above(high, key), traits_above(low, key));
	if (area + traits_bounded(offset + bytes + moved) > end)
		return -EINVAL;
	if (traits_move(ctx, offset + bytes, offset, moved))
		return -EINVAL;
	keys->high = high & ~bit;
	keys->low = low & ~bit;
	return 0;
}

/*
 * Inlined moves are of a constant number of words, as many as the values if all have eight bytes,
 * rounded up: beyond the last value they move free bytes, which costs less than counting exactly.
 */
/* Keeps what ends alike apart: the compiler would join it, with variables for the offsets. */
#define TRAITS_APART(number) __asm__ volatile("" : : "i"(number))

TRAITS_INLINE void traits_move_up(char *at, const __u64 by, const int words)
{
#pragma clang loop unroll(full)
	for (int word = words - 1; word >= 0; word--)
		TRAITS_U64(at + 8 * word + by) = TRAITS_U64(at + 8 * word);
	TRAITS_APART(words);
}

TRAITS_INLINE void traits_move_down(char *at, const char *from, const int words)
{
#pragma clang loop unroll(full)
	for (int word = 0; word < words; word++)
		TRAITS_U64(at + 8 * word) = TRAITS_U64(from + 8 * word);
	TRAITS_APART(words);
}

/* Sets a value of a length that the compiler knows. */
TRAITS_INLINE int traits_set_constant(struct xdp_md *ctx, __u64 key, __u64 value, const __u64 bytes)
{
	char *area = (char *)(long)ctx->data_meta, *end = (char *)(long)ctx->data, *at;
	struct traits_keys *keys = (void *)area;
	__u64 high, low, bit, behind;

	if (key >= TRAITS_KEYS)
		return -EINVAL;
	if ((char *)(keys + 1) > end)
		return -ENOSPC;
	high = keys->high;
	low = keys->low;
	bit = 1ULL << key;
	at = area + traits_bounded(traits_offset(high, low, key));
	if ((bytes != 2 ? high : ~high) & (bytes != 4 ? low : ~low) & bit) {
		if (at + bytes > end)
			return -EINVAL;
	} else {
		if ((high | low) & bit)
			return -EBUSY;
		behind = traits_behind(high | low, key);
		if (behind > 8) {
			if (behind > 16 || at + 8 * 16 + bytes > end)
				return traits_set_any(ctx, key, value, bytes);
			traits_move_up(at, bytes, 16);
		} else if (behind > 4) {
			if (at + 8 * 8 + bytes > end)
				return traits_set_any(ctx, key, value, bytes);
			traits_move_up(at, bytes, 8);
		} else {
			if (at + 8 * 4 + bytes > end)
				return traits_set_any(ctx, key, value, bytes);
			if (behind)
				traits_move_up(at, bytes, 4);
		}
		if (bytes != 2)
			keys->high = high | bit;
		if (bytes != 4)
			keys->low = low | bit;
	}
	if (bytes == 8)
		TRAITS_U64(at) = value;
	else if (bytes == 4)
		TRAITS_U32(at) = value;
	else
		TRAITS_U16(at) = value;
	return 0;
}

/*
 * The metadata becomes an empty store of `area_bytes` bytes, whatever was there: a multiple of 4
 * from 16 on, of 8 for speed. 0, -EINVAL, or the negative error of bpf_xdp_adjust_meta: no driver
 * has room for more than 216, older kernels refuse more than 32. Pointers into the packet are void
 * behind it.
 */
TRAITS_INLINE int traits_init(struct xdp_md *ctx, __u32 area_bytes)
{
	/* Its number is ABI; who includes this may have declared it, or not. */
	long (*const adjust_meta)(struct xdp_md *ctx, int delta) = (void *)54;
	long present = (char *)(long)ctx->data - (char *)(long)ctx->data_meta;
	struct traits_keys *keys;
	long error;

	if (area_bytes < TRAITS_HEADER_BYTES || area_bytes % 4)
		return -EINVAL;
	/* A difference of pointers takes all 64 bits. */
	__asm__ volatile("" : "+r"(present));
	error = adjust_meta(ctx, present - area_bytes);
	if (error)
		return error;
	keys = (void *)(long)ctx->data_meta;
	if ((void *)(keys + 1) > (void *)(long)ctx->data)
		return -EINVAL;
	keys->high = 0;
	keys->low = 0;
	return 0;
}

/*
 * Sets a key to a value of 2, 4 or 8 bytes; `flags` is for later and 0. Returns 0, or -EINVAL (key
 * above 63, length, flags), -EBUSY (the key has a value of another length), -ENOSPC (no room; then
 * nothing has moved).
 */
TRAITS_INLINE int traits_set(struct xdp_md *ctx, __u64 key, const void *value, __u64 bytes,
			     __u64 flags)
{
	__u64 number;

	if (flags)
		return -EINVAL;
	if (bytes == 8)
		number = TRAITS_U64(value);
	else if (bytes == 4)
		number = TRAITS_U32(value);
	else if (bytes == 2)
		number = TRAITS_U16(value);
	else
		return -EINVAL;
	if (!__builtin_constant_p(bytes))
		return traits_set_any(ctx, key, number, bytes);
	return traits_set_constant(ctx, key, number, bytes);
}

/*
 * traits_get for who has no struct xdp_md: a tc program gives skb->data_meta and skb->data, where
 * the area begins and ends.
 */
TRAITS_INLINE int traits_get_from(void *begin, void *finish, __u64 key, void *value, __u64 bytes)
{
	char *area = begin, *end = finish, *at;
	struct traits_keys *keys = begin;
	__u64 high, low, bit, offset;

	if (key >= TRAITS_KEYS)
		return -EINVAL;
	if ((char *)(keys + 1) > end)
		return -ENOENT;
	high = keys->high;
	low = keys->low;
	bit = 1ULL << key;
	if (!((high | low) & bit))
		return -ENOENT;
	offset = traits_offset(high, low, key);
	if (high & low & bit) {
		if (bytes < 8)
			return -ENOSPC;
		TRAITS_PLACE(at, offset, 8);
		TRAITS_U64(value) = TRAITS_U64(at);
		return 8;
	}
	if (high & bit) {
		if (bytes < 4)
			return -ENOSPC;
		TRAITS_PLACE(at, offset, 4);
		TRAITS_U32(value) = TRAITS_U32(at);
		return 4;
	}
	if (bytes < 2)
		return -ENOSPC;
	TRAITS_PLACE(at, offset, 2);
	TRAITS_U16(value) = TRAITS_U16(at);
	return 2;
}

/*
 * Copies the value of a key to a buffer of `bytes` bytes. Returns the value's length, or -EINVAL
 * (key above 63), -ENOENT (not set), -ENOSPC (the buffer is smaller than the value).
 */
TRAITS_INLINE int traits_get(struct xdp_md *ctx, __u64 key, void *value, __u64 bytes)
{
	return traits_get_from((void *)(long)ctx->data_meta, (void *)(long)ctx->data, key, value,
			       bytes);
}

/* Unsets a key. Returns 0, or -EINVAL (key above 63), -ENOENT (not set). */
TRAITS_INLINE int traits_del(struct xdp_md *ctx, __u64 key)
{
	char *area = (char *)(long)ctx->data_meta, *end = (char *)(long)ctx->data, *at, *from;
	struct traits_keys *keys = (void *)area;
	__u64 high, low, bit, behind, bytes;

	if (key >= TRAITS_KEYS)
		return -EINVAL;
	if ((char *)(keys + 1) > end)
		return -ENOENT;
	high = keys->high;
	low = keys->low;
	bit = 1ULL << key;
	if (!((high | low) & bit))
		return -ENOENT;
	at = area + traits_bounded(traits_offset(high, low, key));
	bytes = high & low & bit ? 8 : high & bit ? 4 : 2;
	/* One move by a variable distance, not three: the compiler would make them one again. */
	__asm__ volatile("" : "+r"(bytes));
	from = at + bytes;
	behind = traits_behind(high | low, key);
	if (behind > 8) {
		if (behind > 16 || at + 8 * 16 > end || from + 8 * 16 > end)
			return traits_del_any(ctx, key);
		traits_move_down(at, from, 16);
	} else if (behind > 4) {
		if (at + 8 * 8 > end || from + 8 * 8 > end)
			return traits_del_any(ctx, key);
		traits_move_down(at, from, 8);
	} else if (behind) {
		if (at + 8 * 4 > end || from + 8 * 4 > end)
			return traits_del_any(ctx, key);
		traits_move_down(at, from, 4);
	} else if (from > end) {
		return -EINVAL;
	}
	keys->high = high & ~bit;
	keys->low = low & ~bit;
	return 0;
}

/* Whether a key is set: 0 or 1, or -EINVAL (key above 63). */
TRAITS_INLINE int traits_is_set(struct xdp_md *ctx, __u64 key)
{
	struct traits_keys *keys = (void *)(long)ctx->data_meta;

	if (key >= TRAITS_KEYS)
		return -EINVAL;
	if ((void *)(keys + 1) > (void *)(long)ctx->data)
		return 0;
	return (keys->high | keys->low) >> key & 1;
}

#endif
