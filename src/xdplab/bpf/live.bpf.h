/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the programs of the live commands share: counters that user space maps and reads without a
 * system call, and what may be done to a packet first. The constants are set before loading; the
 * verifier then removes what they rule out, so that a program holds no test of an option.
 */
#ifndef XDPLAB_LIVE_BPF_H
#define XDPLAB_LIVE_BPF_H

#include "packet.bpf.h"

static __u32 (*const bpf_get_smp_processor_id)(void) = (void *)8;

/* The largest NR_CPUS that x86 can be built for, and the most queues that rtnetlink makes. */
#define MAX_CPUS 8192
#define MAX_QUEUES 4096
#define ACTIONS 5

/* A line of cache for each CPU, by the action returned. */
struct actions {
	__u64 packets[ACTIONS];
} __attribute__((aligned(64)));

struct queue {
	__u64 packets;
} __attribute__((aligned(64)));

/* What the program on the interface returned, and what one behind it did (devmap, cpumap). */
struct actions received[MAX_CPUS];
struct actions behind[MAX_CPUS];
struct queue queues[MAX_QUEUES];

const volatile _Bool count_queues = 0;

enum operation { NO_TOUCH, READ_DATA, PARSE_IP, SWAP_MACS };

const volatile __u32 operation = NO_TOUCH;
const volatile _Bool by_calls = 0;

/*
 * Where this CPU counts. Taken once, before anything else: without CAP_PERFMON the verifier wants
 * one and the same sum of pointer and number on every path, and paths that meet have several.
 */
static __always_inline struct actions *here(struct actions *counters)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return &counters[cpu < MAX_CPUS ? cpu : 0];
}

static __always_inline int count(struct actions *counters, int action)
{
	if (action >= 0 && action < ACTIONS)
		counters->packets[action]++;
	return action;
}

/* A packet that was too short for what was to be done to it. */
static __always_inline int count_aborted(struct actions *counters)
{
	counters->packets[XDP_ABORTED]++;
	/* Keeps the compiler from making one sum of this and the other way to count. */
	asm volatile("");
	return XDP_ABORTED;
}

/* Packets of one queue may be handled by several CPUs at a time in generic mode. */
static __always_inline void count_queue(const struct xdp_md *ctx)
{
	if (count_queues) {
		__u32 queue = ctx->rx_queue_index;

		if (queue < MAX_QUEUES)
			__sync_fetch_and_add(&queues[queue].packets, 1);
	}
}

static __always_inline int read_type(struct xdp_md *ctx)
{
	char header[ETHERNET_BYTES] __attribute__((aligned(8)));
	const char *start = frame_data(ctx);
	__u16 type;

	if (by_calls) {
		if (bpf_xdp_load_bytes(ctx, 0, header, sizeof(header)))
			return -1;
		type = READ16(header + ETHERTYPE_OFFSET);
	} else {
		if (start + ETHERNET_BYTES > (char *)frame_end(ctx))
			return -1;
		type = READ16(start + ETHERTYPE_OFFSET);
	}
	keep(type);
	return 0;
}

static __always_inline int swap_macs(struct xdp_md *ctx)
{
	char addresses[ETHERTYPE_OFFSET] __attribute__((aligned(8)));
	char *start = frame_data(ctx);

	if (!by_calls) {
		if (start + ETHERNET_BYTES > (char *)frame_end(ctx))
			return -1;
		swap_addresses(start);
		return 0;
	}
	if (bpf_xdp_load_bytes(ctx, 0, addresses, sizeof(addresses)))
		return -1;
	swap_addresses(addresses);
	return bpf_xdp_store_bytes(ctx, 0, addresses, sizeof(addresses));
}

#define NOT_IP -2

/* The chosen operation; not 0 where the packet is too short for it. What is no IP is no fault. */
static __always_inline int operate(struct xdp_md *ctx)
{
	int protocol;

	switch (operation) {
	case READ_DATA:
		return read_type(ctx);
	case PARSE_IP:
		protocol = by_calls ? parse_by_calls(ctx, NOT_IP)
				    : parse(frame_data(ctx), frame_end(ctx), NOT_IP);
		keep(protocol);
		return protocol == TOO_SHORT;
	case SWAP_MACS:
		return swap_macs(ctx);
	default:
		return 0;
	}
}

#endif
