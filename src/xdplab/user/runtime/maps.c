/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a map's type decides. user_map_* are bpf(2)'s commands, called by Python; helpers come to
 * the same functions, or straight to those of a type where the translation knows the type.
 */

#define ARRAY_CASES case MAP_ARRAY: case MAP_PERCPU_ARRAY
#define LRU_CASES case MAP_LRU_HASH: case MAP_LRU_PERCPU_HASH
#define HASH_CASES case MAP_HASH: case MAP_PERCPU_HASH
#define SLOT_CASES case MAP_PROG_ARRAY: case MAP_ARRAY_OF_MAPS: case MAP_DEVMAP: \
	case MAP_CPUMAP: case MAP_XSKMAP

s64 user_map_memory(const struct user_map *map);
void user_map_create(struct user_map *map, u8 *memory);
u8 *user_map_find(struct user_map *map, const void *key);
s64 user_map_update(struct user_map *map, const void *key, const void *value, u64 flags);
s64 user_map_delete(struct user_map *map, const void *key);
s64 user_map_next_key(const struct user_map *map, const void *key, void *next_key);

/* Bytes of zeroed memory that a map needs, or the errno with which the kernel would refuse it. */
s64 user_map_memory(const struct user_map *map)
{
	u32 neither = BPF_F_RDONLY_PROG | BPF_F_WRONLY_PROG;

	if ((map->flags & neither) == neither || (map->extra && map->type != MAP_BLOOM_FILTER))
		return -EINVAL;
	switch (map->type) {
	ARRAY_CASES:
		return array_memory(map);
	HASH_CASES:
	LRU_CASES:
	case MAP_HASH_OF_MAPS:
	case MAP_DEVMAP_HASH:
		return hash_memory(map);
	case MAP_LPM_TRIE:
		return lpm_memory(map);
	SLOT_CASES:
		return slots_memory(map);
	case MAP_PERF_EVENT_ARRAY:
		return perf_memory(map);
	case MAP_QUEUE:
	case MAP_STACK:
		return queue_memory(map);
	case MAP_BLOOM_FILTER:
		return bloom_memory(map);
	case MAP_RINGBUF:
		return ring_memory(map);
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
	case MAP_HASH_OF_MAPS:
	case MAP_DEVMAP_HASH:
		hash_create(map, memory);
		break;
	case MAP_LPM_TRIE:
		lpm_create(map, memory);
		break;
	SLOT_CASES:
		slots_create(map, memory);
		break;
	case MAP_PERF_EVENT_ARRAY:
		perf_create(map, memory);
		break;
	case MAP_QUEUE:
	case MAP_STACK:
		queue_create(map, memory);
		break;
	case MAP_BLOOM_FILTER:
		bloom_create(map, memory);
		break;
	case MAP_RINGBUF:
		ring_create(map, memory);
		break;
	}
}

/*
 * The entry's first CPU's value, for maps of maps and of programs the slot with the address; NULL
 * where there is none. Leaves no trace in an LRU map.
 */
u8 *user_map_find(struct user_map *map, const void *key)
{
	switch (map->type) {
	ARRAY_CASES:
		return array_lookup(map, key, 0);
	HASH_CASES:
	LRU_CASES:
	case MAP_HASH_OF_MAPS:
	case MAP_DEVMAP_HASH:
		return hash_lookup(map, key, 0);
	case MAP_LPM_TRIE:
		return lpm_lookup(map, key);
	SLOT_CASES:
	case MAP_PERF_EVENT_ARRAY:
		return slots_lookup(map, key);
	default:
		return NULL;
	}
}

/* Per-CPU maps take a value for each CPU, in multiples of 8 bytes; maps of maps an address. */
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
	case MAP_HASH_OF_MAPS:
	case MAP_DEVMAP_HASH:
		return hash_update(map, key, value, flags, ALL_CPUS);
	case MAP_LPM_TRIE:
		return lpm_update(map, key, value, flags);
	SLOT_CASES:
	case MAP_PERF_EVENT_ARRAY:
		return slots_update(map, key, value, flags);
	case MAP_RINGBUF:
		return -ENOTSUPP;
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
	case MAP_HASH_OF_MAPS:
	case MAP_DEVMAP_HASH:
		return hash_delete(map, key);
	case MAP_LPM_TRIE:
		return lpm_delete(map, key);
	SLOT_CASES:
	case MAP_PERF_EVENT_ARRAY:
		return slots_delete(map, key);
	case MAP_QUEUE:
	case MAP_STACK:
		return -EINVAL;
	case MAP_RINGBUF:
		return -ENOTSUPP;
	default:
		return -EOPNOTSUPP;
	}
}

/* The first key after NULL, or after a key that is not there. */
s64 user_map_next_key(const struct user_map *map, const void *key, void *next_key)
{
	switch (map->type) {
	ARRAY_CASES:
	SLOT_CASES:
	case MAP_PERF_EVENT_ARRAY: {
		u32 index = key && read_u32(key) < map->max_entries ? read_u32(key) + 1 : 0;

		if (index == map->max_entries)
			return -ENOENT;
		write_u32(next_key, index);
		return 0;
	}
	HASH_CASES:
	LRU_CASES:
	case MAP_HASH_OF_MAPS:
	case MAP_DEVMAP_HASH:
		return hash_next_key(map, key, next_key);
	case MAP_LPM_TRIE:
		return lpm_next_key(map, key, next_key);
	case MAP_QUEUE:
	case MAP_STACK:
		return -EINVAL;
	case MAP_RINGBUF:
		return -ENOTSUPP;
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

HELPER(map_lookup_elem_lpm_trie)
{
	return U64(lpm_lookup(MAP(r1), BYTES(r2)));
}

inline_always u64 inner_map(const u8 *slot)
{
	return slot ? read_u64(slot) : 0;
}

HELPER(map_lookup_elem_array_of_maps)
{
	return inner_map(slots_lookup(MAP(r1), BYTES(r2)));
}

HELPER(map_lookup_elem_hash_of_maps)
{
	return inner_map(hash_lookup(MAP(r1), BYTES(r2), 0));
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
	case MAP_LPM_TRIE:
		return U64(lpm_lookup(MAP(r1), BYTES(r2)));
	case MAP_DEVMAP:
	case MAP_CPUMAP:
	case MAP_XSKMAP:
		return U64(slots_lookup(MAP(r1), BYTES(r2)));
	case MAP_DEVMAP_HASH:
		return U64(hash_lookup(MAP(r1), BYTES(r2), 0));
	case MAP_ARRAY_OF_MAPS:
		return inner_map(slots_lookup(MAP(r1), BYTES(r2)));
	case MAP_HASH_OF_MAPS:
		return inner_map(hash_lookup(MAP(r1), BYTES(r2), 0));
	default:
		return 0;
	}
}

HELPER(map_update_elem_array)
{
	return array_update(MAP(r1), BYTES(r2), BYTES(r3), r4, 0);
}

HELPER(map_update_elem_percpu_array)
{
	return array_update(MAP(r1), BYTES(r2), BYTES(r3), r4, frame->state->cpu);
}

HELPER(map_update_elem_hash)
{
	return hash_update(MAP(r1), BYTES(r2), BYTES(r3), r4, frame->state->cpu);
}

HELPER(map_update_elem)
{
	switch (MAP(r1)->type) {
	ARRAY_CASES:
		return array_update(MAP(r1), BYTES(r2), BYTES(r3), r4, frame->state->cpu);
	HASH_CASES:
	LRU_CASES:
		return hash_update(MAP(r1), BYTES(r2), BYTES(r3), r4, frame->state->cpu);
	case MAP_LPM_TRIE:
		return lpm_update(MAP(r1), BYTES(r2), BYTES(r3), r4);
	default:
		return -EOPNOTSUPP;
	}
}

HELPER(map_delete_elem_hash)
{
	return hash_delete(MAP(r1), BYTES(r2));
}

HELPER(map_delete_elem)
{
	return user_map_delete(MAP(r1), BYTES(r2));
}
