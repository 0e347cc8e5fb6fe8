/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sizes and offsets of abi.h's structures, for the test that compares Python's with them. */

#define OFFSET(type, field) \
	{ #type "." #field, __builtin_offsetof(struct type, field), \
	  sizeof(((struct type *)0)->field) }
#define SIZE(type) { #type, 0, sizeof(struct type) }

struct layout_entry {
	const char *name;
	u64 offset;
	u64 bytes;
};

const struct layout_entry *user_layout(u64 *count);

static const struct layout_entry layout[] = {
	SIZE(user_frag),
	OFFSET(user_frag, data),
	OFFSET(user_frag, bytes),
	OFFSET(user_frag, room_bytes),
	SIZE(user_frame),
	OFFSET(user_frame, data),
	OFFSET(user_frame, data_end),
	OFFSET(user_frame, data_meta),
	OFFSET(user_frame, hard_start),
	OFFSET(user_frame, hard_end),
	OFFSET(user_frame, ingress_ifindex),
	OFFSET(user_frame, rx_queue_index),
	OFFSET(user_frame, egress_ifindex),
	OFFSET(user_frame, frag_count),
	OFFSET(user_frame, frags),
	OFFSET(user_frame, state),
	SIZE(user_state),
	OFFSET(user_state, time_ns),
	OFFSET(user_state, fixed_time),
	OFFSET(user_state, cpu),
	OFFSET(user_state, random),
	OFFSET(user_state, budget),
	OFFSET(user_state, clear_head),
	OFFSET(user_state, trait_move),
	OFFSET(user_state, redirect_kind),
	OFFSET(user_state, redirect_ifindex),
	OFFSET(user_state, redirect_flags),
	OFFSET(user_state, redirect_map),
	OFFSET(user_state, redirect_key),
	OFFSET(user_state, fault),
	OFFSET(user_state, fault_insn),
	OFFSET(user_state, fault_address),
	OFFSET(user_state, fault_bytes),
	OFFSET(user_state, fault_low),
	OFFSET(user_state, fault_high),
	OFFSET(user_state, helper),
	OFFSET(user_state, tail_calls),
	OFFSET(user_state, instructions),
	OFFSET(user_state, counts),
	OFFSET(user_state, host),
	SIZE(user_route),
	OFFSET(user_route, family),
	OFFSET(user_route, prefix_bits),
	OFFSET(user_route, mtu),
	OFFSET(user_route, ifindex),
	OFFSET(user_route, address),
	OFFSET(user_route, gateway),
	OFFSET(user_route, dmac),
	OFFSET(user_route, smac),
	OFFSET(user_route, result),
	OFFSET(user_route, metric),
	SIZE(user_host),
	OFFSET(user_host, clock_monotonic),
	OFFSET(user_host, clock_boottime),
	OFFSET(user_host, clock_coarse),
	OFFSET(user_host, clock_tai),
	OFFSET(user_host, nr_cpus),
	OFFSET(user_host, numa_node),
	OFFSET(user_host, route_count),
	OFFSET(user_host, mtu),
	OFFSET(user_host, routes),
	OFFSET(user_host, trace),
	OFFSET(user_host, trace_bytes),
	OFFSET(user_host, trace_used),
	OFFSET(user_host, trace_lost),
	SIZE(user_map),
	OFFSET(user_map, type),
	OFFSET(user_map, key_bytes),
	OFFSET(user_map, value_bytes),
	OFFSET(user_map, max_entries),
	OFFSET(user_map, flags),
	OFFSET(user_map, id),
	OFFSET(user_map, nr_cpus),
	OFFSET(user_map, padding),
	OFFSET(user_map, extra),
	OFFSET(user_map, values),
	OFFSET(user_map, value_stride),
	OFFSET(user_map, values_bytes),
	OFFSET(user_map, cpu_stride),
	OFFSET(user_map, inside),
	SIZE(user_buffer),
	OFFSET(user_buffer, hard_start),
	OFFSET(user_buffer, hard_end),
	OFFSET(user_buffer, data),
	OFFSET(user_buffer, data_end),
	OFFSET(user_buffer, data_meta),
	OFFSET(user_buffer, original),
	OFFSET(user_buffer, original_bytes),
	OFFSET(user_buffer, frags),
	OFFSET(user_buffer, frag_count),
	OFFSET(user_buffer, padding),
	SIZE(user_job),
	OFFSET(user_job, program),
	OFFSET(user_job, frame),
	OFFSET(user_job, buffers),
	OFFSET(user_job, buffer_count),
	OFFSET(user_job, clock),
	OFFSET(user_job, packets),
	OFFSET(user_job, done),
	OFFSET(user_job, actions),
};

/* The table, and how many entries it has. */
const struct layout_entry *user_layout(u64 *count)
{
	*count = sizeof(layout) / sizeof(layout[0]);
	return layout;
}
