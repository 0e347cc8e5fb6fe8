/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * XDP sets a trait and passes the packet up, where a tc program reads it, or to an AF_XDP socket, or
 * to another CPU, where an XDP program does.
 */
#include "xdplab.bpf.h"
#include "traits.bpf.h"

char _license[] SEC("license") = "GPL";

#define KEY 40
#define VALUE 0x1122334455667788ULL

__u64 found, missed;

SEC("xdp")
int pass_with_trait(struct xdp_md *ctx)
{
	__u64 value = VALUE;

	if (traits_init(ctx, 64) || traits_set(ctx, KEY, &value, sizeof(value), 0))
		return XDP_ABORTED;
	return XDP_PASS;
}

SEC("tc")
int read_above(struct __sk_buff *skb)
{
	void *area = (void *)(long)skb->data_meta, *end = (void *)(long)skb->data;
	__u64 value;

	if (traits_get_from(area, end, KEY, &value, sizeof(value)) == sizeof(value) &&
	    value == VALUE)
		__sync_fetch_and_add(&found, 1);
	else
		__sync_fetch_and_add(&missed, 1);
	return 0;
}

struct {
	int (*type)[BPF_MAP_TYPE_CPUMAP];
	int (*key_size)[4];
	int (*value_size)[8];
	int (*max_entries)[1];
} cpus SEC(".maps");

static long (*const bpf_redirect_map)(void *map, __u64 key, __u64 flags) = (void *)51;

SEC("xdp")
int to_cpu_with_trait(struct xdp_md *ctx)
{
	__u64 value = VALUE;

	if (traits_init(ctx, 64) || traits_set(ctx, KEY, &value, sizeof(value), 0))
		return XDP_ABORTED;
	return bpf_redirect_map(&cpus, 0, XDP_DROP);
}

SEC("xdp/cpumap")
int read_on_cpu(struct xdp_md *ctx)
{
	__u64 value;

	if (traits_get(ctx, KEY, &value, sizeof(value)) == sizeof(value) && value == VALUE)
		__sync_fetch_and_add(&found, 1);
	else
		__sync_fetch_and_add(&missed, 1);
	return XDP_DROP;
}

struct {
	int (*type)[BPF_MAP_TYPE_XSKMAP];
	int (*key_size)[4];
	int (*value_size)[4];
	int (*max_entries)[1];
} sockets SEC(".maps");

SEC("xdp")
int to_socket_with_trait(struct xdp_md *ctx)
{
	__u64 value = VALUE;

	if (traits_init(ctx, 64) || traits_set(ctx, KEY, &value, sizeof(value), 0))
		return XDP_ABORTED;
	return bpf_redirect_map(&sockets, 0, XDP_DROP);
}
