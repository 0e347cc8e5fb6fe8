/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * skb heads of the veth model (veth_model.c): an allocator in SLUB's manner, and the NAPI cache
 * of heads before it. A model: what SLUB does per object and per slab is done here on memory of
 * the same shape, by one thread that plays two CPUs; what memory control groups, statistics and
 * debugging add is not there.
 */

enum {
	HEAD_BYTES = 256,      /* struct sk_buff, aligned to cache lines */
	HEAD_LINK = 128,       /* the free list's pointer lies in the middle of an object */
	SLAB_SHIFT = 13,
	SLAB_HEADS = (1 << SLAB_SHIFT) / HEAD_BYTES,
	SLABS = 64,
	SLAB_CPU_PARTIAL = 4,  /* slabs that a CPU keeps for objects of this size */
	SLAB_NODE_PARTIAL = 5, /* and the node: free ones beyond go back to the page allocator */

	NAPI_SKB_CACHE_SIZE = 64,
	NAPI_SKB_CACHE_BULK = 16,
	NAPI_SKB_CACHE_HALF = NAPI_SKB_CACHE_SIZE / 2,
};

/* What changes in one instruction: a free list and what goes with it. */
struct pair {
	u64 list;
	u64 word;
} __attribute__((aligned(16)));

/* The page's side of a slab, in a cache line of its own as a struct page is. */
struct head_slab {
	struct pair free;      /* word: objects in use, SLAB_FROZEN while it is a CPU's */
	struct head_slab *next;
	struct head_slab *previous;
} __attribute__((aligned(64)));

#define SLAB_FROZEN (1ull << 32)
#define SLAB_IN_USE(word) ((u32)(word))

struct head_cpu {
	struct pair free;      /* word: grows with every operation */
	struct head_slab *slab;
	struct head_slab *partial;
	u32 partial_count;
} __attribute__((aligned(64)));

struct napi_heads {
	u32 count;
	void *heads[NAPI_SKB_CACHE_SIZE];
} __attribute__((aligned(64)));

/* Everything about heads. CPU 0 is the generator's, CPU 1 polls. */
struct head_store {
	struct head_cpu cpus[2];
	struct napi_heads cache;
	struct head_slab node;  /* ends of the list of partial slabs */
	u32 node_count;
	u32 made;               /* slabs that were ever taken from the page allocator */
	struct head_slab *unused;
	u64 secret;
	u64 random;
	u8 *objects;
	struct head_slab slabs[SLABS];
};

/*
 * Compares and swaps a pair. A CPU's own needs no lock: nobody else writes it; a slab's does. Where
 * there is no instruction that all processors have, a comparison and two stores do, for there is
 * one thread.
 */
inline_always u8 swap_pair(struct pair *pair, u32 locked, u64 list, u64 word, u64 new_list,
			   u64 new_word)
{
	u8 swapped;

#ifdef __x86_64__
	if (locked)
		__asm__ volatile("lock cmpxchg16b %1\n\tsete %0"
				 : "=q"(swapped), "+m"(*pair), "+a"(list), "+d"(word)
				 : "b"(new_list), "c"(new_word)
				 : "memory", "cc");
	else
		__asm__ volatile("cmpxchg16b %1\n\tsete %0"
				 : "=q"(swapped), "+m"(*pair), "+a"(list), "+d"(word)
				 : "b"(new_list), "c"(new_word)
				 : "memory", "cc");
#else
	(void)locked;
	swapped = pair->list == list && pair->word == word;
	if (swapped) {
		pair->list = new_list;
		pair->word = new_word;
	}
#endif
	return swapped;
}

#define SWAP_OF_CPU(pair, ...) swap_pair(pair, 0, __VA_ARGS__)
#define SWAP_OF_SLAB(pair, ...) swap_pair(pair, 1, __VA_ARGS__)

/* Links are kept scrambled, as CONFIG_SLAB_FREELIST_HARDENED has it. */
inline_always u64 scrambled(const struct head_store *store, u64 object, u64 link)
{
	return link ^ store->secret ^ __builtin_bswap64(object + HEAD_LINK);
}

inline_always u64 next_free(const struct head_store *store, u64 object)
{
	return scrambled(store, object, read_u64(BYTES(object + HEAD_LINK)));
}

inline_always void set_next_free(const struct head_store *store, u64 object, u64 next)
{
	write_u64(BYTES(object + HEAD_LINK), scrambled(store, object, next));
}

inline_always struct head_slab *slab_of(struct head_store *store, u64 object)
{
	return &store->slabs[(object - U64(store->objects)) >> SLAB_SHIFT];
}

inline_always void node_remove(struct head_store *store, struct head_slab *slab)
{
	slab->previous->next = slab->next;
	slab->next->previous = slab->previous;
	store->node_count--;
}

inline_always void node_add(struct head_store *store, struct head_slab *slab)
{
	slab->next = &store->node;
	slab->previous = store->node.previous;
	slab->previous->next = slab;
	store->node.previous = slab;
	store->node_count++;
}

inline_always void slab_discard(struct head_store *store, struct head_slab *slab)
{
	slab->next = store->unused;
	store->unused = slab;
}

/* A slab from the page allocator, its objects in random order (CONFIG_SLAB_FREELIST_RANDOM). */
static struct head_slab *slab_new(struct head_store *store)
{
	u8 order[SLAB_HEADS];
	struct head_slab *slab = store->unused;
	u64 first, object;

	if (slab)
		store->unused = slab->next;
	else if (store->made < SLABS)
		slab = &store->slabs[store->made++];
	else
		return NULL;
	for (u32 i = 0; i < SLAB_HEADS; i++) {
		u32 other;

		store->random = store->random * 6364136223846793005ull + 1442695040888963407ull;
		other = (u32)((store->random >> 33) % (i + 1));
		order[i] = order[other];
		order[other] = (u8)i;
	}
	first = U64(store->objects) + ((u64)(slab - store->slabs) << SLAB_SHIFT);
	object = 0;
	for (u32 i = 0; i < SLAB_HEADS; i++) {
		u64 at = first + order[i] * (u64)HEAD_BYTES;

		set_next_free(store, at, object);
		object = at;
	}
	slab->free.list = object;
	slab->free.word = SLAB_FROZEN;
	return slab;
}

inline_always void slab_freeze(struct head_slab *slab)
{
	u64 list, word;

	do {
		list = slab->free.list;
		word = slab->free.word;
	} while (!SWAP_OF_SLAB(&slab->free, list, word, list, word | SLAB_FROZEN));
}

/* One slab of the node's for the CPU to take from, and some more to keep. */
static struct head_slab *node_take(struct head_store *store, struct head_cpu *cpu)
{
	struct head_slab *first = NULL;

	while (store->node_count) {
		struct head_slab *slab = store->node.next;

		node_remove(store, slab);
		slab_freeze(slab);
		if (!first) {
			first = slab;
			continue;
		}
		slab->next = cpu->partial;
		cpu->partial = slab;
		if (++cpu->partial_count > SLAB_CPU_PARTIAL / 2)
			break;
	}
	return first;
}

/* Takes all that is free in the CPU's slab; with nothing free, the slab is the CPU's no more. */
inline_always u64 slab_take_list(struct head_slab *slab)
{
	u64 list, word;

	do {
		list = slab->free.list;
		word = slab->free.word;
	} while (!SWAP_OF_SLAB(&slab->free, list, word, 0,
			       SLAB_HEADS | (list ? SLAB_FROZEN : 0)));
	return list;
}

/* Where the CPU's free list has ended: the slab's own, partial slabs, a new one. */
static __attribute__((noinline)) void *head_take_slow(struct head_store *store,
						      struct head_cpu *cpu)
{
	for (;;) {
		if (cpu->slab) {
			u64 list = slab_take_list(cpu->slab);

			if (list) {
				cpu->free.list = next_free(store, list);
				cpu->free.word++;
				return BYTES(list);
			}
		}
		cpu->slab = cpu->partial;
		if (cpu->slab) {
			cpu->partial = cpu->slab->next;
			cpu->partial_count--;
			continue;
		}
		cpu->slab = node_take(store, cpu);
		if (!cpu->slab)
			cpu->slab = slab_new(store);
		if (!cpu->slab)
			return NULL;
	}
}

inline_always void *head_take(struct head_store *store, u32 which)
{
	struct head_cpu *cpu = &store->cpus[which];
	u64 object, next, word;

	do {
		object = cpu->free.list;
		word = cpu->free.word;
		if (unlikely(!object))
			return head_take_slow(store, cpu);
		next = next_free(store, object);
	} while (!SWAP_OF_CPU(&cpu->free, object, word, next, word + 1));
	__builtin_prefetch(BYTES(next + HEAD_LINK), 1);
	return BYTES(object);
}

static u32 head_take_bulk(struct head_store *store, u32 which, u32 wanted, void **heads)
{
	struct head_cpu *cpu = &store->cpus[which];

	for (u32 i = 0; i < wanted; i++) {
		u64 object = cpu->free.list;

		if (likely(object)) {
			cpu->free.list = next_free(store, object);
			heads[i] = BYTES(object);
			continue;
		}
		heads[i] = head_take_slow(store, cpu);
		if (!heads[i])
			return i;
	}
	cpu->free.word++;
	return wanted;
}

/* A slab that had nothing free has something now: the CPU keeps it, and makes room for it. */
static void keep_partial(struct head_store *store, struct head_cpu *cpu, struct head_slab *slab)
{
	struct head_slab *old = NULL;

	if (cpu->partial_count >= SLAB_CPU_PARTIAL) {
		old = cpu->partial;
		cpu->partial = NULL;
		cpu->partial_count = 0;
	}
	slab->next = cpu->partial;
	cpu->partial = slab;
	cpu->partial_count++;
	while (old) {
		struct head_slab *next = old->next;
		u64 list, word;

		do {
			list = old->free.list;
			word = old->free.word;
		} while (!SWAP_OF_SLAB(&old->free, list, word, list, word & ~SLAB_FROZEN));
		if (!SLAB_IN_USE(word) && store->node_count >= SLAB_NODE_PARTIAL)
			slab_discard(store, old);
		else
			node_add(store, old);
		old = next;
	}
}

/* Into the slab's own list: the CPU takes from another slab, or the slab is another CPU's. */
static __attribute__((noinline)) void head_free_slow(struct head_store *store,
						     struct head_cpu *cpu, struct head_slab *slab,
						     u64 first, u64 last, u32 count)
{
	u64 list, word, changed;

	do {
		list = slab->free.list;
		word = slab->free.word;
		set_next_free(store, last, list);
		changed = word - count;
		if (!list && !(word & SLAB_FROZEN))
			changed |= SLAB_FROZEN;
	} while (!SWAP_OF_SLAB(&slab->free, list, word, first, changed));
	if (word & SLAB_FROZEN)
		return;
	if (changed & SLAB_FROZEN) {
		keep_partial(store, cpu, slab);
	} else if (!SLAB_IN_USE(changed) && store->node_count >= SLAB_NODE_PARTIAL) {
		node_remove(store, slab);
		slab_discard(store, slab);
	}
}

inline_always void head_free_chain(struct head_store *store, u32 which, struct head_slab *slab,
				   u64 first, u64 last, u32 count)
{
	struct head_cpu *cpu = &store->cpus[which];
	u64 list, word;

	do {
		if (unlikely(slab != cpu->slab)) {
			head_free_slow(store, cpu, slab, first, last, count);
			return;
		}
		list = cpu->free.list;
		word = cpu->free.word;
		set_next_free(store, last, list);
	} while (!SWAP_OF_CPU(&cpu->free, list, word, first, word + 1));
}

inline_always void head_free(struct head_store *store, u32 which, void *head)
{
	head_free_chain(store, which, slab_of(store, U64(head)), U64(head), U64(head), 1);
}

/* Heads of one slab go back together, as far as few others lie between them. */
static void head_free_bulk(struct head_store *store, u32 which, u32 count, void **heads)
{
	while (count) {
		u64 last = U64(heads[--count]), first = last;
		struct head_slab *slab = slab_of(store, last);
		u32 chained = 1, patience = 3, left = count;

		for (u32 at = count; at--;) {
			u64 object = U64(heads[at]);

			if (slab_of(store, object) != slab) {
				if (!--patience)
					break;
				continue;
			}
			set_next_free(store, object, first);
			first = object;
			chained++;
			heads[at] = heads[--left];
		}
		count = left;
		head_free_chain(store, which, slab, first, last, chained);
	}
}

/* The NAPI cache: filled by the bulk when it is empty, halved when it is full. */
inline_always void *napi_head_take(struct head_store *store)
{
	struct napi_heads *cache = &store->cache;

	if (unlikely(!cache->count)) {
		cache->count = head_take_bulk(store, 1, NAPI_SKB_CACHE_BULK, cache->heads);
		if (unlikely(!cache->count))
			return NULL;
	}
	return cache->heads[--cache->count];
}

inline_always void napi_head_put(struct head_store *store, void *head)
{
	struct napi_heads *cache = &store->cache;

	cache->heads[cache->count++] = head;
	if (unlikely(cache->count == NAPI_SKB_CACHE_SIZE)) {
		cache->count = NAPI_SKB_CACHE_HALF;
		head_free_bulk(store, 1, NAPI_SKB_CACHE_HALF, cache->heads + NAPI_SKB_CACHE_HALF);
	}
}

static void head_store_init(struct head_store *store, u8 *objects)
{
	clear_bytes(store, sizeof(*store));
	store->node.next = &store->node;
	store->node.previous = &store->node;
	store->objects = objects;
	store->secret = 0x5bd1e9955bd1e995ull;
	store->random = 20;
}

static u32 chain_length(const struct head_store *store, u64 object)
{
	u32 length = 0;

	/* A list that bites its tail must end as well, as a length that cannot be. */
	for (; object && length <= SLABS * SLAB_HEADS; length++)
		object = next_free(store, object);
	return length;
}

/*
 * Walks every free list; heads that are in none are in use. A number that cannot be where a slab's
 * own account is wrong.
 */
static u32 heads_free(const struct head_store *store)
{
	u32 count = chain_length(store, store->cpus[0].free.list) +
		    chain_length(store, store->cpus[1].free.list);

	for (u32 i = 0; i < store->made; i++) {
		const struct head_slab *slab = &store->slabs[i];
		u32 length = chain_length(store, slab->free.list);

		if (SLAB_IN_USE(slab->free.word) + length != SLAB_HEADS)
			return ~0u;
		count += length;
	}
	return count;
}
