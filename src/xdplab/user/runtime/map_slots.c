/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Arrays of things that are not bytes: programs, maps, devices, CPUs, sockets, perf events. A slot
 * has 8 bytes: an address for programs and maps, else the value as bpf(2) takes it. A byte a slot,
 * behind the slots and out of programs' reach, says whether it is taken.
 */

#define CPUMAP_QUEUE_MAX 16384

inline_always int is_fd_array(const struct user_map *map)
{
	return map->type == MAP_PROG_ARRAY || map->type == MAP_PERF_EVENT_ARRAY ||
	       map->type == MAP_ARRAY_OF_MAPS;
}

static s64 slots_memory(const struct user_map *map)
{
	u32 allowed = BPF_F_NUMA_NODE | BPF_F_RDONLY | BPF_F_WRONLY;

	if (map->type == MAP_PERF_EVENT_ARRAY)
		allowed |= BPF_F_PRESERVE_ELEMS;
	if (map->type == MAP_CPUMAP)
		allowed = BPF_F_NUMA_NODE;
	if (!map->max_entries || map->key_bytes != 4 || map->flags & ~allowed)
		return -EINVAL;
	if (map->value_bytes != 4 &&
	    (map->value_bytes != 8 || (map->type != MAP_DEVMAP && map->type != MAP_CPUMAP)))
		return -EINVAL;
	return round_up_8(9ull * map->max_entries);
}

static void slots_create(struct user_map *map, u8 *memory)
{
	map->values = memory;
	map->value_stride = 8;
	map->values_bytes = 8ull * map->max_entries;
	map->inside = memory + map->values_bytes;
}

inline_always u8 *slots_lookup(const struct user_map *map, const void *key)
{
	u32 index = read_u32(key);

	if (unlikely(index >= map->max_entries || !((u8 *)map->inside)[index]))
		return NULL;
	return map->values + 8ull * index;
}

static s64 slots_delete(struct user_map *map, const void *key)
{
	u32 index = read_u32(key);
	u8 *taken = map->inside;

	if (index >= map->max_entries)
		return is_fd_array(map) ? -E2BIG : -EINVAL;
	if (is_fd_array(map) && !taken[index])
		return -ENOENT;
	taken[index] = 0;
	write_u64(map->values + 8ull * index, 0);
	return 0;
}

/* `value` has 8 bytes for programs and maps, and value_bytes for others. */
static s64 slots_update(struct user_map *map, const void *key, const void *value, u64 flags)
{
	u32 index = read_u32(key), bytes = is_fd_array(map) || map->type == MAP_XSKMAP ?
					   8 : map->value_bytes;
	u8 *taken = map->inside;

	if (unlikely(flags > BPF_EXIST || (is_fd_array(map) && flags != BPF_ANY)))
		return -EINVAL;
	if (unlikely(index >= map->max_entries))
		return -E2BIG;
	if (map->type == MAP_XSKMAP) {
		if (taken[index] && flags == BPF_NOEXIST)
			return -EEXIST;
		if (!taken[index] && flags == BPF_EXIST)
			return -ENOENT;
	} else if (flags == BPF_NOEXIST) {
		return -EEXIST;
	}
	if (map->type == MAP_CPUMAP) {
		if (read_u32(value) > CPUMAP_QUEUE_MAX)
			return -EOVERFLOW;
		if (index >= map->nr_cpus)
			return -ENODEV;
	}
	/* A device 0 and a queue of 0 packets mean: nothing any more. */
	if ((map->type == MAP_CPUMAP || map->type == MAP_DEVMAP) && !read_u32(value))
		return slots_delete(map, key);
	write_u64(map->values + 8ull * index, 0);
	copy_bytes(map->values + 8ull * index, value, bytes);
	taken[index] = 1;
	return 0;
}
