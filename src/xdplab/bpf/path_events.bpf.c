/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the kernel says of packets that do not go on: its tracepoints, for the interfaces of two
 * network namespaces. Raw tracepoints, each a program of its own, so that a kernel without one of
 * them still has the others. To be attached while a packet is traced, not while packets are timed.
 */
#include "kernel_types.bpf.h"

char _license[] SEC("license") = "GPL";

enum kind { ABORTED = 1, REDIRECT_FAILED, NOT_SENT, TX_FAILED, QUEUE_FULL, SKB_FREED };

struct event {
	__u64 namespace_cookie;
	__s64 detail;
	__u32 kind;
	__u32 ifindex;
	__u64 packets;
};

#define MAX_EVENTS 256

const volatile __u64 namespace_cookies[2] = {};

struct event events[MAX_EVENTS];
__u32 event_count;

static __always_inline int add(struct net_device *device, __u32 kind, __s64 detail, __u64 packets)
{
	__u64 cookie = 0;
	int ifindex = 0;
	__u32 place;

	if (device) {
		read_field(ifindex, device, ifindex);
		cookie = namespace_cookie(device);
		if (cookie != namespace_cookies[0] && cookie != namespace_cookies[1])
			return 0;
	}
	place = __sync_fetch_and_add(&event_count, 1);
	if (place >= MAX_EVENTS)
		return 0;
	events[place].namespace_cookie = cookie;
	events[place].detail = detail;
	events[place].ifindex = ifindex;
	events[place].packets = packets;
	events[place].kind = kind;
	return 0;
}

/* xdp_exception(dev, prog, act): a program's answer could not be carried out, or was none. */
SEC("raw_tp/xdp_exception")
int xdp_exception(__u64 *arguments)
{
	return add((void *)arguments[0], ABORTED, (__u32)arguments[2], 1);
}

/* xdp_redirect_err(dev, prog, target, err, map_type, map_id, index) */
SEC("raw_tp/xdp_redirect_err")
int xdp_redirect_err(__u64 *arguments)
{
	return add((void *)arguments[0], REDIRECT_FAILED, (int)arguments[3], 1);
}

/* xdp_devmap_xmit(from_dev, to_dev, sent, drops, err): packets leave by XDP_REDIRECT. */
SEC("raw_tp/xdp_devmap_xmit")
int xdp_devmap_xmit(__u64 *arguments)
{
	int dropped = (int)arguments[3];

	if (dropped <= 0)
		return 0;
	return add((void *)arguments[1], NOT_SENT, (int)arguments[4], dropped);
}

/* xdp_bulk_tx(dev, sent, drops, err): packets leave by XDP_TX. */
SEC("raw_tp/xdp_bulk_tx")
int xdp_bulk_tx(__u64 *arguments)
{
	int dropped = (int)arguments[2];

	if (dropped <= 0)
		return 0;
	return add((void *)arguments[0], TX_FAILED, (int)arguments[3], dropped);
}

/* xdp_cpumap_enqueue(map_id, processed, drops, to_cpu): no interface is known here. */
SEC("raw_tp/xdp_cpumap_enqueue")
int xdp_cpumap_enqueue(__u64 *arguments)
{
	__u32 dropped = (__u32)arguments[2];

	if (!dropped)
		return 0;
	return add((void *)0, QUEUE_FULL, (int)arguments[0], dropped);
}

/* kfree_skb(skb, location, reason, ...): the stack drops a packet. */
SEC("raw_tp/kfree_skb")
int kfree_skb(__u64 *arguments)
{
	struct sk_buff *skb = (void *)arguments[0];
	struct net_device *device = (void *)0;

	read_field(device, skb, dev);
	if (!device)
		return 0;
	return add(device, SKB_FREED, (__u32)arguments[2], 1);
}
