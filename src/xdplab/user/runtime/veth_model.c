/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A model of veth's receive path with XDP: what it costs to give an skb head that the driver
 * allocated itself back to the slab, or to the NAPI cache that it came from.
 *
 * veth0 gets skbs of a generator on another CPU. Its poll copies each into a page and a head of
 * its own, frees the generator's, and runs the program. TX sends the page to veth1, REDIRECT by an
 * interface's index to veth3; the head is given back. There the program runs once more: DROP
 * returns the page, PASS builds an skb on it, as the driver does sixteen at a time.
 *
 * What happens per packet in the driver happens here, on memory of the same shape. What is not
 * here: the stack behind PASS but for a look at the headers, interrupts, softirqs, RCU, other
 * CPUs' caches, page fragments, and every hook that is off. The model has one thread; the
 * generator's work is outside of the clock.
 */

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

u64 user_veth_bytes(void);
u64 user_veth_run(struct user_veth_job *job);
u32 user_veth_heads(struct user_veth_job *job, const s32 *steps, u32 count);

static const u64 model_bytes = (sizeof(struct veth_model) + VETH_PAGE_BYTES - 1) &
			       ~(u64)(VETH_PAGE_BYTES - 1);

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

inline_always void veth_deliver(struct veth_model *model, struct model_queue *queue,
				struct model_skb *skb)
{
	const u8 *ethernet = skb->data;

	/* eth_type_trans */
	skb->device = queue->device;
	skb->mac_header = (u16)(skb->data - skb->head);
	if (unlikely((read_u32(ethernet) ^ read_u32(queue->device->address)) ||
		     ((read_u32(ethernet + 2) ^ read_u32(queue->device->address + 2)) >> 16)))
		skb->flags |= 3; /* PACKET_OTHERHOST */
	copy_bytes(&skb->protocol, ethernet + 12, 2);
	skb->data += 14;
	skb->bytes -= 14;
	skb->next = NULL;
	*model->delivered_end = skb;
	model->delivered_end = &skb->next;
	queue->counts.passed++;
}

/* The stack behind PASS: looks at the headers and throws the packet away. */
static void veth_stack(struct veth_model *model)
{
	struct model_skb *skb = model->delivered, *next;

	for (; skb; skb = next) {
		next = skb->next;
		model->seen += skb->protocol + skb->data[0] + read_u32(skb->data + 12);
		skb_free_paged(model, skb);
	}
	model->delivered = NULL;
	model->delivered_end = &model->delivered;
}

/* ndo_xdp_xmit: what the ring has no room for is returned. */
static void veth_bulk_flush(struct veth_model *model, struct model_queue *from,
			    struct model_bulk *bulk)
{
	struct model_ring *ring = &bulk->to->ring;
	u32 sent = 0;

	ptr_ring_lock(ring);
	for (; sent < bulk->count; sent++) {
		struct model_frame *frame = bulk->frames[sent];

		if (unlikely(frame->bytes > bulk->to->device->longest ||
			     ptr_ring_produce(ring, (u8 *)frame + IS_FRAME)))
			break;
	}
	ptr_ring_unlock(ring);
	from->counts.forwarded += sent;
	from->counts.lost += bulk->count - sent;
	if (sent)
		bulk->to->scheduled = 1;
	for (; unlikely(sent < bulk->count); sent++)
		pool_put(model, bulk->frames[sent]);
	bulk->count = 0;
}

inline_always void veth_bulk_add(struct veth_model *model, struct model_queue *from,
				 struct model_bulk *bulk, struct model_queue *to,
				 struct model_frame *frame)
{
	if (unlikely(bulk->count == VETH_BATCH || (bulk->count && bulk->to != to)))
		veth_bulk_flush(model, from, bulk);
	bulk->to = to;
	bulk->frames[bulk->count++] = frame;
}

/* xdp_convert_buff_to_frame: the frame's description goes into its own headroom. */
inline_always struct model_frame *frame_of(struct veth_model *model, struct user_frame *buff,
					   struct model_queue *from)
{
	u64 headroom = (u64)(buff->data - buff->hard_start);
	struct model_frame *frame = (void *)buff->hard_start;

	frame->data = buff->data;
	frame->bytes = (u16)(buff->data_end - buff->data);
	frame->headroom = (u16)(headroom - sizeof(*frame));
	frame->metadata_bytes = (u32)(buff->data - buff->data_meta);
	frame->device = from->device;
	frame->frame_bytes = VETH_PAGE_BYTES;
	frame->flags = 0;
	frame->pool = U64(model);
	return frame;
}

inline_always struct model_device *device_by_index(const struct veth_model *model, u32 ifindex)
{
	struct model_device *device = model->by_index[ifindex & 255];

	while (device && device->ifindex != ifindex)
		device = device->next;
	return device;
}

/* Hands a frame on that a program decided to send; 0, or an error and the page is the caller's. */
inline_always s32 veth_forward(struct veth_model *model, struct model_queue *queue, u32 action)
{
	struct user_frame *buff = model->frame;
	struct user_state *state = buff->state;
	struct model_device *device;

	if (action == XDP_TX) {
		veth_bulk_add(model, queue, &model->to_peer, queue->device->peer,
			      frame_of(model, buff, queue));
		return 0;
	}
	device = device_by_index(model, state->redirect_ifindex);
	state->redirect_ifindex = 0;
	if (unlikely(!device || !device->peer))
		return -ENODEV;
	veth_bulk_add(model, queue, &model->to_device, device->peer, frame_of(model, buff, queue));
	return 0;
}

inline_always u32 veth_run_program(struct veth_model *model, struct model_queue *queue, u8 *page,
				   u8 *data, u32 bytes)
{
	struct user_frame *buff = model->frame;

	buff->hard_start = page;
	buff->hard_end = page + VETH_PAGE_BYTES;
	buff->data = data;
	buff->data_end = data + bytes;
	buff->data_meta = data;
	buff->ingress_ifindex = queue->device->ifindex;
	buff->frag_count = 0;
	buff->state->tail_calls = 0;
	return (u32)model->program(buff);
}

/* veth_convert_skb_to_xdp_buff: a head and a page of our own, then the sender's skb goes. */
inline_always struct model_skb *own_copy(struct veth_model *model, struct model_skb *sent)
{
	u8 *page = pool_take(model);
	struct model_skb *skb;

	if (unlikely(!page))
		return NULL;
	skb = napi_head_take(&model->heads);
	if (unlikely(!skb)) {
		pool_put(model, page);
		return NULL;
	}
	skb_build(skb, page, VETH_PAGE_BYTES);
	skb_place(skb, USER_HEADROOM_BYTES, sent->bytes);
	/* skb_copy_header */
	skb->timestamp = sent->timestamp;
	skb->device = sent->device;
	copy_bytes(skb->control, sent->control, sizeof(skb->control));
	copy_bytes(skb->headers, sent->headers, sizeof(skb->headers));
	skb->queue_mapping = sent->queue_mapping;
	skb->flags = sent->flags;
	copy_bytes(skb->data, sent->data, sent->bytes);
	skb_consume_sent(model, sent);
	return skb;
}

/* veth_xdp_rcv_skb */
static void veth_receive_skb(struct veth_model *model, struct model_queue *queue,
			     struct model_skb *sent)
{
	struct user_frame *buff = model->frame;
	struct model_skb *skb = own_copy(model, sent);
	u32 action;

	if (unlikely(!skb)) {
		skb_consume_sent(model, sent);
		queue->counts.lost++;
		return;
	}
	queue->counts.bytes += skb->bytes;
	action = veth_run_program(model, queue, skb->head, skb->data, skb->bytes);
	switch (action) {
	case XDP_PASS:
		skb->data = buff->data;
		skb->bytes = (u32)(buff->data_end - buff->data);
		skb->tail = (u32)(buff->data_end - skb->head);
		veth_deliver(model, queue, skb);
		break;
	case XDP_TX:
	case XDP_REDIRECT:
		skb_free_stolen(model, skb);
		if (unlikely(veth_forward(model, queue, action))) {
			queue->counts.refused++;
			pool_put(model, buff->hard_start);
		}
		break;
	default:
		queue->counts.dropped++;
		skb_free_paged(model, skb);
	}
}

/* veth_xdp_rcv_bulk_skb */
static void veth_build_passed(struct veth_model *model, struct model_queue *queue,
			      struct model_frame **frames, u32 count)
{
	void *heads[VETH_BATCH];
	u32 have = head_take_bulk(&model->heads, 1, count, heads);

	for (u32 i = 0; i < count; i++) {
		struct model_frame *frame = frames[i];
		struct model_skb *skb;

		if (unlikely(i >= have)) {
			queue->counts.lost++;
			pool_put(model, frame);
			continue;
		}
		skb = heads[i];
		skb_build(skb, (u8 *)frame, frame->frame_bytes);
		skb_place(skb, frame->headroom + (u32)sizeof(*frame), frame->bytes);
		/* xdp_scrub_frame */
		frame->data = NULL;
		frame->device = NULL;
		veth_deliver(model, queue, skb);
	}
}

/* veth_xdp_rcv_one: whether the frame is to be passed. */
inline_always u32 veth_receive_frame(struct veth_model *model, struct model_queue *queue,
				     struct model_frame *frame)
{
	struct user_frame *buff = model->frame;
	u32 action;

	queue->counts.bytes += frame->bytes;
	action = veth_run_program(model, queue, (u8 *)frame, frame->data, frame->bytes);
	switch (action) {
	case XDP_PASS:
		frame->headroom += (u16)(buff->data - frame->data);
		frame->bytes = (u16)(buff->data_end - buff->data);
		return 1;
	case XDP_TX:
	case XDP_REDIRECT:
		/* The model's paths end at the second interface. */
		queue->counts.refused++;
		break;
	default:
		queue->counts.dropped++;
	}
	pool_put(model, frame);
	return 0;
}

/* veth_poll */
static u32 veth_poll(struct veth_model *model, struct model_queue *queue)
{
	struct model_frame *passed[VETH_BATCH];
	u32 done, waiting = 0;

	for (done = 0; done < model->budget; done++) {
		u8 *entry = ptr_ring_consume(&queue->ring);

		if (!entry)
			break;
		if (U64(entry) & IS_FRAME) {
			struct model_frame *frame = (void *)(entry - IS_FRAME);

			if (!veth_receive_frame(model, queue, frame))
				continue;
			passed[waiting++] = frame;
			if (waiting == VETH_BATCH) {
				veth_build_passed(model, queue, passed, waiting);
				waiting = 0;
			}
		} else {
			veth_receive_skb(model, queue, (void *)entry);
		}
	}
	if (waiting)
		veth_build_passed(model, queue, passed, waiting);
	queue->counts.polled += done;
	if (done < model->budget)
		queue->scheduled = 0;
	if (model->to_peer.count)
		veth_bulk_flush(model, queue, &model->to_peer);
	if (model->to_device.count)
		veth_bulk_flush(model, queue, &model->to_device);
	veth_stack(model);
	return done;
}

/* The sender, on its own CPU: fills the ring. */
static u64 veth_generate(struct veth_model *model, const struct user_veth_job *job, u64 most)
{
	struct model_ring *ring = &model->queues[0].ring;
	u64 made;

	for (made = 0; made < most && !ring->queue[ring->producer]; made++) {
		struct model_skb *skb;
		u8 *buffer;

		if (!model->sent_count)
			break;
		skb = head_take(&model->heads, 0);
		if (!skb)
			break;
		buffer = model->sent[--model->sent_count];
		model->sent_pages[(buffer - model->sent_memory) / VETH_SENT_BYTES].references = 1;
		skb_build(skb, buffer, VETH_SENT_BYTES);
		skb_place(skb, 64, job->packet_bytes);
		skb->device = model->queues[0].device;
		copy_bytes(skb->data, job->packet, job->packet_bytes);
		ptr_ring_produce(ring, skb);
	}
	return made;
}

static void ptr_ring_init(struct model_ring *ring, u32 entries)
{
	clear_bytes(ring, sizeof(*ring));
	ring->entries = entries;
	ring->batch = 2 * 64 / sizeof(void *);
	if (ring->batch > entries / 2)
		ring->batch = 1;
}

static struct veth_model *model_init(struct user_veth_job *job)
{
	struct veth_model *model = (void *)job->memory;
	u8 *objects = job->memory + model_bytes;

	clear_bytes(model, sizeof(*model));
	head_store_init(&model->heads, objects);
	model->page_memory = objects + ((u64)SLABS << SLAB_SHIFT);
	model->sent_memory = model->page_memory + VETH_PAGES * VETH_PAGE_BYTES;
	for (u32 i = 0; i < VETH_PAGES; i++) {
		model->pages[i].pool = U64(model);
		model->pool[i] = model->page_memory + (VETH_PAGES - 1 - i) * VETH_PAGE_BYTES;
	}
	for (u32 i = 0; i < VETH_SENT; i++)
		model->sent[i] = model->sent_memory + (VETH_SENT - 1 - i) * VETH_SENT_BYTES;
	model->pool_count = VETH_PAGES;
	model->sent_count = VETH_SENT;
	for (u32 i = 0; i < 4; i++) {
		struct model_device *device = &model->devices[i];

		device->ifindex = VETH0 + i;
		device->longest = 1514;
		device->next = model->by_index[device->ifindex & 255];
		model->by_index[device->ifindex & 255] = device;
	}
	model->queues[0].device = &model->devices[VETH0 - VETH0];
	model->queues[1].device = &model->devices[VETH1 - VETH0];
	model->queues[2].device = &model->devices[VETH3 - VETH0];
	model->devices[VETH0 - VETH0].peer = &model->queues[1];
	model->devices[VETH2 - VETH0].peer = &model->queues[2];
	for (u32 i = 0; i < 3; i++)
		ptr_ring_init(&model->queues[i].ring, job->ring_entries);
	model->delivered_end = &model->delivered;
	model->program = job->program;
	model->frame = job->frame;
	model->reuse = job->skb_reuse;
	model->budget = job->budget;
	return model;
}

/* Sends so many packets through; the nanoseconds that both ends' polls took. */
static u64 veth_run_packets(struct veth_model *model, struct user_veth_job *job, u64 packets)
{
	u64 generated = 0, elapsed = 0;

	for (;;) {
		u64 start;
		u32 done;

		generated += veth_generate(model, job, packets - generated);
		start = read_clock(job->clock);
		done = veth_poll(model, &model->queues[0]);
		for (u32 i = 1; i < 3; i++)
			while (model->queues[i].scheduled)
				done += veth_poll(model, &model->queues[i]);
		elapsed += read_clock(job->clock) - start;
		if (unlikely(model->frame->state->fault) || !done)
			break;
	}
	job->generated = generated;
	return elapsed;
}

/* Memory that a job needs, in bytes. */
u64 user_veth_bytes(void)
{
	return model_bytes + ((u64)SLABS << SLAB_SHIFT) + VETH_PAGES * VETH_PAGE_BYTES +
	       VETH_SENT * VETH_SENT_BYTES;
}

static void account_heads(struct user_veth_job *job, const struct head_store *heads)
{
	job->heads_made = heads->made * SLAB_HEADS;
	job->heads_free = heads_free(heads);
	job->heads_cached = heads->cache.count;
}

/*
 * Runs a job on its memory, laid out anew: `warmup` packets, then `packets` whose polls are timed.
 * Answers their nanoseconds, and in the job what became of each packet, head and page.
 */
u64 user_veth_run(struct user_veth_job *job)
{
	struct veth_model *model;
	u64 elapsed;

	if (job->ring_entries < 2 || job->ring_entries > VETH_RING_MOST || !job->budget ||
	    job->budget > VETH_BUDGET_MOST || job->packet_bytes < 34 ||
	    job->packet_bytes > 1514 || job->memory_bytes < user_veth_bytes())
		return -EINVAL;
	model = model_init(job);
	veth_run_packets(model, job, job->warmup);
	for (u32 i = 0; i < 3; i++)
		clear_bytes(&model->queues[i].counts, sizeof(model->queues[i].counts));
	model->seen = 0;
	elapsed = veth_run_packets(model, job, job->packets);
	job->polled = model->queues[0].counts.polled;
	job->polled_far = model->queues[1].counts.polled + model->queues[2].counts.polled;
	job->forwarded = model->queues[0].counts.forwarded;
	job->dropped = 0;
	job->passed = 0;
	job->refused = 0;
	job->lost = 0;
	for (u32 i = 0; i < 3; i++) {
		job->dropped += model->queues[i].counts.dropped;
		job->passed += model->queues[i].counts.passed;
		job->refused += model->queues[i].counts.refused;
		job->lost += model->queues[i].counts.lost;
	}
	job->seen = model->seen;
	account_heads(job, &model->heads);
	job->pages_out = VETH_PAGES - model->pool_count;
	job->buffers_out = VETH_SENT - model->sent_count;
	return elapsed;
}

/*
 * Heads alone, on memory laid out anew: each step takes so many from the NAPI cache, or, below
 * zero, gives so many back, of two slabs' in turn. The most that the cache ever had.
 */
u32 user_veth_heads(struct user_veth_job *job, const s32 *steps, u32 count)
{
	struct veth_model *model = model_init(job);
	const u32 *cached = &model->heads.cache.count;
	struct model_skb *taken[2] = { NULL, NULL };
	u32 most = 0, takes = 0, turn = 0;

	for (u32 i = 0; i < count; i++) {
		for (s32 left = steps[i]; left > 0; left--) {
			struct model_skb *skb = napi_head_take(&model->heads);
			u32 pile = takes / SLAB_HEADS % 2;

			if (!skb)
				break;
			takes++;
			skb->next = taken[pile];
			taken[pile] = skb;
			most = most < *cached ? *cached : most;
		}
		for (s32 left = steps[i]; left < 0 && (taken[0] || taken[1]); left++) {
			u32 pile = taken[++turn % 2] ? turn % 2 : 1 - turn % 2;
			struct model_skb *skb = taken[pile];

			taken[pile] = skb->next;
			napi_head_put(&model->heads, skb);
			most = most < *cached ? *cached : most;
		}
	}
	account_heads(job, &model->heads);
	job->polled = 0;
	for (u32 pile = 0; pile < 2; pile++)
		for (; taken[pile]; taken[pile] = taken[pile]->next)
			job->polled++;
	return most;
}
