/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How long is a packet on its way from one XDP program to another? `stamp` notes when and where it
 * came in and sends it on, to an interface, a CPU or a socket; `delay` at the other end counts it in
 * a histogram.
 *
 *	clang -target bpf -O2 -g -I "$(python -c 'import xdplab.traits as t; print(t.include_folder())')" \
 *		-c traits_delay.bpf.c -o traits_delay.bpf.o
 */
#include <linux/bpf.h>
#include <linux/types.h>

#include "traits.bpf.h"

/* With libbpf's headers at hand: #include <bpf/bpf_helpers.h> in place of these. */
#define SEC(name) __attribute__((section(name), used))
static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static __u64 (*const bpf_ktime_get_ns)(void) = (void *)5;
static long (*const bpf_redirect_map)(void *map, __u64 key, __u64 flags) = (void *)51;

char _license[] SEC("license") = "GPL";

/* What these programs agree on: keys, and the length of the area. */
enum { AREA_BYTES = 32, ARRIVED_NS = 1, CAME_IN_BY = 2 };

struct {
	int (*type)[BPF_MAP_TYPE_DEVMAP];
	__u32 *key;
	__u32 *value;
	int (*max_entries)[1];
} target SEC(".maps");

/* Slot n: packets that took 2^(n-1) to 2^n ns; slot 0: those without a stamp. */
struct {
	int (*type)[BPF_MAP_TYPE_ARRAY];
	__u32 *key;
	__u64 *value;
	int (*max_entries)[65];
} delays SEC(".maps");

SEC("xdp")
int stamp(struct xdp_md *ctx)
{
	__u64 now_ns = bpf_ktime_get_ns();
	__u32 ifindex = ctx->ingress_ifindex;

	/* Where there is no room for traits the packet goes on without. */
	if (!traits_init(ctx, AREA_BYTES)) {
		traits_set(ctx, ARRIVED_NS, &now_ns, sizeof(now_ns), 0);
		traits_set(ctx, CAME_IN_BY, &ifindex, sizeof(ifindex), 0);
	}
	return bpf_redirect_map(&target, 0, XDP_DROP);
}

SEC("xdp")
int delay(struct xdp_md *ctx)
{
	__u64 arrived_ns, *packets;
	__u32 slot = 0;

	if (traits_get(ctx, ARRIVED_NS, &arrived_ns, sizeof(arrived_ns)) == sizeof(arrived_ns)) {
		__u64 left = bpf_ktime_get_ns() - arrived_ns;

		for (slot = 1; slot < 64 && left > 1; slot++)
			left >>= 1;
	}
	packets = bpf_map_lookup_elem(&delays, &slot);
	if (packets)
		__sync_fetch_and_add(packets, 1);
	return XDP_DROP;
}
