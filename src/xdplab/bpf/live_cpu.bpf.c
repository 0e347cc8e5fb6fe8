/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * xdplab redirect-cpu: packets go to a CPU of a list, chosen in one of eight ways, through a
 * cpumap; and the program that the cpumap may run there.
 */
#include "live.bpf.h"

char _license[] SEC("license") = "GPL";

static long (*const bpf_redirect_map)(void *map, __u64 key, __u64 flags) = (void *)51;

#define MAC_BYTES 6
#define PROTOCOL_ICMP 1
#define PROTOCOL_TCP 6
#define PROTOCOL_UDP 17
#define PROTOCOL_ICMPV6 58
#define PORT_DISCARD 9

/* Sized before loading to the CPUs that this machine may have. */
struct {
	int (*type)[BPF_MAP_TYPE_CPUMAP];
	int (*max_entries)[1];
	__u32 *key;
	struct bpf_cpumap_val *value;
} cpus SEC(".maps");

struct {
	int (*type)[BPF_MAP_TYPE_DEVMAP];
	int (*max_entries)[1];
	__u32 *key;
	struct bpf_devmap_val *value;
} out SEC(".maps");

enum choice {
	FIRST,
	FIRST_TOUCHED,
	IN_TURN,
	BY_PROTOCOL,
	BY_PROTOCOL_FILTERED,
	BY_ADDRESSES,
	BY_SOURCE_PORT,
	BY_DESTINATION_PORT,
};

#define TARGETS 256
const volatile __u32 choice = BY_ADDRESSES;
const volatile __u32 target_count = 1;
const volatile __u32 target_cpu[TARGETS] = {};
const volatile __u32 remote_action = XDP_PASS;
const volatile __u8 out_address[8] = {};

/* Whose turn it is, for packets that come in on each CPU. */
struct turn {
	__u32 next;
} __attribute__((aligned(64)));
struct turn turns[MAX_CPUS];

/* What of a packet may decide where it goes. */
struct headers {
	__u32 addresses;
	__u32 protocol;
	__u16 source_port;
	__u16 destination_port;
};

static __always_inline __u16 host_order(__u16 value)
{
	return NETWORK_ORDER(value);
}

/* Ports of TCP and UDP at `at`, as far as the packet has them. */
static __always_inline void read_ports(const char *at, const char *end, struct headers *found)
{
	if (found->protocol != PROTOCOL_TCP && found->protocol != PROTOCOL_UDP)
		return;
	if (at + 4 > end)
		return;
	found->source_port = host_order(READ16(at));
	found->destination_port = host_order(READ16(at + 2));
}

/* Zeros where there is no IP. Not 0 where the packet ends before its headers do. */
static __always_inline int read_headers(struct xdp_md *ctx, struct headers *found)
{
	const char *at = frame_data(ctx), *end = frame_end(ctx);
	const __u32 *words;
	__u16 type;

	if (at + ETHERNET_BYTES > end)
		return -1;
	type = READ16(at + ETHERTYPE_OFFSET);
	at += ETHERNET_BYTES;
#pragma clang loop unroll(full)
	for (int tag = 0; tag < VLAN_TAGS; tag++) {
		if (!IS_VLAN(type))
			break;
		if (at + VLAN_BYTES > end)
			return -1;
		type = READ16(at + 2);
		at += VLAN_BYTES;
	}
	if (type == TYPE_IPV4) {
		if (at + IPV4_BYTES > end)
			return -1;
		words = (const __u32 *)at;
		found->addresses = words[3] + words[4];
		found->protocol = READ8(at + IPV4_PROTOCOL);
		read_ports(at + 4 * (READ8(at) & 0xf), end, found);
	} else if (type == TYPE_IPV6) {
		if (at + IPV6_BYTES > end)
			return -1;
		words = (const __u32 *)at;
#pragma clang loop unroll(full)
		for (int word = 2; word < 10; word++)
			found->addresses += words[word];
		found->protocol = READ8(at + IPV6_NEXT_HEADER);
		read_ports(at + IPV6_BYTES, end, found);
	}
	return 0;
}

/*
 * The same for both directions of a flow, since addresses were added up. The steps are those of
 * a finaliser of 32-bit hashes: multiplication spreads upwards, shifts bring it down again.
 */
static __always_inline __u32 hash(const struct headers *found)
{
	__u32 mixed = found->addresses + found->protocol;

	mixed ^= mixed >> 16;
	mixed *= 0x7feb352d;
	mixed ^= mixed >> 15;
	mixed *= 0x846ca68b;
	mixed ^= mixed >> 16;
	return mixed;
}

static __always_inline __u32 next_turn(void)
{
	__u32 cpu = bpf_get_smp_processor_id();

	return turns[cpu < MAX_CPUS ? cpu : 0].next++;
}

/* TCP and what is unknown, UDP, ICMP. */
static __always_inline __u32 class_of(__u32 protocol)
{
	if (protocol == PROTOCOL_UDP)
		return 1;
	return protocol == PROTOCOL_ICMP || protocol == PROTOCOL_ICMPV6 ? 2 : 0;
}

static __always_inline int handle(struct xdp_md *ctx)
{
	struct actions *counters = here(received);
	struct headers found = {};
	__u32 place = 0;

	if (choice == FIRST_TOUCHED && read_type(ctx))
		return count_aborted(counters);
	if (choice >= BY_PROTOCOL && read_headers(ctx, &found))
		return count_aborted(counters);
	switch (choice) {
	case IN_TURN:
		place = next_turn();
		break;
	case BY_PROTOCOL_FILTERED:
		if (found.protocol == PROTOCOL_UDP && found.destination_port == PORT_DISCARD)
			return count(counters, XDP_DROP);
		place = class_of(found.protocol);
		break;
	case BY_PROTOCOL:
		place = class_of(found.protocol);
		break;
	case BY_ADDRESSES:
		place = hash(&found);
		break;
	case BY_SOURCE_PORT:
		place = found.source_port;
		break;
	case BY_DESTINATION_PORT:
		place = found.destination_port;
		break;
	}
	place = place % target_count & (TARGETS - 1);
	return count(counters, bpf_redirect_map(&cpus, target_cpu[place], 0));
}

SEC("xdp")
int xdplab_live(struct xdp_md *ctx)
{
	return handle(ctx);
}

SEC("xdp.frags")
int xdplab_frags(struct xdp_md *ctx)
{
	return handle(ctx);
}

/* On the chosen CPU. What is sent on goes back to its sender, by way of another interface. */
static __always_inline int arrive(struct xdp_md *ctx)
{
	struct actions *counters = here(behind);
	char *start = frame_data(ctx);

	if (remote_action != XDP_REDIRECT)
		return count(counters, remote_action);
	if (start + ETHERNET_BYTES > (char *)frame_end(ctx))
		return count_aborted(counters);
	__builtin_memcpy(start, start + MAC_BYTES, MAC_BYTES);
	for (int byte = 0; byte < MAC_BYTES; byte++)
		start[MAC_BYTES + byte] = out_address[byte];
	return count(counters, bpf_redirect_map(&out, 0, 0));
}

SEC("xdp/cpumap")
int xdplab_remote(struct xdp_md *ctx)
{
	return arrive(ctx);
}

SEC("xdp.frags/cpumap")
int xdplab_remote_frags(struct xdp_md *ctx)
{
	return arrive(ctx);
}
