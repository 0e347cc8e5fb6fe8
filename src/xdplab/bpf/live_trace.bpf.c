/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What becomes of packets after a program's verdict, from the kernel's XDP tracepoints: one program
 * each, so that a tracepoint that a kernel lacks costs its own counts and no more. Only events of
 * our own interfaces or cpumap are counted: ifindexes mean something within a namespace only.
 */
#include "kernel_types.bpf.h"

char _license[] SEC("license") = "GPL";

struct xdp_cpumap_stats {
	unsigned int redirect;
	unsigned int pass;
	unsigned int drop;
} KERNEL_TYPE;

static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;

#define WANTED 32
const volatile __u32 wanted_ifindex[WANTED] = {};
const volatile __u32 wanted_count = 0;
const volatile __u64 wanted_namespace = 0;
const volatile __u32 wanted_cpumap = 0;

enum event { EXCEPTION, REDIRECT, REDIRECT_ERR, XMIT, BULK_TX, ENQUEUE, KTHREAD, EVENTS };

/* Slots of one event: by number first, by errno or action from BY on. */
#define BY 8
#define ERRNOS 134
#define SLOTS (BY + ERRNOS)

struct slots {
	__u64 packets[SLOTS];
};

struct {
	int (*type)[BPF_MAP_TYPE_PERCPU_ARRAY];
	int (*max_entries)[EVENTS];
	__u32 *key;
	struct slots *value;
} events SEC(".maps");

static __always_inline void add(__u32 event, __u32 slot, __u64 packets)
{
	struct slots *slots = bpf_map_lookup_elem(&events, &event);

	if (slots && slot < SLOTS)
		slots->packets[slot] += packets;
}

static __always_inline void add_errno(__u32 event, long error, __u64 packets)
{
	__u32 number = error < 0 ? -error : error;

	add(event, BY + (number < ERRNOS ? number : 0), packets);
}

static __always_inline int is_ours(struct net_device *device)
{
	int ifindex = 0;

	if (namespace_cookie(device) != wanted_namespace)
		return 0;
	read_field(ifindex, device, ifindex);
	for (int place = 0; place < WANTED; place++)
		if (place < wanted_count && wanted_ifindex[place] == ifindex)
			return 1;
	return 0;
}

/* dev, prog, act */
SEC("raw_tracepoint/xdp_exception")
int on_exception(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 action = ctx->args[2];

	if (is_ours((void *)ctx->args[0]))
		add(EXCEPTION, BY + (action < 5 ? action : 5), 1);
	return 0;
}

/* dev, prog, target, err, map_type, map_id, index */
static __always_inline int count_redirect(struct bpf_raw_tracepoint_args *ctx)
{
	long error = (int)ctx->args[3];

	if (!is_ours((void *)ctx->args[0]))
		return 0;
	if (error)
		add_errno(REDIRECT_ERR, error, 1);
	else
		add(REDIRECT, 0, 1);
	return 0;
}

#define ON_REDIRECT(name)                                                                      \
	SEC("raw_tracepoint/xdp_" #name)                                                       \
	int on_##name(struct bpf_raw_tracepoint_args *ctx)                                     \
	{                                                                                      \
		return count_redirect(ctx);                                                       \
	}
ON_REDIRECT(redirect)
ON_REDIRECT(redirect_err)
ON_REDIRECT(redirect_map)
ON_REDIRECT(redirect_map_err)

static __always_inline void on_bulk(__u32 event, int sent, int drops, int error)
{
	add(event, 0, sent > 0 ? sent : 0);
	add(event, 1, 1);
	if (drops > 0)
		add_errno(event, error, drops);
}

/* from_dev, to_dev, sent, drops, err */
SEC("raw_tracepoint/xdp_devmap_xmit")
int on_devmap_xmit(struct bpf_raw_tracepoint_args *ctx)
{
	if (is_ours((void *)ctx->args[0]))
		on_bulk(XMIT, ctx->args[2], ctx->args[3], ctx->args[4]);
	return 0;
}

/* dev, sent, drops, err */
SEC("raw_tracepoint/xdp_bulk_tx")
int on_bulk_tx(struct bpf_raw_tracepoint_args *ctx)
{
	if (is_ours((void *)ctx->args[0]))
		on_bulk(BULK_TX, ctx->args[1], ctx->args[2], ctx->args[3]);
	return 0;
}

/* map_id, processed, drops, to_cpu */
SEC("raw_tracepoint/xdp_cpumap_enqueue")
int on_cpumap_enqueue(struct bpf_raw_tracepoint_args *ctx)
{
	if ((__u32)ctx->args[0] != wanted_cpumap)
		return 0;
	add(ENQUEUE, 0, (__u32)ctx->args[1]);
	add(ENQUEUE, 1, 1);
	add(ENQUEUE, 2, (__u32)ctx->args[2]);
	return 0;
}

/* map_id, processed, drops, sched, xdp_stats */
SEC("raw_tracepoint/xdp_cpumap_kthread")
int on_cpumap_kthread(struct bpf_raw_tracepoint_args *ctx)
{
	struct xdp_cpumap_stats *stats = (void *)ctx->args[4];
	__u32 redirected = 0, passed = 0, dropped = 0;

	if ((__u32)ctx->args[0] != wanted_cpumap)
		return 0;
	read_field(redirected, stats, redirect);
	read_field(passed, stats, pass);
	read_field(dropped, stats, drop);
	add(KTHREAD, 0, (__u32)ctx->args[1]);
	add(KTHREAD, 1, 1);
	add(KTHREAD, 2, (__u32)ctx->args[2]);
	add(KTHREAD, 3, (int)ctx->args[3] ? 1 : 0);
	add(KTHREAD, 4, passed);
	add(KTHREAD, 5, dropped);
	add(KTHREAD, 6, redirected);
	return 0;
}
