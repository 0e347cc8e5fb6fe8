/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Ring buffers (kernel/bpf/ringbuf.c) and what takes the place of perf's. A record is a header of
 * 8 bytes and the payload, always in one piece: where the kernel maps the pages twice, the memory
 * is twice the size here, and a record may begin near the end of the first half.
 */

#define RING_BUSY (1u << 31)
#define RING_DISCARD (1u << 30)
#define RING_HEADER 8
#define RING_RECORD_MAX (0xffffffffu / 4)
#define PERF_RING_BYTES (1u << 20)

enum { RING_AVAILABLE, RING_SIZE, RING_CONSUMER, RING_PRODUCER };
enum { RING_NO_WAKEUP = 1, RING_FORCE_WAKEUP = 2 };

struct ring {
	u64 mask;
	u64 consumer;
	u64 producer;
	u64 lost;
	u8 *data;
};

static s64 ring_memory(const struct user_map *map)
{
	u32 size = map->max_entries;

	if (map->flags & ~BPF_F_NUMA_NODE || map->key_bytes || map->value_bytes ||
	    !size || size & (size - 1) || size % 4096)
		return -EINVAL;
	return round_up_8(sizeof(struct ring)) + 2ull * size;
}

static void ring_set_up(struct ring *ring, u32 bytes)
{
	ring->mask = bytes - 1;
	ring->data = (u8 *)ring + round_up_8(sizeof(*ring));
}

static void ring_create(struct user_map *map, u8 *memory)
{
	struct ring *ring = (struct ring *)memory;

	ring_set_up(ring, map->max_entries);
	map->inside = ring;
	map->values = ring->data;
	map->values_bytes = 2ull * map->max_entries;
}

inline_always u8 *ring_reserve(struct ring *ring, u64 size)
{
	u64 bytes = round_up_8(size + RING_HEADER);
	u8 *header;

	if (unlikely(size > RING_RECORD_MAX || bytes > ring->mask + 1))
		return NULL;
	if (ring->producer + bytes - ring->consumer > ring->mask)
		return NULL;
	header = ring->data + (ring->producer & ring->mask);
	write_u32(header, (u32)size | RING_BUSY);
	ring->producer += bytes;
	return header + RING_HEADER;
}

inline_always void ring_commit(u8 *record, u32 discard)
{
	u8 *header = record - RING_HEADER;

	write_u32(header, (read_u32(header) ^ RING_BUSY) | discard);
}

/*
 * The next whole record's payload, its size and the header's second word, or NULL. It is the
 * caller's until a program runs again. An unsound program may have written to headers, which lie
 * among what it may write to: no length goes beyond what was reserved.
 */
static u8 *ring_take(struct ring *ring, u32 *bytes, u32 *word)
{
	while (ring->consumer < ring->producer) {
		u8 *header = ring->data + (ring->consumer & ring->mask);
		u32 length = read_u32(header);

		if (length & RING_BUSY)
			return NULL;
		*bytes = (u32)min_of((u64)(length & ~RING_DISCARD),
				     ring->producer - ring->consumer - RING_HEADER);
		*word = read_u32(header + 4);
		ring->consumer += round_up_8(*bytes + (u64)RING_HEADER);
		if (!(length & RING_DISCARD))
			return header + RING_HEADER;
	}
	return NULL;
}

static s64 perf_memory(const struct user_map *map)
{
	s64 slots = slots_memory(map);

	return slots < 0 ? slots : slots + (s64)round_up_8(sizeof(struct ring)) +
				   2ll * PERF_RING_BYTES;
}

static struct ring *perf_ring(const struct user_map *map)
{
	return (struct ring *)(map->values + round_up_8(9ull * map->max_entries));
}

static void perf_create(struct user_map *map, u8 *memory)
{
	slots_create(map, memory);
	ring_set_up(perf_ring(map), PERF_RING_BYTES);
}

u8 *user_map_take(struct user_map *map, u32 *bytes, u32 *cpu);
void user_map_skip(struct user_map *map);
u64 user_map_lost(const struct user_map *map);

static struct ring *ring_of(struct user_map *map)
{
	return map->type == MAP_RINGBUF ? map->inside : perf_ring(map);
}

/* The next record of a ring buffer or perf event array; `*cpu` is who wrote it (perf only). */
u8 *user_map_take(struct user_map *map, u32 *bytes, u32 *cpu)
{
	return ring_take(ring_of(map), bytes, cpu);
}

/* All records at once, unread. */
void user_map_skip(struct user_map *map)
{
	struct ring *ring = ring_of(map);

	ring->consumer = ring->producer;
}

/* Records that found no room in a perf event array. */
u64 user_map_lost(const struct user_map *map)
{
	return map->type == MAP_PERF_EVENT_ARRAY ? perf_ring(map)->lost : 0;
}

HELPER(ringbuf_reserve)
{
	return r3 ? 0 : U64(ring_reserve(MAP(r1)->inside, r2));
}

HELPER(ringbuf_submit)
{
	ring_commit(BYTES(r1), 0);
	return 0;
}

HELPER(ringbuf_discard)
{
	ring_commit(BYTES(r1), RING_DISCARD);
	return 0;
}

HELPER(ringbuf_output)
{
	u8 *record;

	if (unlikely(r4 & ~(u64)(RING_NO_WAKEUP | RING_FORCE_WAKEUP)))
		return -EINVAL;
	record = ring_reserve(MAP(r1)->inside, r3);
	if (!record)
		return -EAGAIN;
	copy_bytes(record, BYTES(r2), r3);
	ring_commit(record, 0);
	return 0;
}

HELPER(ringbuf_query)
{
	const struct ring *ring = MAP(r1)->inside;

	switch (r2) {
	case RING_AVAILABLE:
		return ring->producer - ring->consumer;
	case RING_SIZE:
		return ring->mask + 1;
	case RING_CONSUMER:
		return ring->consumer;
	case RING_PRODUCER:
		return ring->producer;
	default:
		return 0;
	}
}

/* bpf_xdp_event_output: the program's bytes, then as many of the frame as the flags ask for. */
HELPER(perf_event_output)
{
	const struct user_map *map = MAP(r2);
	u32 index = (u32)r3, frame_part = (u32)(r3 >> 32) & 0xfffff, size = (u32)r5;
	struct ring *ring = perf_ring(map);
	u8 *record;

	if (unlikely(r3 & ~0x000fffffffffffffull))
		return -EINVAL;
	if (unlikely(frame_part > frame_bytes(frame)))
		return -EFAULT;
	if (index == 0xffffffffu)
		index = frame->state->cpu;
	if (unlikely(index >= map->max_entries))
		return -E2BIG;
	if (!((u8 *)map->inside)[index])
		return -ENOENT;
	if (index != frame->state->cpu)
		return -EOPNOTSUPP;
	record = ring_reserve(ring, (u64)size + frame_part);
	if (!record) {
		ring->lost++;
		return -ENOSPC;
	}
	write_u32(record - 4, index);
	copy_bytes(record, BYTES(r4), size);
	copy_across(frame, 0, record + size, frame_part, 0);
	ring_commit(record, 0);
	return 0;
}
