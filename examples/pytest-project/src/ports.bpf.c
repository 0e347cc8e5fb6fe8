/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Drops UDP packets to ports that are listed in `blocked`, and counts what it drops by port.
 * Everything else passes.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/types.h>
#include <linux/udp.h>

/* With libbpf's headers at hand: #include <bpf/bpf_helpers.h> in place of these. */
#define SEC(name) __attribute__((section(name), used))
static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;

char _license[] SEC("license") = "GPL";

/* Destination port (in the packet's byte order) -> packets dropped. */
struct {
	int (*type)[BPF_MAP_TYPE_HASH];
	__u16 *key;
	__u64 *value;
	int (*max_entries)[64];
} blocked SEC(".maps");

SEC("xdp")
int filter(struct xdp_md *ctx)
{
	void *data = (void *)(long)ctx->data;
	void *end = (void *)(long)ctx->data_end;
	struct ethhdr *ether = data;
	struct iphdr *ip = (void *)(ether + 1);
	struct udphdr *udp;
	__u64 *dropped;

	if ((void *)(ip + 1) > end)
		return XDP_PASS;
	if (ether->h_proto != __builtin_bswap16(ETH_P_IP) || ip->protocol != IPPROTO_UDP)
		return XDP_PASS;
	/* IP options are rare: leave such packets to the stack. */
	if (ip->ihl != 5)
		return XDP_PASS;
	udp = (void *)(ip + 1);
	if ((void *)(udp + 1) > end)
		return XDP_PASS;
	dropped = bpf_map_lookup_elem(&blocked, &udp->dest);
	if (!dropped)
		return XDP_PASS;
	__sync_fetch_and_add(dropped, 1);
	return XDP_DROP;
}
