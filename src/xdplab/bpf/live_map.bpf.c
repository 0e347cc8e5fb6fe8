/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * xdplab redirect-map and redirect-multi: to one interface in a devmap, or to all of them but the
 * one that the packet came in by; and the program that a devmap runs before it sends.
 */
#include "live.bpf.h"

char _license[] SEC("license") = "GPL";

static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*const bpf_redirect_map)(void *map, __u64 key, __u64 flags) = (void *)51;

#define INTERFACES 32
#define MAC_BYTES 6

struct {
	int (*type)[BPF_MAP_TYPE_DEVMAP];
	int (*max_entries)[INTERFACES];
	__u32 *key;
	struct bpf_devmap_val *value;
} targets SEC(".maps");

/* A word of 8 bytes begins with the address of the interface of that ifindex. */
struct {
	int (*type)[BPF_MAP_TYPE_HASH];
	int (*max_entries)[INTERFACES];
	__u32 *key;
	__u64 *value;
} addresses SEC(".maps");

const volatile _Bool to_all = 0;
const volatile _Bool egress_drops = 0;

static __always_inline int handle(struct xdp_md *ctx)
{
	struct actions *counters = here(received);

	count_queue(ctx);
	if (operate(ctx))
		return count_aborted(counters);
	if (to_all)
		return count(counters, bpf_redirect_map(&targets, 0,
							BPF_F_BROADCAST | BPF_F_EXCLUDE_INGRESS));
	return count(counters, bpf_redirect_map(&targets, 0, 0));
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

/* The packet leaves with the address of the interface that it leaves by. */
static __always_inline int leave(struct xdp_md *ctx)
{
	struct actions *counters = here(behind);
	__u32 out = ctx->egress_ifindex;
	char *start = frame_data(ctx);
	const __u64 *address;

	if (egress_drops)
		return count(counters, XDP_DROP);
	if (start + ETHERNET_BYTES > (char *)frame_end(ctx))
		return count_aborted(counters);
	address = bpf_map_lookup_elem(&addresses, &out);
	if (address)
		__builtin_memcpy(start + MAC_BYTES, address, MAC_BYTES);
	return count(counters, XDP_PASS);
}

SEC("xdp/devmap")
int xdplab_egress(struct xdp_md *ctx)
{
	return leave(ctx);
}

SEC("xdp.frags/devmap")
int xdplab_egress_frags(struct xdp_md *ctx)
{
	return leave(ctx);
}
