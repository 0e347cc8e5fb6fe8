/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Helpers that call back, and iterators. A callback that faults ends the loop. */

#define LOOPS_MAX (8u << 20)

HELPER(loop)
{
	callback_fn callback = (callback_fn)(unsigned long)r2;
	const struct user_state *state = frame->state;
	u32 count = (u32)r1;

	if (r4)
		return -EINVAL;
	if (count > LOOPS_MAX)
		return -E2BIG;
	for (u32 i = 0; i < count; i++) {
		if (callback(frame, i, r3, 0, 0, 0) || unlikely(state->fault))
			return i + 1;
	}
	return count;
}

static u64 each_array_entry(struct user_frame *frame, struct user_map *map, callback_fn callback,
			    u64 context)
{
	u64 calls = 0;

	for (u32 i = 0; i < map->max_entries; i++) {
		/* A key of the callback's own, as in the kernel: it may write to it. */
		u32 key = i;
		u8 *value = array_lookup(map, &i, frame->state->cpu);

		calls++;
		if (callback(frame, U64(map), U64(&key), U64(value), context, 0) ||
		    frame->state->fault)
			break;
	}
	return calls;
}

static u64 each_hash_entry(struct user_frame *frame, struct user_map *map, callback_fn callback,
			   u64 context)
{
	const struct hash_map *hash = map->inside;
	u64 calls = 0;

	for (u64 bucket = 0; bucket <= hash->mask; bucket++) {
		struct hash_elem *elem = hash_elem(hash, hash->buckets[bucket]);

		while (elem) {
			/* The callback may delete the entry. */
			struct hash_elem *next = hash_elem(hash, elem->next);
			u8 *value = hash_value(hash, elem) + map->cpu_stride * frame->state->cpu;

			calls++;
			if (callback(frame, U64(map), U64(elem->key), U64(value), context, 0) ||
			    frame->state->fault)
				return calls;
			elem = next;
		}
	}
	return calls;
}

HELPER(for_each_map_elem)
{
	callback_fn callback = (callback_fn)(unsigned long)r2;

	if (r4)
		return -EINVAL;
	switch (MAP(r1)->type) {
	ARRAY_CASES:
		return each_array_entry(frame, MAP(r1), callback, r3);
	HASH_CASES:
	LRU_CASES:
		return each_hash_entry(frame, MAP(r1), callback, r3);
	default:
		return -EINVAL;
	}
}

struct number_iterator {
	s32 current;
	s32 end;
};

HELPER(iter_num_new)
{
	struct number_iterator *iterator = (struct number_iterator *)BYTES(r1);
	s32 start = (s32)r2, end = (s32)r3;

	iterator->current = 0;
	iterator->end = 0;
	if (start > end)
		return -EINVAL;
	if ((s64)end - start > LOOPS_MAX)
		return -E2BIG;
	/* In 32 bits as the kernel: one below the least number wraps, and `next` wraps it back. */
	iterator->current = (s32)((u32)start - 1);
	iterator->end = end;
	return 0;
}

HELPER(iter_num_next)
{
	struct number_iterator *iterator = (struct number_iterator *)BYTES(r1);
	s32 next = (s32)((u32)iterator->current + 1);

	if (next >= iterator->end) {
		iterator->current = 0;
		iterator->end = 0;
		return 0;
	}
	iterator->current = next;
	return r1;
}

HELPER(iter_num_destroy)
{
	clear_bytes(BYTES(r1), sizeof(struct number_iterator));
	return 0;
}
