/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a map's type decides. user_map_* are bpf(2)'s commands, called by Python; helpers come to the
 * same functions, or straight to those of a type where the translation knows the type.
 */

#define ARRAY_CASES case MAP_ARRAY: case MAP_PERCPU_ARRAY
#define LRU_CASES case MAP_LRU_HASH: case MAP_LRU_PERCPU_HASH
#define HASH_CASES case MAP_HASH: case MAP_PERCPU_HASH

s64 user_map_memory(const struct user_map *map);
void user_map_create(struct user_map *map, u8 *memory);
u8 *user_map_find(struct user_map *map, const void *key);
s64 user_map_update(struct user_map *map, const void *key, const void *value, u64 flags);
s64 user_map_delete(struct user_map *map, const void *key);
s64 user_map_next_key(const struct user_map *map, const void *key, void *next_key);

/* Bytes of zeroed memory that a map needs, or the errno with which the kernel would refuse it. */
s64 user_map_memory(const struct user_map *map)
{
	switch (map->type) {
	ARRAY_CASES:
		return array_memory(map);
	HASH_CASES:
	LRU_CASES:
		return hash_memory(map);
	default:
		return -EINVAL;
	}
}

void user_map_create(struct user_map *map, u8 *memory)
{
	switch (map->type) {
	ARRAY_CASES:
		array_create(map, memory);
		break;
	HASH_CASES:
	LRU_CASES:
		hash_create(map, memory);
		break;
	}
}

/* The entry's first CPU's value; NULL where there is none. Leaves no trace in an LRU map. */
u8 *user_map_find(struct user_map *map, const void *key)
{
	switch (map->type) {
	ARRAY_CASES:
		return array_lookup(map, key, 0);
	HASH_CASES:
	LRU_CASES:
		return hash_lookup(map, key, 0);
	default:
		return NULL;
	}
}

/* Per-CPU maps take one value for each CPU, cpu_stride apart (per-CPU arrays: 8-byte aligned). */
s64 user_map_update(struct user_map *map, const void *key, const void *value, u64 flags)
{
	s64 error;

	switch (map->type) {
	case MAP_ARRAY:
		return array_update(map, key, value, flags, 0);
	case MAP_PERCPU_ARRAY:
		error = array_check(map, key, flags);
		for (u32 cpu = 0; !error && cpu < map->nr_cpus; cpu++)
			copy_bytes(array_lookup(map, key, cpu),
				   (const u8 *)value + map->value_stride * cpu, map->value_bytes);
		return error;
	HASH_CASES:
	LRU_CASES:
		return hash_update(map, key, value, flags, ALL_CPUS);
	default:
		return -EOPNOTSUPP;
	}
}

s64 user_map_delete(struct user_map *map, const void *key)
{
	switch (map->type) {
	ARRAY_CASES:
		return -EINVAL;
	HASH_CASES:
	LRU_CASES:
		return hash_delete(map, key);
	default:
		return -EOPNOTSUPP;
	}
}

/* The first key after NULL, or after a key that is not there. */
s64 user_map_next_key(const struct user_map *map, const void *key, void *next_key)
{
	u32 index = key ? read_u32(key) + 1 : 0;

	switch (map->type) {
	ARRAY_CASES:
		if (key && read_u32(key) >= map->max_entries)
			index = 0;
		if (index == map->max_entries)
			return -ENOENT;
		write_u32(next_key, index);
		return 0;
	HASH_CASES:
	LRU_CASES:
		return hash_next_key(map, key, next_key);
	default:
		return -EOPNOTSUPP;
	}
}

HELPER(map_lookup_elem_array)
{
	return U64(array_lookup(MAP(r1), BYTES(r2), 0));
}

HELPER(map_lookup_elem_percpu_array)
{
	return U64(array_lookup(MAP(r1), BYTES(r2), frame->state->cpu));
}

HELPER(map_lookup_elem_hash)
{
	return U64(hash_lookup(MAP(r1), BYTES(r2), 0));
}

HELPER(map_lookup_elem_percpu_hash)
{
	return U64(hash_lookup(MAP(r1), BYTES(r2), frame->state->cpu));
}

HELPER(map_lookup_elem_lru_hash)
{
	return U64(lru_lookup(MAP(r1), BYTES(r2), frame->state->cpu));
}

HELPER(map_lookup_elem)
{
	switch (MAP(r1)->type) {
	ARRAY_CASES:
		return U64(array_lookup(MAP(r1), BYTES(r2), frame->state->cpu));
	HASH_CASES:
		return U64(hash_lookup(MAP(r1), BYTES(r2), frame->state->cpu));
	LRU_CASES:
		return U64(lru_lookup(MAP(r1), BYTES(r2), frame->state->cpu));
	default:
		return 0;
	}
}

HELPER(map_update_elem)
{
	switch (MAP(r1)->type) {
	ARRAY_CASES:
		return array_update(MAP(r1), BYTES(r2), BYTES(r3), r4, frame->state->cpu);
	HASH_CASES:
	LRU_CASES:
		return hash_update(MAP(r1), BYTES(r2), BYTES(r3), r4, frame->state->cpu);
	default:
		return -EOPNOTSUPP;
	}
}

HELPER(map_delete_elem)
{
	return user_map_delete(MAP(r1), BYTES(r2));
}
