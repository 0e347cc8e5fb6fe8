/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The price list's map operations. Keys are all entries of a map in no order, so that no entry
 * and no bucket stands for the others. User space fills the maps: the value of
 * number n is n. Every program leaves its map as it found it.
 */
#include "calls.bpf.h"

char _license[] SEC("license") = "GPL";

static long (*const bpf_map_push_elem)(void *map, const void *value, __u64 flags) = (void *)87;
static long (*const bpf_map_pop_elem)(void *map, void *value) = (void *)88;
static long (*const bpf_map_peek_elem)(void *map, void *value) = (void *)89;
static void (*const bpf_spin_lock)(struct bpf_spin_lock *lock) = (void *)93;
static void (*const bpf_spin_unlock)(struct bpf_spin_lock *lock) = (void *)94;
static long (*const bpf_for_each_map_elem)(void *map, void *callback, void *context,
					   __u64 flags) = (void *)164;

#define MAP(name, map_type, key_type, value_type, entries, flags)                              \
	struct {                                                                               \
		int (*type)[map_type];                                                         \
		key_type *key;                                                                 \
		value_type *value;                                                             \
		int (*max_entries)[entries];                                                   \
		int (*map_flags)[flags];                                                       \
	} name SEC(".maps")

/* Hashes of a fixed seed: where keys fall is the same in every run, collisions included. */
#define SEEDED BPF_F_ZERO_SEED

struct number {
	__u64 number;
};

struct key16 {
	__u64 number;
	__u64 rest;
};

struct key64 {
	__u64 number;
	__u64 rest[7];
};

struct value64 {
	__u64 number;
	__u64 rest[7];
};

/* An address of four bytes, of which the first two tell entries apart. */
struct prefix {
	__u32 bits;
	__u32 number;
};

MAP(array_16, BPF_MAP_TYPE_ARRAY, __u32, __u64, 16, 0);
MAP(array_1024, BPF_MAP_TYPE_ARRAY, __u32, __u64, 1024, 0);
MAP(array_walked, BPF_MAP_TYPE_ARRAY, __u32, __u64, OPERATIONS, 0);
MAP(array_values64, BPF_MAP_TYPE_ARRAY, __u32, struct value64, 1024, 0);
MAP(percpu_array, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, __u64, 1024, 0);
MAP(hash_16, BPF_MAP_TYPE_HASH, __u32, __u64, 16, SEEDED);
MAP(hash_1024, BPF_MAP_TYPE_HASH, __u32, __u64, 1024, SEEDED);
MAP(hash_4096, BPF_MAP_TYPE_HASH, __u32, __u64, 4096, SEEDED);
MAP(hash_keys16, BPF_MAP_TYPE_HASH, struct key16, __u64, 1024, SEEDED);
MAP(hash_keys64, BPF_MAP_TYPE_HASH, struct key64, __u64, 1024, SEEDED);
MAP(hash_allocating, BPF_MAP_TYPE_HASH, __u32, __u64, 2048, SEEDED | BPF_F_NO_PREALLOC);
MAP(hash_roomy, BPF_MAP_TYPE_HASH, __u32, __u64, 4096, SEEDED);
MAP(percpu_hash, BPF_MAP_TYPE_PERCPU_HASH, __u32, __u64, 1024, SEEDED);
MAP(lru_hash, BPF_MAP_TYPE_LRU_HASH, __u32, __u64, 4096, SEEDED);
MAP(lru_hash_full, BPF_MAP_TYPE_LRU_HASH, __u32, __u64, 1024, SEEDED);
MAP(lpm_trie_16, BPF_MAP_TYPE_LPM_TRIE, struct prefix, __u64, 16, BPF_F_NO_PREALLOC);
MAP(lpm_trie_64, BPF_MAP_TYPE_LPM_TRIE, struct prefix, __u64, 64, BPF_F_NO_PREALLOC);

struct inner {
	int (*type)[BPF_MAP_TYPE_ARRAY];
	__u32 *key;
	__u64 *value;
	int (*max_entries)[1];
} inner SEC(".maps");

#define MAP_OF_MAPS(name, map_type, flags)                                                     \
	struct {                                                                               \
		int (*type)[map_type];                                                         \
		__u32 *key;                                                                    \
		int (*value_size)[4];                                                          \
		int (*max_entries)[16];                                                        \
		int (*map_flags)[flags];                                                       \
		struct inner *values[];                                                        \
	} name SEC(".maps") = { .values = { [0 ... 15] = &inner } }

MAP_OF_MAPS(array_of_maps, BPF_MAP_TYPE_ARRAY_OF_MAPS, 0);
MAP_OF_MAPS(hash_of_maps, BPF_MAP_TYPE_HASH_OF_MAPS, SEEDED);

struct {
	int (*type)[BPF_MAP_TYPE_QUEUE];
	__u64 *value;
	int (*max_entries)[16];
} queue SEC(".maps");

struct {
	int (*type)[BPF_MAP_TYPE_STACK];
	__u64 *value;
	int (*max_entries)[16];
} stack SEC(".maps");

struct {
	int (*type)[BPF_MAP_TYPE_BLOOM_FILTER];
	__u64 *value;
	int (*max_entries)[1024];
} bloom_filter SEC(".maps");

struct locked {
	struct bpf_spin_lock lock;
	__u64 last;
};

MAP(locks, BPF_MAP_TYPE_ARRAY, __u32, struct locked, 1, 0);

/* Entries less one, a power of two less one: user space sets it. */
volatile __u32 mask;

/* Where the last run ended: runs go on, so that maps larger than a run are gone through as well. */
__u32 position;

/*
 * Numbers in no order that a branch predictor could learn, as it does a round of 1024: each turn's is
 * made of the turn alone, so that none waits for the one before.
 */
static __always_inline __u32 scattered(__u32 turn)
{
	turn *= 0x9e3779b1u;
	turn ^= turn >> 15;
	turn *= 0x85ebca6bu;
	return turn ^ turn >> 13;
}

#define EACH_NUMBER(key, operation)                                                            \
	const __u32 start = position, last = mask;                                             \
                                                                                               \
	REPEAT_OPERATION                                                                       \
	{                                                                                      \
		key.number = scattered(start + turn) & last;                                   \
		if (operation)                                                                 \
			return XDP_DROP;                                                       \
	}                                                                                      \
	position = start + OPERATIONS;

static __always_inline long used(void *key)
{
	keep(key);
	return 0;
}

SEC("xdp")
int key_alone(struct xdp_md *ctx)
{
	struct number key;

	EACH_NUMBER(key, used(&key))
	return XDP_PASS;
}

/* --- lookups */

#define LOOKUP(name, map, key_type, ...)                                                       \
	SEC("xdp")                                                                             \
	int name(struct xdp_md *ctx)                                                           \
	{                                                                                      \
		key_type key = { __VA_ARGS__ };                                                \
		__u64 *value = NULL;                                                           \
                                                                                               \
		EACH_NUMBER(key, !(value = bpf_map_lookup_elem(&map, &key)))                   \
		return value && *value == key.number ? XDP_PASS : XDP_DROP;                    \
	}

LOOKUP(lookup_array_16, array_16, struct number)
LOOKUP(lookup_array_1024, array_1024, struct number)
LOOKUP(lookup_percpu_array, percpu_array, struct number)
LOOKUP(lookup_hash_16, hash_16, struct number)
LOOKUP(lookup_hash_1024, hash_1024, struct number)
LOOKUP(lookup_hash_4096, hash_4096, struct number)
LOOKUP(lookup_hash_keys16, hash_keys16, struct key16)
LOOKUP(lookup_hash_keys64, hash_keys64, struct key64)
LOOKUP(lookup_percpu_hash, percpu_hash, struct number)
LOOKUP(lookup_lru_hash, lru_hash, struct number)
LOOKUP(lookup_lpm_trie_16, lpm_trie_16, struct prefix, .bits = 32)
LOOKUP(lookup_lpm_trie_64, lpm_trie_64, struct prefix, .bits = 32)

/* Numbers from here on are in no map. */
#define ABSENT 0x1000000

SEC("xdp")
int miss_hash(struct xdp_md *ctx)
{
	struct number key;

	EACH_NUMBER(key, ({
		key.number |= ABSENT;
		bpf_map_lookup_elem(&hash_1024, &key) != NULL;
	}))
	return XDP_PASS;
}

#define LOOKUP_TWICE(name, outer)                                                              \
	SEC("xdp")                                                                             \
	int name(struct xdp_md *ctx)                                                           \
	{                                                                                      \
		struct number key;                                                             \
		__u32 first = 0;                                                               \
                                                                                               \
		EACH_NUMBER(key, ({                                                            \
			void *found = bpf_map_lookup_elem(&outer, &key);                       \
			!found || !bpf_map_lookup_elem(found, &first);                         \
		}))                                                                            \
		return XDP_PASS;                                                               \
	}

LOOKUP_TWICE(lookup_array_of_maps, array_of_maps)
LOOKUP_TWICE(lookup_hash_of_maps, hash_of_maps)

SEC("xdp")
int peek_bloom_filter(struct xdp_md *ctx)
{
	__u64 value = 1;

	if (bpf_map_push_elem(&bloom_filter, &value, BPF_ANY))
		return XDP_DROP;
	EACH_TURN(bpf_map_peek_elem(&bloom_filter, &value))
	return XDP_PASS;
}

/* --- updates: of what is there, or of what then goes again */

#define UPDATE(name, map)                                                                      \
	SEC("xdp")                                                                             \
	int name(struct xdp_md *ctx)                                                           \
	{                                                                                      \
		struct value64 entry = {};                                                     \
                                                                                               \
		EACH_NUMBER(entry, bpf_map_update_elem(&map, &entry, &entry, BPF_EXIST))       \
		return XDP_PASS;                                                               \
	}

UPDATE(update_array, array_1024)
UPDATE(update_array_values64, array_values64)
UPDATE(update_percpu_array, percpu_array)
UPDATE(update_hash, hash_1024)
UPDATE(update_percpu_hash, percpu_hash)
UPDATE(update_lru_hash, lru_hash)

#define INSERT_AND_DELETE(name, map)                                                           \
	SEC("xdp")                                                                             \
	int name(struct xdp_md *ctx)                                                           \
	{                                                                                      \
		struct number entry;                                                           \
                                                                                               \
		EACH_NUMBER(entry, ({                                                          \
			entry.number |= ABSENT;                                                \
			bpf_map_update_elem(&map, &entry, &entry, BPF_NOEXIST) ||              \
				bpf_map_delete_elem(&map, &entry);                             \
		}))                                                                            \
		return XDP_PASS;                                                               \
	}

INSERT_AND_DELETE(insert_delete_hash, hash_roomy)
INSERT_AND_DELETE(insert_delete_hash_allocating, hash_allocating)

/* Into a full map: what has not been used for long makes room. */
SEC("xdp")
int insert_lru_hash(struct xdp_md *ctx)
{
	const __u32 start = position;
	__u64 number;

	REPEAT_OPERATION
	{
		number = (__u32)(start + turn) | 0x80000000u;
		if (bpf_map_update_elem(&lru_hash_full, &number, &number, BPF_NOEXIST))
			return XDP_DROP;
	}
	position = start + OPERATIONS;
	return XDP_PASS;
}

#define PUSH_AND_POP(name, map)                                                                \
	SEC("xdp")                                                                             \
	int name(struct xdp_md *ctx)                                                           \
	{                                                                                      \
		REPEAT_OPERATION                                                               \
		{                                                                              \
			__u64 value = turn, back;                                              \
                                                                                               \
			if (bpf_map_push_elem(&map, &value, BPF_ANY) ||                        \
			    bpf_map_pop_elem(&map, &back) || back != value)                    \
				return XDP_DROP;                                               \
		}                                                                              \
		return XDP_PASS;                                                               \
	}

PUSH_AND_POP(push_pop_queue, queue)
PUSH_AND_POP(push_pop_stack, stack)

/* --- each entry, and a lock */

static long see(void *map, const __u32 *key, __u64 *value, __u32 *seen)
{
	*seen += 1;
	return 0;
}

SEC("xdp")
int for_each_array(struct xdp_md *ctx)
{
	__u32 seen = 0;

	if (bpf_for_each_map_elem(&array_walked, see, &seen, 0) != OPERATIONS)
		return XDP_DROP;
	return seen == OPERATIONS ? XDP_PASS : XDP_DROP;
}

SEC("xdp")
int spin_lock(struct xdp_md *ctx)
{
	__u32 first = 0;
	struct locked *locked = bpf_map_lookup_elem(&locks, &first);

	if (!locked)
		return XDP_DROP;
	locked->last = 0;
	REPEAT_OPERATION
	{
		bpf_spin_lock(&locked->lock);
		locked->last = turn;
		bpf_spin_unlock(&locked->lock);
	}
	return locked->last == OPERATIONS - 1 ? XDP_PASS : XDP_DROP;
}
