/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Hash maps, as kernel/bpf/hashtab.c: as many buckets as entries (a power of two), new entries at
 * the front of their bucket, and an update of an entry that takes a fresh element, so that who
 * still holds the old value's address goes on to see the old value. LRU maps update in place and
 * evict by second chance: a list, and a bit that a lookup sets.
 *
 * Elements are numbered from 1 and lie in one piece: header, key, value (or one value for each
 * CPU). Numbers are checked when they are followed, since an unchecked program may overwrite them.
 */

struct hash_elem {
	u32 next;
	u32 hash;
	u32 older;            /* LRU maps: neighbours in the list */
	u32 newer;
	u32 referenced;
	u32 number;           /* its own */
	u8 key[];
};

struct hash_map {
	u32 *buckets;
	u8 *elems;
	u64 elem_bytes;
	u32 value_offset;
	u32 stored_bytes;     /* of one value; 8 for a map of maps */
	u32 mask;
	u32 elem_count;
	u32 count;            /* live elements */
	u32 unused;           /* first element that was never handed out */
	u32 free;
	u32 seed;
	u32 oldest;
	u32 newest;
};

inline_always int is_lru(const struct user_map *map)
{
	return map->type == MAP_LRU_HASH || map->type == MAP_LRU_PERCPU_HASH;
}

inline_always int is_percpu_hash(const struct user_map *map)
{
	return map->type == MAP_PERCPU_HASH || map->type == MAP_LRU_PERCPU_HASH;
}

static void hash_layout(const struct user_map *map, struct hash_map *hash)
{
	u64 copies = is_percpu_hash(map) ? map->nr_cpus : 1;

	hash->stored_bytes = map->type == MAP_HASH_OF_MAPS ? 8 : map->value_bytes;
	hash->value_offset = sizeof(struct hash_elem) + round_up_8(map->key_bytes);
	hash->elem_bytes = hash->value_offset + round_up_8(hash->stored_bytes) * copies;
	hash->mask = power_of_two_from(map->max_entries) - 1;
	/* One spare element takes the place of the one that is being replaced. */
	hash->elem_count = map->max_entries + 1;
}

static s64 hash_memory(const struct user_map *map)
{
	u32 allowed = BPF_F_NO_PREALLOC | BPF_F_NO_COMMON_LRU | BPF_F_NUMA_NODE | ACCESS_FLAGS |
		      BPF_F_ZERO_SEED;
	struct hash_map hash;

	if (map->type == MAP_DEVMAP_HASH) {
		if (!map->max_entries || map->key_bytes != 4 ||
		    (map->value_bytes != 4 && map->value_bytes != 8) ||
		    map->flags & ~(BPF_F_NUMA_NODE | BPF_F_RDONLY | BPF_F_WRONLY))
			return -EINVAL;
	} else if (map->flags & ~allowed || (map->flags & BPF_F_NO_COMMON_LRU && !is_lru(map))) {
		return -EINVAL;
	} else if (is_lru(map) && map->flags & BPF_F_NO_PREALLOC) {
		return -ENOTSUPP;
	}
	if (!map->max_entries || !map->key_bytes || !map->value_bytes)
		return -EINVAL;
	if (map->type == MAP_HASH_OF_MAPS && map->value_bytes != 4)
		return -EINVAL;
	/* 48: the kernel's header of an element. */
	if ((u64)map->key_bytes + map->value_bytes >= KMALLOC_MAX - 48 ||
	    (is_percpu_hash(map) && round_up_8(map->value_bytes) > PERCPU_MAX) ||
	    map->max_entries > 1u << 31)
		return -E2BIG;
	hash_layout(map, &hash);
	return round_up_8(sizeof(hash)) + round_up_8(4ull * (hash.mask + 1)) +
	       hash.elem_bytes * hash.elem_count;
}

static void hash_create(struct user_map *map, u8 *memory)
{
	struct hash_map *hash = (struct hash_map *)memory;
	u64 copies = is_percpu_hash(map) ? map->nr_cpus : 1;

	hash_layout(map, hash);
	hash->buckets = (u32 *)(memory + round_up_8(sizeof(*hash)));
	hash->elems = (u8 *)hash->buckets + round_up_8(4ull * (hash->mask + 1));
	hash->unused = 1;
	hash->seed = map->flags & BPF_F_ZERO_SEED ? 0 : 0x9e3779b9u ^ map->id;
	map->inside = hash;
	map->cpu_stride = is_percpu_hash(map) ? round_up_8(hash->stored_bytes) : 0;
	map->values = hash->elems + hash->value_offset;
	map->value_stride = hash->elem_bytes;
	map->values_bytes = hash->elem_bytes * (hash->elem_count - 1) +
			    round_up_8(hash->stored_bytes) * copies;
}

inline_always struct hash_elem *hash_elem(const struct hash_map *hash, u32 number)
{
	if (unlikely(number - 1 >= hash->elem_count))
		return NULL;
	return (struct hash_elem *)(hash->elems + hash->elem_bytes * (number - 1));
}

inline_always u8 *hash_value(const struct hash_map *hash, struct hash_elem *elem)
{
	return (u8 *)elem + hash->value_offset;
}

inline_always int same_key(const void *a, const void *b, u32 bytes)
{
	/* Most keys are one or two words; a call of memcmp costs more than comparing them. */
	if (bytes == 4)
		return read_u32(a) == read_u32(b);
	if (bytes == 8)
		return read_u64(a) == read_u64(b);
	return same_bytes(a, b, bytes);
}

inline_always struct hash_elem *hash_find(const struct user_map *map, const void *key, u32 code)
{
	const struct hash_map *hash = map->inside;
	struct hash_elem *elem = hash_elem(hash, hash->buckets[code & hash->mask]);

	while (elem) {
		if (elem->hash == code && same_key(elem->key, key, map->key_bytes))
			return elem;
		elem = hash_elem(hash, elem->next);
	}
	return NULL;
}

inline_always u32 hash_code(const struct user_map *map, const void *key)
{
	const struct hash_map *hash = map->inside;

	/* A devmap_hash has the low bits of the key as its bucket. */
	if (unlikely(map->type == MAP_DEVMAP_HASH))
		return read_u32(key);
	return hash_bytes(key, map->key_bytes, hash->seed);
}

inline_always u8 *hash_lookup(const struct user_map *map, const void *key, u32 cpu)
{
	struct hash_elem *elem = hash_find(map, key, hash_code(map, key));

	if (!elem)
		return NULL;
	return hash_value(map->inside, elem) + map->cpu_stride * cpu;
}

inline_always u8 *lru_lookup(const struct user_map *map, const void *key, u32 cpu)
{
	struct hash_elem *elem = hash_find(map, key, hash_code(map, key));

	if (!elem)
		return NULL;
	if (!elem->referenced)
		elem->referenced = 1;
	return hash_value(map->inside, elem) + map->cpu_stride * cpu;
}

static void lru_add(struct hash_map *hash, struct hash_elem *elem)
{
	struct hash_elem *newest = hash_elem(hash, hash->newest);

	elem->referenced = 0;
	elem->newer = 0;
	elem->older = hash->newest;
	if (newest)
		newest->newer = elem->number;
	else
		hash->oldest = elem->number;
	hash->newest = elem->number;
}

static void lru_remove(struct hash_map *hash, struct hash_elem *elem)
{
	struct hash_elem *older = hash_elem(hash, elem->older);
	struct hash_elem *newer = hash_elem(hash, elem->newer);

	if (older)
		older->newer = elem->newer;
	else
		hash->oldest = elem->newer;
	if (newer)
		newer->older = elem->older;
	else
		hash->newest = elem->older;
}

static void hash_unlink(struct hash_map *hash, struct hash_elem *elem)
{
	u32 *link = &hash->buckets[elem->hash & hash->mask];

	while (*link != elem->number) {
		struct hash_elem *before = hash_elem(hash, *link);

		if (unlikely(!before))
			return;
		link = &before->next;
	}
	*link = elem->next;
	hash->count--;
}

static void hash_release(struct hash_map *hash, struct hash_elem *elem)
{
	elem->next = hash->free;
	hash->free = elem->number;
}

static struct hash_elem *hash_take(struct hash_map *hash)
{
	struct hash_elem *elem = hash_elem(hash, hash->free);

	if (elem) {
		hash->free = elem->next;
		return elem;
	}
	elem = hash_elem(hash, hash->unused);
	if (elem)
		elem->number = hash->unused++;
	return elem;
}

static void hash_link(struct hash_map *hash, struct hash_elem *elem, u32 code)
{
	u32 *bucket = &hash->buckets[code & hash->mask];

	elem->hash = code;
	elem->next = *bucket;
	*bucket = elem->number;
	hash->count++;
}

static void lru_evict(struct hash_map *hash)
{
	struct hash_elem *elem = hash_elem(hash, hash->oldest);

	/* Each pass clears a bit, so this ends. */
	while (elem && elem->referenced) {
		lru_remove(hash, elem);
		lru_add(hash, elem);
		elem = hash_elem(hash, hash->oldest);
	}
	if (elem) {
		lru_remove(hash, elem);
		hash_unlink(hash, elem);
		hash_release(hash, elem);
	}
}

/* Which values an update sets: this CPU's alone, or every CPU's from as many values in a row. */
#define ALL_CPUS 0xffffffffu

static void hash_fill(const struct user_map *map, struct hash_elem *elem, const void *value,
		      u32 cpu, int fresh)
{
	const struct hash_map *hash = map->inside;
	u8 *at = hash_value(hash, elem);

	if (!map->cpu_stride) {
		copy_bytes(at, value, hash->stored_bytes);
		return;
	}
	for (u32 i = 0; i < map->nr_cpus; i++, at += map->cpu_stride) {
		if (cpu == ALL_CPUS)
			copy_bytes(at, (const u8 *)value + map->cpu_stride * i, hash->stored_bytes);
		else if (i == cpu)
			copy_bytes(at, value, hash->stored_bytes);
		else if (fresh)
			clear_bytes(at, hash->stored_bytes);
	}
}

static s64 hash_update(struct user_map *map, const void *key, const void *value, u64 flags, u32 cpu)
{
	struct hash_map *hash = map->inside;
	struct hash_elem *old, *elem;
	u32 code;

	if (unlikely(flags > BPF_EXIST))
		return -EINVAL;
	if (map->type == MAP_DEVMAP_HASH) {
		if (!read_u32(value))
			return -EINVAL;
		if (flags == BPF_EXIST)
			flags = BPF_ANY;
	}
	code = hash_code(map, key);
	old = hash_find(map, key, code);
	if (old && flags == BPF_NOEXIST)
		return -EEXIST;
	if (!old && flags == BPF_EXIST)
		return -ENOENT;
	if (old && (map->cpu_stride || is_lru(map))) {
		hash_fill(map, old, value, cpu, 0);
		if (is_lru(map)) {
			lru_remove(hash, old);
			lru_add(hash, old);
		}
		return 0;
	}
	if (!old && hash->count >= map->max_entries) {
		if (!is_lru(map))
			return -E2BIG;
		lru_evict(hash);
	}
	elem = hash_take(hash);
	if (unlikely(!elem))
		return -ENOMEM;
	copy_bytes(elem->key, key, map->key_bytes);
	hash_fill(map, elem, value, cpu, 1);
	hash_link(hash, elem, code);
	if (is_lru(map))
		lru_add(hash, elem);
	if (old) {
		hash_unlink(hash, old);
		hash_release(hash, old);
	}
	return 0;
}

static s64 hash_delete(struct user_map *map, const void *key)
{
	struct hash_map *hash = map->inside;
	struct hash_elem *elem = hash_find(map, key, hash_code(map, key));

	if (!elem)
		return -ENOENT;
	if (is_lru(map))
		lru_remove(hash, elem);
	hash_unlink(hash, elem);
	hash_release(hash, elem);
	return 0;
}

/* The element after `elem` in the order of buckets; the first one after NULL. */
static struct hash_elem *hash_next(const struct hash_map *hash, const struct hash_elem *elem)
{
	u64 bucket = 0;

	if (elem) {
		struct hash_elem *next = hash_elem(hash, elem->next);

		if (next)
			return next;
		bucket = (elem->hash & hash->mask) + 1ull;
	}
	for (; bucket <= hash->mask; bucket++) {
		struct hash_elem *first = hash_elem(hash, hash->buckets[bucket]);

		if (first)
			return first;
	}
	return NULL;
}

static s64 hash_next_key(const struct user_map *map, const void *key, void *next_key)
{
	const struct hash_map *hash = map->inside;
	struct hash_elem *elem = key ? hash_find(map, key, hash_code(map, key)) : NULL;

	elem = hash_next(hash, elem);
	if (!elem)
		return -ENOENT;
	copy_bytes(next_key, elem->key, map->key_bytes);
	return 0;
}
