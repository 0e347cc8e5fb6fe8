/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Maps without keys: queue and stack (kernel/bpf/queue_stack_maps.c), Bloom filter. */

struct queue_map {
	u32 head;
	u32 tail;
	u32 size;             /* one more than there are entries */
	u32 padding;
};

static s64 queue_memory(const struct user_map *map)
{
	if (!map->max_entries || map->key_bytes || !map->value_bytes ||
	    map->flags & ~(BPF_F_NUMA_NODE | ACCESS_FLAGS))
		return -EINVAL;
	if (map->value_bytes > KMALLOC_MAX)
		return -E2BIG;
	return sizeof(struct queue_map) + round_up_8(map->value_bytes) * (map->max_entries + 1ull);
}

static void queue_create(struct user_map *map, u8 *memory)
{
	struct queue_map *queue = (struct queue_map *)memory;

	queue->size = map->max_entries + 1;
	map->inside = queue;
	map->values = memory + sizeof(*queue);
	map->value_stride = round_up_8(map->value_bytes);
	map->values_bytes = map->value_stride * queue->size;
}

static s64 queue_push(struct user_map *map, const void *value, u64 flags)
{
	struct queue_map *queue = map->inside;
	u32 next = queue->head + 1 == queue->size ? 0 : queue->head + 1;

	if (flags & BPF_NOEXIST || flags > BPF_EXIST)
		return -EINVAL;
	if (next == queue->tail) {
		if (flags != BPF_EXIST)
			return -E2BIG;
		queue->tail = queue->tail + 1 == queue->size ? 0 : queue->tail + 1;
	}
	copy_bytes(map->values + map->value_stride * queue->head, value, map->value_bytes);
	queue->head = next;
	return 0;
}

static s64 queue_get(struct user_map *map, void *value, int remove)
{
	struct queue_map *queue = map->inside;
	u32 index = queue->tail;

	if (queue->head == queue->tail) {
		clear_bytes(value, map->value_bytes);
		return -ENOENT;
	}
	if (map->type == MAP_STACK)
		index = queue->head ? queue->head - 1 : queue->size - 1;
	copy_bytes(value, map->values + map->value_stride * index, map->value_bytes);
	if (remove) {
		if (map->type == MAP_STACK)
			queue->head = index;
		else
			queue->tail = index + 1 == queue->size ? 0 : index + 1;
	}
	return 0;
}

struct bloom_map {
	u64 *bits;
	u32 mask;
	u32 seed;
	u32 hashes;
	u32 padding;
};

static void bloom_layout(const struct user_map *map, struct bloom_map *bloom)
{
	u64 bits;

	bloom->hashes = map->extra & 15 ? map->extra & 15 : 5;
	/* n * k / ln 2, as 7 / 5; the kernel's products of 32 bits overflow to the largest size. */
	bits = (u64)map->max_entries * bloom->hashes;
	if (bits >> 32)
		bits = 1ull << 32;
	else
		bits = bits / 5 * 7;
	if (bits > 1ull << 31)
		bloom->mask = 0xffffffffu;
	else
		bloom->mask = bits <= 64 ? 63 : power_of_two_from((u32)bits) - 1;
}

static s64 bloom_memory(const struct user_map *map)
{
	struct bloom_map bloom;

	if (!map->max_entries || map->key_bytes || !map->value_bytes || map->extra & ~15ull ||
	    map->flags & ~(BPF_F_NUMA_NODE | BPF_F_ZERO_SEED | ACCESS_FLAGS))
		return -EINVAL;
	if (map->value_bytes > KMALLOC_MAX)
		return -E2BIG;
	bloom_layout(map, &bloom);
	return sizeof(bloom) + (bloom.mask + 1ull) / 8;
}

static void bloom_create(struct user_map *map, u8 *memory)
{
	struct bloom_map *bloom = (struct bloom_map *)memory;

	bloom_layout(map, bloom);
	bloom->bits = (u64 *)(memory + sizeof(*bloom));
	bloom->seed = map->flags & BPF_F_ZERO_SEED ? 0 : 0x9e3779b9u ^ map->id;
	map->inside = bloom;
	map->values = (u8 *)bloom->bits;
}

static s64 bloom_push(struct user_map *map, const void *value, u64 flags)
{
	struct bloom_map *bloom = map->inside;

	if (flags != BPF_ANY)
		return -EINVAL;
	for (u32 i = 0; i < bloom->hashes; i++) {
		u32 bit = hash_bytes(value, map->value_bytes, bloom->seed + i) & bloom->mask;

		bloom->bits[bit / 64] |= 1ull << bit % 64;
	}
	return 0;
}

static s64 bloom_peek(const struct user_map *map, const void *value)
{
	const struct bloom_map *bloom = map->inside;

	for (u32 i = 0; i < bloom->hashes; i++) {
		u32 bit = hash_bytes(value, map->value_bytes, bloom->seed + i) & bloom->mask;

		if (!(bloom->bits[bit / 64] >> bit % 64 & 1))
			return -ENOENT;
	}
	return 0;
}

s64 user_map_push(struct user_map *map, const void *value, u64 flags);
s64 user_map_pop(struct user_map *map, void *value);
s64 user_map_peek(struct user_map *map, void *value);

s64 user_map_push(struct user_map *map, const void *value, u64 flags)
{
	switch (map->type) {
	case MAP_QUEUE:
	case MAP_STACK:
		return queue_push(map, value, flags);
	case MAP_BLOOM_FILTER:
		return bloom_push(map, value, flags);
	default:
		return -EOPNOTSUPP;
	}
}

s64 user_map_pop(struct user_map *map, void *value)
{
	return map->type == MAP_QUEUE || map->type == MAP_STACK ? queue_get(map, value, 1) :
								  -EOPNOTSUPP;
}

/* A Bloom filter is asked for the value instead. */
s64 user_map_peek(struct user_map *map, void *value)
{
	switch (map->type) {
	case MAP_QUEUE:
	case MAP_STACK:
		return queue_get(map, value, 0);
	case MAP_BLOOM_FILTER:
		return bloom_peek(map, value);
	default:
		return -EOPNOTSUPP;
	}
}

HELPER(map_push_elem)
{
	return user_map_push(MAP(r1), BYTES(r2), r3);
}

HELPER(map_pop_elem)
{
	return user_map_pop(MAP(r1), BYTES(r2));
}

HELPER(map_peek_elem)
{
	return user_map_peek(MAP(r1), BYTES(r2));
}
