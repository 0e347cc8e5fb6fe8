/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A small filter in four versions, for `xdplab bench`: as it is, once more by another name, with a
 * look at a map, and with four stores. Packets of blocked ports are dropped.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

char _license[] SEC("license") = "GPL";

const volatile __u16 blocked_port = 9;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __be32);
	__type(value, __u64);
} sources SEC(".maps");

__u64 scratch[4];

static __always_inline struct udphdr *udp_of(struct xdp_md *ctx, struct iphdr **ip)
{
	void *data = (void *)(long)ctx->data, *end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	struct udphdr *udp;

	if (data + sizeof(*eth) + sizeof(**ip) + sizeof(*udp) > end)
		return 0;
	if (eth->h_proto != bpf_htons(ETH_P_IP))
		return 0;
	*ip = data + sizeof(*eth);
	if ((*ip)->protocol != IPPROTO_UDP || (*ip)->ihl != 5)
		return 0;
	return (void *)*ip + sizeof(**ip);
}

static __always_inline int verdict(struct udphdr *udp)
{
	return udp->dest == bpf_htons(blocked_port) ? XDP_DROP : XDP_PASS;
}

SEC("xdp")
int plain(struct xdp_md *ctx)
{
	struct iphdr *ip;
	struct udphdr *udp = udp_of(ctx, &ip);

	return udp ? verdict(udp) : XDP_PASS;
}

SEC("xdp")
int same(struct xdp_md *ctx)
{
	struct iphdr *ip;
	struct udphdr *udp = udp_of(ctx, &ip);

	return udp ? verdict(udp) : XDP_PASS;
}

SEC("xdp")
int lookup(struct xdp_md *ctx)
{
	struct iphdr *ip;
	struct udphdr *udp = udp_of(ctx, &ip);

	if (!udp)
		return XDP_PASS;
	if (bpf_map_lookup_elem(&sources, &ip->saddr))
		return XDP_DROP;
	return verdict(udp);
}

SEC("xdp")
int stores(struct xdp_md *ctx)
{
	struct iphdr *ip;
	struct udphdr *udp = udp_of(ctx, &ip);
	volatile __u64 *place = scratch;

	if (!udp)
		return XDP_PASS;
	place[0] = 1;
	place[1] = 2;
	place[2] = 3;
	place[3] = 4;
	return verdict(udp);
}
