/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Jobs of the veth model: memory laid out, a generator, timed polls, and an account of it all. */

u64 user_veth_bytes(void);
u64 user_veth_run(struct user_veth_job *job);
u32 user_veth_heads(struct user_veth_job *job, const s32 *steps, u32 count);

static const u64 model_bytes = (sizeof(struct veth_model) + VETH_PAGE_BYTES - 1) &
			       ~(u64)(VETH_PAGE_BYTES - 1);

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
