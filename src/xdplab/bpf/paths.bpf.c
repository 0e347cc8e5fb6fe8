/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Programs at the stops of a packet's way through a topology. All of them count, so that what was
 * sent, what arrived at the device under test and what arrived at the way's end can be held
 * against each other; counting costs all ways the same, a stop each.
 */
#include "xdplab.bpf.h"
#include "traits.bpf.h"

char _license[] SEC("license") = "GPL";

static long (*const bpf_redirect)(__u32 ifindex, __u64 flags) = (void *)23;
static long (*const bpf_redirect_map)(void *map, __u64 key, __u64 flags) = (void *)51;

/* Set before loading: where `redirect` sends packets, which CPU `redirect_cpu` hands them to. */
const volatile __u32 out_ifindex = 0;
const volatile __u32 target_cpu = 0;

/* Lines of cache of their own: the way's end may be on another CPU. */
__u64 device_packets __attribute__((aligned(64)));
__u64 sink_packets __attribute__((aligned(64)));

struct {
	int (*type)[BPF_MAP_TYPE_DEVMAP];
	int (*key_size)[4];
	int (*value_size)[4];
	int (*max_entries)[1];
} ports SEC(".maps");

struct {
	int (*type)[BPF_MAP_TYPE_CPUMAP];
	int (*key_size)[4];
	int (*value_size)[8];
	int (*max_entries)[1];
} cpus SEC(".maps");

struct {
	int (*type)[BPF_MAP_TYPE_XSKMAP];
	int (*key_size)[4];
	int (*value_size)[4];
	int (*max_entries)[1];
} sockets SEC(".maps");

SEC("xdp.frags")
int drop(struct xdp_md *ctx)
{
	device_packets++;
	return XDP_DROP;
}

SEC("xdp.frags")
int tx(struct xdp_md *ctx)
{
	device_packets++;
	return XDP_TX;
}

SEC("xdp.frags")
int redirect(struct xdp_md *ctx)
{
	device_packets++;
	return bpf_redirect(out_ifindex, 0);
}

SEC("xdp.frags")
int redirect_map(struct xdp_md *ctx)
{
	device_packets++;
	return bpf_redirect_map(&ports, 0, 0);
}

SEC("xdp.frags")
int redirect_cpu(struct xdp_md *ctx)
{
	device_packets++;
	return bpf_redirect_map(&cpus, target_cpu, 0);
}

/* To the socket of the first queue; topologies that are measured have one. */
SEC("xdp.frags")
int redirect_socket(struct xdp_md *ctx)
{
	device_packets++;
	return bpf_redirect_map(&sockets, 0, 0);
}

/* A value of eight bytes that is set before a redirect and got behind it. */
#define TRAIT_KEY 1
#define TRAITS_AREA_BYTES 32

static __always_inline int set_trait(struct xdp_md *ctx)
{
	__u64 value = device_packets++;

	if (traits_init(ctx, TRAITS_AREA_BYTES))
		return -1;
	return traits_set(ctx, TRAIT_KEY, &value, sizeof(value), 0);
}

/* Nothing is counted where the value is not there: such a way loses its packets. */
static __always_inline int get_trait(struct xdp_md *ctx)
{
	__u64 value;

	if (traits_get(ctx, TRAIT_KEY, &value, sizeof(value)) != sizeof(value))
		return XDP_ABORTED;
	keep(value);
	sink_packets++;
	return XDP_DROP;
}

SEC("xdp.frags")
int redirect_setting(struct xdp_md *ctx)
{
	return set_trait(ctx) ? XDP_ABORTED : bpf_redirect(out_ifindex, 0);
}

SEC("xdp.frags")
int redirect_cpu_setting(struct xdp_md *ctx)
{
	return set_trait(ctx) ? XDP_ABORTED : bpf_redirect_map(&cpus, target_cpu, 0);
}

SEC("xdp.frags")
int sink_getting(struct xdp_md *ctx)
{
	return get_trait(ctx);
}

SEC("xdp.frags/cpumap")
int sink_cpu_getting(struct xdp_md *ctx)
{
	return get_trait(ctx);
}

SEC("xdp.frags")
int sink_drop(struct xdp_md *ctx)
{
	sink_packets++;
	return XDP_DROP;
}

SEC("xdp.frags")
int sink_pass(struct xdp_md *ctx)
{
	sink_packets++;
	return XDP_PASS;
}

/* Behind the map of CPUs, in the kernel thread of the target CPU. */
SEC("xdp.frags/cpumap")
int sink_cpu(struct xdp_md *ctx)
{
	sink_packets++;
	return XDP_DROP;
}
