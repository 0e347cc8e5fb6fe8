/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Helpers on the frame: what bpf_xdp_* of net/core/filter.c do to a struct xdp_buff, with the same
 * refusals in the same order.
 */

#define ETHERNET_BYTES 14
#define METADATA_BYTES 255 /* what skb_shared_info's meta_len holds */

inline_always int has_no_metadata(const struct user_frame *frame)
{
	return frame->data_meta > frame->data;
}

inline_always u64 metadata_bytes(const struct user_frame *frame)
{
	return has_no_metadata(frame) ? 0 : (u64)(frame->data - frame->data_meta);
}

static u32 frame_bytes(const struct user_frame *frame)
{
	u32 bytes = (u32)(frame->data_end - frame->data);

	for (u32 i = 0; i < frame->frag_count; i++)
		bytes += frame->frags[i].bytes;
	return bytes;
}

inline_always void clear_words(u8 *to, u64 bytes)
{
	while (bytes >= 8) {
		write_u64(to, 0);
		keep_loop();
		to += 8;
		bytes -= 8;
	}
	if (bytes & 4) {
		write_u32(to, 0);
		to += 4;
	}
	if (bytes & 2) {
		clear_bytes(to, 2);
		to += 2;
	}
	if (bytes & 1)
		*to = 0;
}

inline_always void clear_constant(u8 *to, u64 bytes)
{
	switch (bytes) {
#define CASE(n) case n: clear_bytes(to, n); return
	CASE(4);
	CASE(8);
	CASE(12);
	CASE(14);
	CASE(16);
	CASE(20);
	CASE(24);
	CASE(28);
	CASE(32);
	CASE(36);
	CASE(40);
	CASE(48);
	CASE(50);
	CASE(54);
	CASE(64);
#undef CASE
	default:
		clear_words(to, bytes);
	}
}

inline_always void clear_rep_stosb(u8 *to, u64 bytes)
{
#ifdef __x86_64__
	__asm__ volatile("rep stosb" : "+D"(to), "+c"(bytes) : "a"(0) : "memory");
#else
	clear_bytes(to, bytes);
#endif
}

inline_always void clear_exposed(u32 how, u8 *to, u64 bytes)
{
	switch (how) {
	case USER_CLEAR_MEMSET:
		clear_bytes(to, bytes);
		break;
	case USER_CLEAR_REP_STOSB:
		clear_rep_stosb(to, bytes);
		break;
	case USER_CLEAR_WORDS:
		clear_words(to, bytes);
		break;
	case USER_CLEAR_CONSTANT:
		clear_constant(to, bytes);
		break;
	}
}

/* Metadata is a multiple of four bytes; a move towards the front goes upwards, and back. */
inline_always void move_metadata(u32 how, u8 *to, const u8 *from, u64 bytes)
{
	if (how == USER_MOVE_MEMMOVE) {
		move_bytes(to, from, bytes);
	} else if (to < from) {
		u64 at = 0;

		for (; at + 8 <= bytes; at += 8) {
			write_u64(to + at, read_u64(from + at));
			keep_loop();
		}
		if (at < bytes)
			write_u32(to + at, read_u32(from + at));
	} else {
		for (; bytes >= 8; bytes -= 8) {
			write_u64(to + bytes - 8, read_u64(from + bytes - 8));
			keep_loop();
		}
		if (bytes)
			write_u32(to, read_u32(from));
	}
}

/* `clear` and `move` are constants wherever this is inlined but once. */
inline_always u64 adjust_head(struct user_frame *frame, s64 offset, u32 clear, u32 move)
{
	u64 metadata = metadata_bytes(frame);
	u8 *start = frame->hard_start + USER_XDP_FRAME_BYTES + metadata;
	u8 *data = frame->data + offset;

	if (unlikely(data < start || data > frame->data_end - ETHERNET_BYTES))
		return -EINVAL;
	if (metadata)
		move_metadata(move, frame->data_meta + offset, frame->data_meta, metadata);
	if (offset < 0)
		clear_exposed(clear, data, -offset);
	frame->data_meta += offset;
	frame->data = data;
	return 0;
}

static __attribute__((noinline)) u64 adjust_head_as_set(struct user_frame *frame, s64 offset)
{
	return adjust_head(frame, offset, frame->state->clear_head, frame->state->trait_move);
}

HELPER(xdp_adjust_head)
{
	if (unlikely(frame->state->clear_head | frame->state->trait_move))
		return adjust_head_as_set(frame, (s32)r2);
	return adjust_head(frame, (s32)r2, USER_CLEAR_NONE, USER_MOVE_MEMMOVE);
}

/*
 * The same as one function each, as a kernel with that change would have it: what a comparison
 * calls, so that nothing but the change differs. They do not look at the state.
 */
#define ADJUST_HEAD(variant, clear, move) \
	u64 user_variant_xdp_adjust_head_##variant(REGISTERS); \
	u64 user_variant_xdp_adjust_head_##variant(REGISTERS) \
	{ \
		return adjust_head(frame, (s32)r2, clear, move); \
	}

ADJUST_HEAD(none, USER_CLEAR_NONE, USER_MOVE_MEMMOVE)
ADJUST_HEAD(memset, USER_CLEAR_MEMSET, USER_MOVE_MEMMOVE)
ADJUST_HEAD(rep_stosb, USER_CLEAR_REP_STOSB, USER_MOVE_MEMMOVE)
ADJUST_HEAD(words, USER_CLEAR_WORDS, USER_MOVE_MEMMOVE)
ADJUST_HEAD(constant, USER_CLEAR_CONSTANT, USER_MOVE_MEMMOVE)
ADJUST_HEAD(move_words, USER_CLEAR_NONE, USER_MOVE_WORDS)

HELPER(xdp_adjust_meta)
{
	u8 *meta = frame->data_meta + (s32)r2;
	u64 bytes = frame->data - meta;

	if (has_no_metadata(frame))
		return -ENOTSUPP;
	if (unlikely(meta < frame->hard_start + USER_XDP_FRAME_BYTES || meta > frame->data))
		return -EINVAL;
	if (unlikely(bytes % 4 || bytes > METADATA_BYTES))
		return -EACCES;
	frame->data_meta = meta;
	return 0;
}

static u64 grow_last_frag(struct user_frame *frame, u32 offset)
{
	struct user_frag *frag = &frame->frags[frame->frag_count - 1];

	if (!frag->room_bytes)
		return -EOPNOTSUPP;
	if (unlikely(offset > frag->room_bytes - frag->bytes))
		return -EINVAL;
	clear_bytes(frag->data + frag->bytes, offset);
	frag->bytes += offset;
	return 0;
}

static u64 shrink_frags(struct user_frame *frame, u32 offset)
{
	if (unlikely((s32)offset > (s32)frame_bytes(frame) - ETHERNET_BYTES))
		return -EINVAL;
	while (frame->frag_count && offset) {
		struct user_frag *frag = &frame->frags[frame->frag_count - 1];

		if (offset < frag->bytes) {
			frag->bytes -= offset;
			return 0;
		}
		offset -= frag->bytes;
		frame->frag_count--;
	}
	if (!frame->frag_count)
		frame->data_end -= offset;
	return 0;
}

HELPER(xdp_adjust_tail)
{
	s64 offset = (s32)r2;
	u8 *end = frame->data_end + offset;

	if (unlikely(frame->frag_count)) {
		if (offset < 0)
			return shrink_frags(frame, (u32)-offset);
		return grow_last_frag(frame, (u32)offset);
	}
	if (unlikely(end > frame->hard_end - USER_TAILROOM_BYTES))
		return -EINVAL;
	if (unlikely(end < frame->data + ETHERNET_BYTES))
		return -EINVAL;
	if (offset > 0)
		clear_bytes(frame->data_end, offset);
	frame->data_end = end;
	return 0;
}

/*
 * Where `bytes` bytes from `offset` on lie in one piece; NULL where they span parts. An error is
 * in *error.
 */
inline_always u8 *frame_pointer(const struct user_frame *frame, u32 offset, u32 bytes, s64 *error)
{
	u32 size = (u32)(frame->data_end - frame->data);
	u8 *start = frame->data;

	*error = 0;
	if (unlikely(offset > 0xffff || bytes > 0xffff)) {
		*error = -EFAULT;
		return NULL;
	}
	if (unlikely(offset + bytes > (frame->frag_count ? frame_bytes(frame) : size))) {
		*error = -EINVAL;
		return NULL;
	}
	if (unlikely(offset >= size)) {
		offset -= size;
		for (u32 i = 0; i < frame->frag_count; i++) {
			size = frame->frags[i].bytes;
			start = frame->frags[i].data;
			if (offset < size)
				break;
			offset -= size;
		}
	}
	return offset + bytes <= size ? start + offset : NULL;
}

/* Copies across parts; the caller has checked that they hold that much. */
static void copy_across(struct user_frame *frame, u32 offset, u8 *memory, u32 bytes, int store)
{
	u32 size = (u32)(frame->data_end - frame->data);
	u8 *start = frame->data;

	for (u32 next = 0; bytes; next++) {
		if (offset < size) {
			u32 piece = min_of(bytes, size - offset);

			if (store)
				move_bytes(start + offset, memory, piece);
			else
				move_bytes(memory, start + offset, piece);
			memory += piece;
			offset += piece;
			bytes -= piece;
		}
		if (!bytes || next == frame->frag_count)
			return;
		offset -= size;
		size = frame->frags[next].bytes;
		start = frame->frags[next].data;
	}
}

inline_always s64 load_bytes(struct user_frame *frame, u32 offset, u8 *to, u32 bytes)
{
	s64 error;
	u8 *from = frame_pointer(frame, offset, bytes, &error);

	if (unlikely(error))
		return error;
	if (likely(from))
		copy_bytes(to, from, bytes);
	else
		copy_across(frame, offset, to, bytes, 0);
	return 0;
}

inline_always s64 store_bytes(struct user_frame *frame, u32 offset, u8 *from, u32 bytes)
{
	s64 error;
	u8 *to = frame_pointer(frame, offset, bytes, &error);

	if (unlikely(error))
		return error;
	if (likely(to))
		copy_bytes(to, from, bytes);
	else
		copy_across(frame, offset, from, bytes, 1);
	return 0;
}

HELPER(xdp_load_bytes)
{
	return load_bytes(frame, (u32)r2, BYTES(r3), (u32)r4);
}

HELPER(xdp_store_bytes)
{
	return store_bytes(frame, (u32)r2, BYTES(r3), (u32)r4);
}

HELPER(xdp_get_buff_len)
{
	return frame_bytes(frame);
}

/* The kfunc: makes the first `r2` bytes linear, out of the frags. */
HELPER(xdp_pull_data)
{
	u32 wanted = (u32)r2, linear = (u32)(frame->data_end - frame->data), gone = 0;
	u8 *start = has_no_metadata(frame) ? frame->data : frame->data_meta;
	s64 delta, headroom, tailroom, shift;

	if (wanted <= linear)
		return 0;
	if (unlikely(wanted > frame_bytes(frame)))
		return -EINVAL;
	headroom = start - frame->hard_start - USER_XDP_FRAME_BYTES;
	tailroom = frame->hard_end - USER_TAILROOM_BYTES - frame->data_end;
	delta = (s64)wanted - linear;
	if (unlikely(delta > tailroom + headroom))
		return -EINVAL;
	shift = delta - tailroom;
	if (shift > 0) {
		move_bytes(start - shift, start, frame->data_end - start);
		frame->data_meta -= shift;
		frame->data -= shift;
		frame->data_end -= shift;
	}
	while (delta) {
		struct user_frag *frag = &frame->frags[gone];
		u32 piece = min_of((u32)delta, frag->bytes);

		copy_bytes(frame->data_end, frag->data, piece);
		frame->data_end += piece;
		delta -= piece;
		if (piece < frag->bytes) {
			frag->data += piece;
			frag->bytes -= piece;
			if (frag->room_bytes)
				frag->room_bytes -= piece;
			break;
		}
		gone++;
	}
	if (gone) {
		frame->frag_count -= gone;
		move_bytes(frame->frags, frame->frags + gone,
			   frame->frag_count * sizeof(frame->frags[0]));
	}
	return 0;
}
