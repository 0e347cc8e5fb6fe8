/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Dynptrs (kernel/bpf/helpers.c): 16 bytes on the program's stack, laid out as the kernel's. */

#define DYNPTR_SIZE_MASK 0xffffffu
#define DYNPTR_TYPE_SHIFT 28
#define DYNPTR_READ_ONLY (1u << 31)

enum { DYNPTR_LOCAL = 1, DYNPTR_RINGBUF = 2, DYNPTR_XDP = 4 };

struct dynptr {
	u8 *data;             /* the frame for DYNPTR_XDP */
	u32 size;             /* and type, and whether it may be written */
	u32 offset;
};

#define DYNPTR(value) ((struct dynptr *)(unsigned long)(value))

inline_always u32 dynptr_type(const struct dynptr *dynptr)
{
	return (dynptr->size & ~DYNPTR_READ_ONLY) >> DYNPTR_TYPE_SHIFT;
}

inline_always void dynptr_set(struct dynptr *dynptr, void *data, u32 type, u32 size)
{
	dynptr->data = data;
	dynptr->size = size | type << DYNPTR_TYPE_SHIFT;
	dynptr->offset = 0;
}

inline_always u64 dynptr_refuse(struct dynptr *dynptr, s64 error)
{
	clear_bytes(dynptr, sizeof(*dynptr));
	return error;
}

inline_always int dynptr_holds(const struct dynptr *dynptr, u64 offset, u64 bytes)
{
	u32 size = dynptr->size & DYNPTR_SIZE_MASK;

	return bytes <= size && offset <= size - bytes;
}

HELPER(dynptr_from_mem)
{
	if (r2 > DYNPTR_SIZE_MASK)
		return dynptr_refuse(DYNPTR(r4), -E2BIG);
	if (r3)
		return dynptr_refuse(DYNPTR(r4), -EINVAL);
	dynptr_set(DYNPTR(r4), BYTES(r1), DYNPTR_LOCAL, (u32)r2);
	return 0;
}

HELPER(dynptr_from_xdp)
{
	if (r2)
		return dynptr_refuse(DYNPTR(r3), -EINVAL);
	dynptr_set(DYNPTR(r3), frame, DYNPTR_XDP, frame_bytes(frame));
	return 0;
}

HELPER(ringbuf_reserve_dynptr)
{
	u8 *record;

	if (r3)
		return dynptr_refuse(DYNPTR(r4), -EINVAL);
	if ((u32)r2 > DYNPTR_SIZE_MASK)
		return dynptr_refuse(DYNPTR(r4), -E2BIG);
	record = ring_reserve(MAP(r1)->inside, (u32)r2);
	if (!record)
		return dynptr_refuse(DYNPTR(r4), -EINVAL);
	dynptr_set(DYNPTR(r4), record, DYNPTR_RINGBUF, (u32)r2);
	return 0;
}

HELPER(ringbuf_submit_dynptr)
{
	if (DYNPTR(r1)->data && dynptr_type(DYNPTR(r1)) == DYNPTR_RINGBUF)
		ring_commit(DYNPTR(r1)->data, 0);
	return dynptr_refuse(DYNPTR(r1), 0);
}

HELPER(ringbuf_discard_dynptr)
{
	if (DYNPTR(r1)->data && dynptr_type(DYNPTR(r1)) == DYNPTR_RINGBUF)
		ring_commit(DYNPTR(r1)->data, RING_DISCARD);
	return dynptr_refuse(DYNPTR(r1), 0);
}

HELPER(dynptr_read)
{
	const struct dynptr *from = DYNPTR(r3);
	u64 bytes = r2, offset = r4;

	if (!from->data || r5)
		return -EINVAL;
	if (!dynptr_holds(from, offset, bytes))
		return -E2BIG;
	if (dynptr_type(from) == DYNPTR_XDP)
		return load_bytes((struct user_frame *)from->data, from->offset + (u32)offset,
				  BYTES(r1), (u32)bytes);
	move_bytes(BYTES(r1), from->data + from->offset + offset, bytes);
	return 0;
}

HELPER(dynptr_write)
{
	const struct dynptr *to = DYNPTR(r1);
	u64 offset = r2, bytes = r4;

	if (!to->data || to->size & DYNPTR_READ_ONLY)
		return -EINVAL;
	if (!dynptr_holds(to, offset, bytes))
		return -E2BIG;
	if (r5)
		return -EINVAL;
	if (dynptr_type(to) == DYNPTR_XDP)
		return store_bytes((struct user_frame *)to->data, to->offset + (u32)offset,
				   BYTES(r3), (u32)bytes);
	move_bytes(to->data + to->offset + offset, BYTES(r3), bytes);
	return 0;
}

HELPER(dynptr_data)
{
	const struct dynptr *dynptr = DYNPTR(r1);

	if (!dynptr->data || !dynptr_holds(dynptr, r2, r3) || dynptr->size & DYNPTR_READ_ONLY ||
	    dynptr_type(dynptr) == DYNPTR_XDP)
		return 0;
	return U64(dynptr->data + dynptr->offset + r2);
}

/* r3: where the bytes are copied to when they do not lie in one piece; NULL gives up then. */
HELPER(dynptr_slice)
{
	const struct dynptr *dynptr = DYNPTR(r1);
	struct user_frame *from;
	u32 offset = (u32)r2, bytes = (u32)r4;
	u8 *found;
	s64 error;

	if (!dynptr->data || !dynptr_holds(dynptr, r2, r4))
		return 0;
	if (dynptr_type(dynptr) != DYNPTR_XDP)
		return U64(dynptr->data + dynptr->offset + offset);
	from = (struct user_frame *)dynptr->data;
	found = frame_pointer(from, dynptr->offset + offset, bytes, &error);
	if (found || !r3)
		return U64(found);
	copy_across(from, dynptr->offset + offset, BYTES(r3), bytes, 0);
	return r3;
}

HELPER(dynptr_slice_rdwr)
{
	if (DYNPTR(r1)->size & DYNPTR_READ_ONLY)
		return 0;
	return user_helper_dynptr_slice(frame, r1, r2, r3, r4, r5);
}

HELPER(dynptr_adjust)
{
	struct dynptr *dynptr = DYNPTR(r1);
	u64 start = r2, end = r3, size = dynptr->size & DYNPTR_SIZE_MASK;

	if (!dynptr->data || start > end)
		return -EINVAL;
	if (start > size || end > size)
		return -ERANGE;
	dynptr->offset += (u32)start;
	dynptr->size = (dynptr->size & ~DYNPTR_SIZE_MASK) | (u32)(end - start);
	return 0;
}

HELPER(dynptr_is_null)
{
	return !DYNPTR(r1)->data;
}

HELPER(dynptr_is_rdonly)
{
	return DYNPTR(r1)->data && DYNPTR(r1)->size & DYNPTR_READ_ONLY;
}

HELPER(dynptr_size)
{
	return DYNPTR(r1)->data ? DYNPTR(r1)->size & DYNPTR_SIZE_MASK : (u64)-EINVAL;
}

HELPER(dynptr_clone)
{
	if (!DYNPTR(r1)->data)
		return dynptr_refuse(DYNPTR(r2), -EINVAL);
	*DYNPTR(r2) = *DYNPTR(r1);
	return 0;
}
