/* SPDX-License-Identifier: GPL-2.0-or-later */
/* As much of the kernel's own types as tracing programs read here; libbpf finds out where it lies. */
#ifndef XDPLAB_KERNEL_TYPES_BPF_H
#define XDPLAB_KERNEL_TYPES_BPF_H

#include "xdplab.bpf.h"

static long (*const bpf_probe_read_kernel)(void *to, __u32 bytes, const void *from) = (void *)113;

#define KERNEL_TYPE __attribute__((preserve_access_index))

struct net {
	__u64 net_cookie;
} KERNEL_TYPE;

typedef struct {
	struct net *net;
} KERNEL_TYPE possible_net_t;

struct net_device {
	int ifindex;
	possible_net_t nd_net;
} KERNEL_TYPE;

struct sk_buff {
	struct net_device *dev;
} KERNEL_TYPE;

#define read_field(to, from, field)                                                            \
	bpf_probe_read_kernel(&(to), sizeof(to),                                               \
			      __builtin_preserve_access_index(&(from)->field))

/* An interface by what is the same for its whole life: its namespace's cookie and its number. */
static __always_inline __u64 namespace_cookie(struct net_device *device)
{
	struct net *net = (void *)0;
	__u64 cookie = 0;

	read_field(net, device, nd_net.net);
	if (net)
		read_field(cookie, net, net_cookie);
	return cookie;
}

#endif
