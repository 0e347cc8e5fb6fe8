/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the veth model (veth_model.c) is made of: structures, rings, the page pool, skbs. */

enum {
	VETH_RING_MOST = 256,  /* VETH_RING_SIZE */
	VETH_BATCH = 16,       /* VETH_XDP_TX_BULK_SIZE, VETH_XDP_BATCH, DEV_MAP_BULK_SIZE */
	VETH_PAGES = 3 * VETH_RING_MOST,
	VETH_SENT = VETH_RING_MOST + 64, /* buffers of the generator */
	VETH_BUDGET_MOST = 256,
	VETH_PAGE_BYTES = 4096,
	VETH_SENT_BYTES = 2048,
	SHARED_INFO_BYTES = USER_TAILROOM_BYTES,
	SKB_CLEARED = 184,     /* offsetof(struct sk_buff, tail): what __build_skb clears */
	SHARED_INFO_CLEARED = 32, /* offsetof(struct skb_shared_info, dataref) */
	IS_FRAME = 1,          /* VETH_XDP_FLAG */

	VETH0 = 1, VETH1, VETH2, VETH3,
};

/* struct sk_buff, as far as the path reads or writes it; the cleared part is as long as there. */
struct model_skb {
	struct model_skb *next;
	struct model_skb *previous;
	void *device;
	u64 timestamp;
	u8 control[48];
	u64 dst;
	u64 destructor;
	u64 extensions;
	u32 bytes;
	u32 paged_bytes;
	u16 mac_bytes;
	u16 queue_mapping;
	u32 flags;
	u64 headers[5];        /* priority, ingress, hash, mark, VLAN and offsets of headers */
	u16 protocol;
	u16 transport_header;
	u16 network_header;
	u16 mac_header;
	u64 unread[2];
	u32 tail;              /* not cleared from here on */
	u32 end;
	u8 *head;
	u8 *data;
	u32 truesize;
	u32 users;
};

_Static_assert(__builtin_offsetof(struct model_skb, tail) == SKB_CLEARED,
	       "cleared as the kernel's");
_Static_assert(sizeof(struct model_skb) <= HEAD_BYTES, "a head holds an skb");

/* struct xdp_frame: lies where the headroom starts. */
struct model_frame {
	u8 *data;
	u16 bytes;
	u16 headroom;
	u32 metadata_bytes;
	void *device;
	u32 frame_bytes;
	u32 flags;
	u64 pool;
};

_Static_assert(sizeof(struct model_frame) == USER_XDP_FRAME_BYTES, "as long as the kernel's");

/* struct page of a pool's page, or of a buffer of the generator's. */
struct model_page {
	u32 references;
	u32 padding;
	u64 pool;
} __attribute__((aligned(64)));

struct model_ring {
	u32 producer;
	u32 lock;
	u32 consumer_head __attribute__((aligned(64)));
	u32 consumer_tail;
	u32 entries __attribute__((aligned(64)));
	u32 batch;
	void *queue[VETH_RING_MOST];
};

struct model_queue;

struct model_device {
	struct model_device *next;
	u32 ifindex;
	u32 longest;
	struct model_queue *peer; /* where what it sends arrives */
	u8 address[8];
};

struct model_counts {
	u64 polled;
	u64 dropped;
	u64 passed;
	u64 forwarded;
	u64 lost;
	u64 refused;
	u64 bytes;
};

struct model_queue {
	struct model_ring ring;
	struct model_device *device;
	u32 scheduled;
	struct model_counts counts;
};

struct model_bulk {
	u32 count;
	struct model_queue *to;
	struct model_frame *frames[VETH_BATCH];
};

struct veth_model {
	struct head_store heads;
	struct model_queue queues[3]; /* of veth0, veth1, veth3 */
	struct model_device devices[4];
	struct model_device *by_index[256];
	struct model_bulk to_peer;    /* struct veth_xdp_tx_bq */
	struct model_bulk to_device;  /* struct xdp_dev_bulk_queue */
	struct model_skb *delivered;
	struct model_skb **delivered_end;
	u64 (*program)(struct user_frame *frame);
	struct user_frame *frame;
	u32 reuse;
	u32 budget;
	u64 seen;                     /* what the stack behind PASS found in the headers */
	u32 pool_count;
	u32 sent_count;
	u8 *pool[VETH_PAGES];
	u8 *sent[VETH_SENT];
	struct model_page pages[VETH_PAGES];
	struct model_page sent_pages[VETH_SENT];
	u8 *page_memory;
	u8 *sent_memory;
};

/* struct ptr_ring: an empty entry is NULL, and what was consumed is emptied in batches. */
inline_always s32 ptr_ring_produce(struct model_ring *ring, void *entry)
{
	if (unlikely(ring->queue[ring->producer]))
		return -ENOSPC;
	__atomic_store_n(&ring->queue[ring->producer], entry, __ATOMIC_RELEASE);
	if (unlikely(++ring->producer >= ring->entries))
		ring->producer = 0;
	return 0;
}

inline_always void *ptr_ring_consume(struct model_ring *ring)
{
	void *entry = __atomic_load_n(&ring->queue[ring->consumer_head], __ATOMIC_CONSUME);
	u32 head, empty;

	if (!entry)
		return NULL;
	head = ring->consumer_head + 1;
	empty = head;
	if (unlikely(head - ring->consumer_tail >= ring->batch || head >= ring->entries)) {
		/* Backwards, so that the producer meets its entry last. */
		while (empty-- > ring->consumer_tail)
			ring->queue[empty] = NULL;
		ring->consumer_tail = head;
	}
	if (unlikely(head >= ring->entries)) {
		head = 0;
		ring->consumer_tail = 0;
	}
	__atomic_store_n(&ring->consumer_head, head, __ATOMIC_RELAXED);
	return entry;
}

inline_always void ptr_ring_lock(struct model_ring *ring)
{
	while (__atomic_exchange_n(&ring->lock, 1, __ATOMIC_ACQUIRE))
		;
}

inline_always void ptr_ring_unlock(struct model_ring *ring)
{
	__atomic_store_n(&ring->lock, 0, __ATOMIC_RELEASE);
}

inline_always u8 *pool_take(struct veth_model *model)
{
	u8 *memory;

	if (unlikely(!model->pool_count))
		return NULL;
	memory = model->pool[--model->pool_count];
	model->pages[(memory - model->page_memory) / VETH_PAGE_BYTES].references = 1;
	return memory;
}

inline_always void pool_put(struct veth_model *model, const void *address)
{
	u64 number = (u64)((const u8 *)address - model->page_memory) / VETH_PAGE_BYTES;
	struct model_page *page = &model->pages[number];

	/* Somebody else's reference would keep it from being recycled. */
	if (unlikely(page->references != 1 || page->pool != U64(model)))
		return;
	page->references = 0;
	model->pool[model->pool_count++] = model->page_memory + number * VETH_PAGE_BYTES;
}

inline_always void sent_put(struct veth_model *model, const u8 *head)
{
	u64 number = (u64)(head - model->sent_memory) / VETH_SENT_BYTES;

	if (!__atomic_sub_fetch(&model->sent_pages[number].references, 1, __ATOMIC_ACQ_REL))
		model->sent[model->sent_count++] = model->sent_memory + number * VETH_SENT_BYTES;
}

inline_always void clear_skb(struct model_skb *skb)
{
#ifdef __x86_64__
	/* What compilers make of the kernel's memset of that size. */
	void *to = skb;
	u64 words = SKB_CLEARED / 8;

	__asm__ volatile("rep stosq" : "+D"(to), "+c"(words) : "a"(0ull) : "memory");
#else
	clear_bytes(skb, SKB_CLEARED);
#endif
}

/* __build_skb: an skb around a buffer that is there. */
inline_always void skb_build(struct model_skb *skb, u8 *buffer, u32 buffer_bytes)
{
	u8 *info = buffer + buffer_bytes - SHARED_INFO_BYTES;

	clear_skb(skb);
	skb->truesize = buffer_bytes + HEAD_BYTES;
	__atomic_store_n(&skb->users, 1, __ATOMIC_RELAXED);
	skb->head = buffer;
	skb->data = buffer;
	skb->tail = 0;
	skb->end = buffer_bytes - SHARED_INFO_BYTES;
	skb->mac_header = 0xffff;
	skb->transport_header = 0xffff;
	clear_bytes(info, SHARED_INFO_CLEARED);
	write_u32(info + SHARED_INFO_CLEARED, 1);
}

inline_always void skb_place(struct model_skb *skb, u32 headroom, u32 bytes)
{
	skb->data += headroom;
	skb->tail = headroom + bytes;
	skb->bytes = bytes;
}

inline_always void skb_release_state(struct model_skb *skb)
{
	if (unlikely(skb->dst | skb->destructor | skb->extensions)) {
		skb->dst = 0;
		skb->destructor = 0;
		skb->extensions = 0;
	}
}

inline_always u8 skb_has_frags(const struct model_skb *skb)
{
	return skb->head[skb->end + 2];
}

/* consume_skb of the generator's skb, allocated by another CPU. */
inline_always void skb_consume_sent(struct veth_model *model, struct model_skb *skb)
{
	if (unlikely(__atomic_load_n(&skb->users, __ATOMIC_ACQUIRE) != 1))
		return;
	skb_release_state(skb);
	if (likely(!skb_has_frags(skb)))
		sent_put(model, skb->head);
	head_free(&model->heads, 1, skb);
}

/* kfree_skb of an skb whose data is a page of the pool. */
inline_always void skb_free_paged(struct veth_model *model, struct model_skb *skb)
{
	if (unlikely(__atomic_load_n(&skb->users, __ATOMIC_ACQUIRE) != 1))
		return;
	skb_release_state(skb);
	if (likely(!skb_has_frags(skb)))
		pool_put(model, skb->head);
	head_free(&model->heads, 1, skb);
}

/* The head alone: its page goes on. Here is what the model is about. */
inline_always void skb_free_stolen(struct veth_model *model, struct model_skb *skb)
{
	skb_release_state(skb);
	if (model->reuse == USER_SKB_REUSE_NAPI_CACHE)
		napi_head_put(&model->heads, skb);
	else
		head_free(&model->heads, 1, skb);
}
