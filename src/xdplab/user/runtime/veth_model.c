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
