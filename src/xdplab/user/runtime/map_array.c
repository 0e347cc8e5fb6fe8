/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Arrays and per-CPU arrays, as kernel/bpf/arraymap.c. */

static s64 array_memory(const struct user_map *map)
{
	u32 allowed = BPF_F_NUMA_NODE | ACCESS_FLAGS | BPF_F_MMAPABLE | BPF_F_INNER_MAP;
	u64 bytes;

	if (!map->max_entries || map->key_bytes != 4 || !map->value_bytes ||
	    map->flags & ~allowed)
		return -EINVAL;
	if (map->type == MAP_PERCPU_ARRAY && map->flags & (BPF_F_MMAPABLE | BPF_F_INNER_MAP))
		return -EINVAL;
	if (map->value_bytes >> 31 ||
	    (map->type == MAP_PERCPU_ARRAY && round_up_8(map->value_bytes) > PERCPU_MAX))
		return -E2BIG;
	bytes = round_up_8(map->value_bytes) * map->max_entries *
		(map->type == MAP_PERCPU_ARRAY ? map->nr_cpus : 1);
	return bytes >> 62 ? -ENOMEM : (s64)bytes;
}

static void array_create(struct user_map *map, u8 *memory)
{
	map->values = memory;
	map->value_stride = round_up_8(map->value_bytes);
	map->values_bytes = array_memory(map);
	if (map->type == MAP_PERCPU_ARRAY)
		map->cpu_stride = map->value_stride * map->max_entries;
}

inline_always u8 *array_lookup(const struct user_map *map, const void *key, u32 cpu)
{
	u32 index = read_u32(key);

	if (unlikely(index >= map->max_entries))
		return NULL;
	return map->values + map->value_stride * index + map->cpu_stride * cpu;
}

static s64 array_check(const struct user_map *map, const void *key, u64 flags)
{
	/* BPF_F_LOCK needs a bpf_spin_lock in the value; nobody tells the runtime of one. */
	if (unlikely(flags > BPF_EXIST))
		return -EINVAL;
	if (unlikely(read_u32(key) >= map->max_entries))
		return -E2BIG;
	if (unlikely(flags & BPF_NOEXIST))
		return -EEXIST;
	return 0;
}

static s64 array_update(const struct user_map *map, const void *key, const void *value, u64 flags,
			u32 cpu)
{
	s64 error = array_check(map, key, flags);

	if (!error)
		copy_bytes(array_lookup(map, key, cpu), value, map->value_bytes);
	return error;
}
