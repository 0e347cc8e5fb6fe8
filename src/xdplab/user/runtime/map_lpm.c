/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Longest prefix match: a binary trie whose nodes are entries, or forks that two entries need, as
 * kernel/bpf/lpm_trie.c. Keys are a u32 prefix length and then the bits, most significant first.
 *
 * A node's number is where it lies, in words of 8 bytes from 1. A lookup is a chain of loads, one
 * node's address out of another: nothing that can be known beforehand is computed within it.
 */

#define LPM_DEPTH (8 * 256 + 1) /* longest key, and the empty prefix */

struct lpm_node {
	u32 child[2];         /* numbers; 0 is none */
	u32 prefix_bits;
	u32 is_fork;
	u32 number;           /* its own */
	u32 padding;
	u8 data[];
};

struct lpm_map {
	u8 *nodes;
	u64 node_bytes;
	u32 data_bytes;
	u32 value_offset;
	u32 last;             /* the highest number that a node may have */
	u32 unused;
	u32 free;
	u32 root;
	u32 count;            /* entries */
	u32 padding;
};

static void lpm_layout(const struct user_map *map, struct lpm_map *lpm)
{
	lpm->data_bytes = map->key_bytes - 4;
	lpm->value_offset = sizeof(struct lpm_node) + round_up_8(lpm->data_bytes);
	lpm->node_bytes = lpm->value_offset + round_up_8(map->value_bytes);
}

inline_always u64 lpm_node_count(const struct user_map *map)
{
	/* Each entry beyond the first needs one fork at most; one spare is for replacing. */
	return 2ull * map->max_entries + 1;
}

static s64 lpm_memory(const struct user_map *map)
{
	struct lpm_map lpm;
	u64 bytes;

	if (!map->max_entries || !map->value_bytes || map->key_bytes < 5 ||
	    map->key_bytes > 4 + 256 || !(map->flags & BPF_F_NO_PREALLOC) ||
	    map->flags & ~(BPF_F_NO_PREALLOC | BPF_F_NUMA_NODE | ACCESS_FLAGS))
		return -EINVAL;
	/* 40: the kernel's header of a node. */
	if (map->value_bytes > KMALLOC_MAX - 256 - 40)
		return -EINVAL;
	if (map->max_entries > 1u << 30)
		return -E2BIG;
	lpm_layout(map, &lpm);
	bytes = lpm.node_bytes * lpm_node_count(map);
	/* Numbers are u32: that is for 32 GiB. */
	return bytes >> 35 ? -ENOMEM : (s64)(round_up_8(sizeof(lpm)) + bytes);
}

static void lpm_create(struct user_map *map, u8 *memory)
{
	struct lpm_map *lpm = (struct lpm_map *)memory;

	lpm_layout(map, lpm);
	lpm->nodes = memory + round_up_8(sizeof(*lpm));
	lpm->last = lpm->node_bytes / 8 * (lpm_node_count(map) - 1) + 1;
	lpm->unused = 1;
	map->inside = lpm;
	map->values = lpm->nodes + lpm->value_offset;
	map->value_stride = lpm->node_bytes;
	map->values_bytes = lpm->node_bytes * (lpm_node_count(map) - 1) + round_up_8(map->value_bytes);
}

inline_always struct lpm_node *lpm_node(const struct lpm_map *lpm, u32 number)
{
	if (unlikely(number - 1 >= lpm->last))
		return NULL;
	return (struct lpm_node *)(lpm->nodes + 8 * (u64)(number - 1));
}

inline_always u32 lpm_bit(const u8 *data, u32 index)
{
	return data[index / 8] >> (7 - index % 8) & 1;
}

/* How many leading bits are the same, at most what the shorter prefix has. */
inline_always u32 lpm_match(const struct lpm_map *lpm, const struct lpm_node *node, const u8 *key)
{
	u32 key_bits = read_u32(key), bits = 0, at = 0;
	u32 limit = min_of(node->prefix_bits, key_bits);
	const u8 *data = key + 4;

	for (; at + 8 <= lpm->data_bytes; at += 8) {
		u64 difference = __builtin_bswap64(read_u64(node->data + at) ^ read_u64(data + at));

		bits += difference ? (u32)__builtin_clzll(difference) : 64;
		if (difference || bits >= limit)
			return min_of(bits, limit);
	}
	for (; at + 4 <= lpm->data_bytes; at += 4) {
		u32 difference = __builtin_bswap32(read_u32(node->data + at) ^ read_u32(data + at));

		bits += difference ? (u32)__builtin_clz(difference) : 32;
		if (difference || bits >= limit)
			return min_of(bits, limit);
	}
	for (; at < lpm->data_bytes; at++) {
		u32 difference = node->data[at] ^ data[at];

		bits += difference ? (u32)__builtin_clz(difference) - 24 : 8;
		if (difference || bits >= limit)
			break;
	}
	return min_of(bits, limit);
}

inline_always u32 lpm_max_bits(const struct lpm_map *lpm)
{
	return 8 * lpm->data_bytes;
}

/*
 * IPv4 addresses: the key stays in a register. Both children are loaded while the bit that chooses is
 * still being found: without the barrier LLVM would load one of them, later.
 */
inline_always u8 *lpm_lookup_word(const struct lpm_map *lpm, const void *key)
{
	u32 word = __builtin_bswap32(read_u32((const u8 *)key + 4)), key_bits = read_u32(key);
	u32 number = lpm->root, last = lpm->last;
	u8 *nodes = lpm->nodes, *found = NULL;

	while (number - 1 < last) {
		const struct lpm_node *node = (void *)(nodes + 8 * (u64)(number - 1));
		u32 difference = __builtin_bswap32(read_u32(node->data)) ^ word;
		u32 bits = difference ? (u32)__builtin_clz(difference) : 32;
		u32 zero = node->child[0], one = node->child[1], prefix_bits = node->prefix_bits;

		if (min_of(bits, key_bits) < prefix_bits)
			break;
		if (!node->is_fork)
			found = (u8 *)node;
		if (prefix_bits >= 32)
			break;
		__asm__("" : "+r"(zero), "+r"(one));
		number = __builtin_unpredictable(word >> (31 - prefix_bits) & 1) ? one : zero;
	}
	return found ? found + lpm->value_offset : NULL;
}

static __attribute__((noinline)) u8 *lpm_lookup_long(const struct lpm_map *lpm, const void *key)
{
	struct lpm_node *node = lpm_node(lpm, lpm->root), *found = NULL;

	while (node) {
		u32 bits = lpm_match(lpm, node, key);

		if (bits == lpm_max_bits(lpm)) {
			found = node;
			break;
		}
		if (bits < node->prefix_bits)
			break;
		if (!node->is_fork)
			found = node;
		node = lpm_node(lpm, node->child[lpm_bit((const u8 *)key + 4, node->prefix_bits)]);
	}
	return found ? (u8 *)found + lpm->value_offset : NULL;
}

static u8 *lpm_lookup(const struct user_map *map, const void *key)
{
	const struct lpm_map *lpm = map->inside;

	if (unlikely(read_u32(key) > lpm_max_bits(lpm)))
		return NULL;
	return lpm->data_bytes == 4 ? lpm_lookup_word(lpm, key) : lpm_lookup_long(lpm, key);
}

static struct lpm_node *lpm_take(struct lpm_map *lpm)
{
	struct lpm_node *node = lpm_node(lpm, lpm->free);

	if (node) {
		lpm->free = node->child[0];
	} else if ((node = lpm_node(lpm, lpm->unused))) {
		node->number = lpm->unused;
		lpm->unused += lpm->node_bytes / 8;
	}
	if (node) {
		node->child[0] = 0;
		node->child[1] = 0;
		node->is_fork = 0;
	}
	return node;
}

static void lpm_release(struct lpm_map *lpm, struct lpm_node *node)
{
	node->child[0] = lpm->free;
	lpm->free = node->number;
}

static s64 lpm_update(struct user_map *map, const void *key, const void *value, u64 flags)
{
	struct lpm_map *lpm = map->inside;
	struct lpm_node *node, *fresh, *fork;
	u32 key_bits, bits = 0, *slot = &lpm->root;

	if (unlikely(flags > BPF_EXIST))
		return -EINVAL;
	key_bits = read_u32(key);
	if (key_bits > lpm_max_bits(lpm))
		return -EINVAL;
	while ((node = lpm_node(lpm, *slot))) {
		bits = lpm_match(lpm, node, key);
		if (node->prefix_bits != bits || node->prefix_bits == key_bits)
			break;
		slot = &node->child[lpm_bit((const u8 *)key + 4, node->prefix_bits)];
	}
	if (node && node->prefix_bits == bits && node->prefix_bits == key_bits && !node->is_fork) {
		if (flags == BPF_NOEXIST)
			return -EEXIST;
	} else {
		if (flags == BPF_EXIST)
			return -ENOENT;
		if (lpm->count == map->max_entries)
			return -ENOSPC;
		lpm->count++;
	}
	fresh = lpm_take(lpm);
	if (unlikely(!fresh))
		return -ENOMEM;
	fresh->prefix_bits = key_bits;
	copy_bytes(fresh->data, (const u8 *)key + 4, lpm->data_bytes);
	copy_bytes((u8 *)fresh + lpm->value_offset, value, map->value_bytes);
	if (!node) {
		*slot = fresh->number;
	} else if (node->prefix_bits == bits) {
		fresh->child[0] = node->child[0];
		fresh->child[1] = node->child[1];
		*slot = fresh->number;
		lpm_release(lpm, node);
	} else if (bits == key_bits) {
		fresh->child[lpm_bit(node->data, bits)] = node->number;
		*slot = fresh->number;
	} else {
		u32 side = lpm_bit((const u8 *)key + 4, bits);

		fork = lpm_take(lpm);
		if (unlikely(!fork)) {
			lpm_release(lpm, fresh);
			lpm->count--;
			return -ENOMEM;
		}
		fork->prefix_bits = bits;
		fork->is_fork = 1;
		copy_bytes(fork->data, node->data, lpm->data_bytes);
		fork->child[side] = fresh->number;
		fork->child[!side] = node->number;
		*slot = fork->number;
	}
	return 0;
}

static s64 lpm_delete(struct user_map *map, const void *key)
{
	struct lpm_map *lpm = map->inside;
	struct lpm_node *node, *parent = NULL;
	u32 key_bits = read_u32(key), bits = 0, *slot = &lpm->root, *parent_slot = slot;

	if (key_bits > lpm_max_bits(lpm))
		return -EINVAL;
	while ((node = lpm_node(lpm, *slot))) {
		bits = lpm_match(lpm, node, key);
		if (node->prefix_bits != bits || node->prefix_bits == key_bits)
			break;
		parent = node;
		parent_slot = slot;
		slot = &node->child[lpm_bit((const u8 *)key + 4, node->prefix_bits)];
	}
	if (!node || node->prefix_bits != key_bits || node->prefix_bits != bits || node->is_fork)
		return -ENOENT;
	lpm->count--;
	if (node->child[0] && node->child[1]) {
		node->is_fork = 1;
		return 0;
	}
	if (parent && parent->is_fork && !node->child[0] && !node->child[1]) {
		*parent_slot = parent->child[parent->child[0] == node->number];
		lpm_release(lpm, parent);
	} else {
		*slot = node->child[0] ? node->child[0] : node->child[1];
	}
	lpm_release(lpm, node);
	return 0;
}

/* Children come before their parents, so that the longest prefixes are first. */
static s64 lpm_next_key(const struct user_map *map, const void *key, void *next_key)
{
	const struct lpm_map *lpm = map->inside;
	struct lpm_node *node = lpm_node(lpm, lpm->root), *parent;
	struct lpm_node *path[LPM_DEPTH];
	u32 depth = 0;

	if (!node)
		return -ENOENT;
	if (key && read_u32(key) <= lpm_max_bits(lpm)) {
		while (node) {
			u32 bits = lpm_match(lpm, node, key);

			if (node->prefix_bits != bits || node->prefix_bits == read_u32(key))
				break;
			path[depth++] = node;
			bits = lpm_bit((const u8 *)key + 4, node->prefix_bits);
			node = lpm_node(lpm, node->child[bits]);
		}
		if (node && (node->prefix_bits != read_u32(key) || node->is_fork ||
			     lpm_match(lpm, node, key) != node->prefix_bits))
			node = NULL;
		while (node) {
			u32 number = node->number;

			if (!depth)
				return -ENOENT;
			parent = path[--depth];
			if (parent->child[0] == number && parent->child[1]) {
				node = lpm_node(lpm, parent->child[1]);
				goto descend;
			}
			node = parent;
			if (!node->is_fork)
				goto found;
		}
		node = lpm_node(lpm, lpm->root);
	}
descend:
	while (node->child[0] || node->child[1])
		node = lpm_node(lpm, node->child[0] ? node->child[0] : node->child[1]);
found:
	write_u32(next_key, node->prefix_bits);
	copy_bytes((u8 *)next_key + 4, node->data, lpm->data_bytes);
	return 0;
}
