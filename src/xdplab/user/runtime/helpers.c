/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Small helpers: clocks, random numbers, CPU, strings, and those that do nothing here. */

#define NS_PER_JIFFY 4000000 /* CONFIG_HZ=250 */

inline_always u64 time_ns(const struct user_frame *frame, s32 clock)
{
	const struct user_state *state = frame->state;

	return state->fixed_time ? state->time_ns : read_clock(clock);
}

HELPER(ktime_get_ns)
{
	return time_ns(frame, frame->state->host->clock_monotonic);
}

HELPER(ktime_get_boot_ns)
{
	return time_ns(frame, frame->state->host->clock_boottime);
}

HELPER(ktime_get_coarse_ns)
{
	return time_ns(frame, frame->state->host->clock_coarse);
}

HELPER(ktime_get_tai_ns)
{
	return time_ns(frame, frame->state->host->clock_tai);
}

HELPER(jiffies64)
{
	return time_ns(frame, frame->state->host->clock_coarse) / NS_PER_JIFFY;
}

/* xoshiro128++ (Blackman and Vigna, 2019; public domain): seeded, so that runs can be repeated. */
HELPER(get_prandom_u32)
{
	u32 *words = frame->state->random;
	u32 result = rotate_left(words[0] + words[3], 7) + words[0];
	u32 shifted = words[1] << 9;

	words[2] ^= words[0];
	words[3] ^= words[1];
	words[1] ^= words[2];
	words[0] ^= words[3];
	words[2] ^= shifted;
	words[3] = rotate_left(words[3], 11);
	return result;
}

HELPER(get_smp_processor_id)
{
	return frame->state->cpu;
}

HELPER(get_numa_node_id)
{
	return frame->state->host->numa_node;
}

HELPER(map_lookup_percpu_elem)
{
	struct user_map *map = MAP(r1);
	u32 cpu = (u32)r3;

	if (cpu >= map->nr_cpus)
		return 0;
	switch (map->type) {
	case MAP_PERCPU_ARRAY:
		return U64(array_lookup(map, BYTES(r2), cpu));
	case MAP_PERCPU_HASH:
		return U64(hash_lookup(map, BYTES(r2), cpu));
	case MAP_LRU_PERCPU_HASH:
		return U64(lru_lookup(map, BYTES(r2), cpu));
	default:
		return 0;
	}
}

HELPER(strncmp)
{
	const u8 *a = BYTES(r1), *b = BYTES(r3);

	for (u32 i = 0; i < (u32)r2; i++) {
		if (a[i] != b[i])
			return a[i] < b[i] ? (u64)-1 : 1;
		if (!a[i])
			break;
	}
	return 0;
}

#define HELPER_ANSWERS(name, answer) HELPER(name) \
{ \
	return (u64)(answer); \
}

/*
 * One thread runs a program and its maps at a time, so that nobody else ever holds a lock: what a
 * lock without contention costs is what it does here.
 */
HELPER(spin_lock)
{
	__atomic_exchange_n((u32 *)BYTES(r1), 1, __ATOMIC_ACQUIRE);
	return 0;
}

HELPER(spin_unlock)
{
	__atomic_store_n((u32 *)BYTES(r1), 0, __ATOMIC_RELEASE);
	return 0;
}

/* Read sections are nothing to one thread. */
HELPER_ANSWERS(rcu_read_lock, 0)
HELPER_ANSWERS(rcu_read_unlock, 0)
HELPER_ANSWERS(preempt_disable, 0)
HELPER_ANSWERS(preempt_enable, 0)

/* Nobody listens on this host: no socket is ever found, so that none is ever released. */
HELPER_ANSWERS(sk_lookup_tcp, 0)
HELPER_ANSWERS(sk_lookup_udp, 0)
HELPER_ANSWERS(skc_lookup_tcp, 0)
HELPER_ANSWERS(sk_release, 0)

/* What a driver without hardware metadata answers. */
HELPER_ANSWERS(xdp_metadata_rx_timestamp, -EOPNOTSUPP)
HELPER_ANSWERS(xdp_metadata_rx_hash, -EOPNOTSUPP)
HELPER_ANSWERS(xdp_metadata_rx_vlan_tag, -EOPNOTSUPP)
