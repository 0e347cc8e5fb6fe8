/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The price list's operations on a packet, and on what a packet is sent to: its edges, its bytes,
 * checksums, routes, redirects, records to user space. The frame has at least 512 bytes, and is
 * afterwards as it was.
 */
#include "calls.bpf.h"

char _license[] SEC("license") = "GPL";

static long (*const bpf_redirect)(__u32 ifindex, __u64 flags) = (void *)23;
static long (*const bpf_csum_diff)(void *from, __u32 from_size, void *to, __u32 to_size,
				   __u32 seed) = (void *)28;
static long (*const bpf_redirect_map)(void *map, __u64 key, __u64 flags) = (void *)51;
static long (*const bpf_xdp_adjust_meta)(struct xdp_md *xdp, int delta) = (void *)54;
static long (*const bpf_xdp_adjust_tail)(struct xdp_md *xdp, int delta) = (void *)65;
static long (*const bpf_fib_lookup)(void *ctx, struct bpf_fib_lookup *params, int size,
				    __u32 flags) = (void *)69;
static long (*const bpf_ringbuf_output)(void *ring, void *data, __u64 size,
					__u64 flags) = (void *)130;
static void *(*const bpf_ringbuf_reserve)(void *ring, __u64 size, __u64 flags) = (void *)131;
static void (*const bpf_ringbuf_submit)(void *record, __u64 flags) = (void *)132;
static void (*const bpf_ringbuf_discard)(void *record, __u64 flags) = (void *)133;
static __u64 (*const bpf_ringbuf_query)(void *ring, __u64 what) = (void *)134;
static long (*const bpf_xdp_get_buff_len)(struct xdp_md *xdp) = (void *)188;

/* --- edges: out and back */

#define PAIR(name, helper, bytes)                                                              \
	SEC("xdp")                                                                             \
	int name(struct xdp_md *ctx)                                                           \
	{                                                                                      \
		EACH_TURN(helper(ctx, bytes) || helper(ctx, -(bytes)))                         \
		return XDP_PASS;                                                               \
	}

PAIR(adjust_head_pair, bpf_xdp_adjust_head, -20)
PAIR(adjust_meta_pair, bpf_xdp_adjust_meta, -8)
PAIR(adjust_tail_pair, bpf_xdp_adjust_tail, 20)

SEC("xdp")
int get_buff_len(struct xdp_md *ctx)
{
	const long bytes = frame_end(ctx) - frame_data(ctx);

	EACH_TURN(bpf_xdp_get_buff_len(ctx) != bytes)
	return XDP_PASS;
}

/* --- bytes */

/* The last word of `bytes` in the packet must be what the buffer got. */
#define LOAD_BYTES(bytes)                                                                      \
	SEC("xdp")                                                                             \
	int load_bytes_##bytes(struct xdp_md *ctx)                                             \
	{                                                                                      \
		char buffer[bytes] __attribute__((aligned(8))) = {};                           \
		char *frame;                                                                   \
                                                                                               \
		EACH_TURN(bpf_xdp_load_bytes(ctx, 0, buffer, bytes))                           \
		frame = frame_data(ctx);                                                       \
		if (frame + bytes > (char *)frame_end(ctx))                                    \
			return XDP_DROP;                                                       \
		return buffer[0] == frame[0] && buffer[bytes - 1] == frame[bytes - 1]          \
			       ? XDP_PASS                                                      \
			       : XDP_DROP;                                                     \
	}

LOAD_BYTES(4)
LOAD_BYTES(14)
LOAD_BYTES(34)
LOAD_BYTES(64)
LOAD_BYTES(256)

SEC("xdp")
int store_bytes_34(struct xdp_md *ctx)
{
	char buffer[34];

	if (bpf_xdp_load_bytes(ctx, 0, buffer, sizeof(buffer)))
		return XDP_DROP;
	EACH_TURN(bpf_xdp_store_bytes(ctx, 0, buffer, sizeof(buffer)))
	return XDP_PASS;
}

/* --- checksums */

static __always_inline __u32 folded(__u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}

/* The plain way, to hold the helper's answer against; a function, which the verifier walks once. */
__noinline int plain_sum(struct xdp_md *ctx, __u32 bytes)
{
	__u16 *word = frame_data(ctx);
	__u32 sum = 0;

	for (__u32 i = 0; i < 256; i++, word++) {
		if (2 * i >= bytes || (void *)(word + 1) > frame_end(ctx))
			break;
		sum += *word;
	}
	return folded(sum);
}

#define CSUM_DIFF(bytes)                                                                       \
	SEC("xdp")                                                                             \
	int csum_diff_##bytes(struct xdp_md *ctx)                                              \
	{                                                                                      \
		__u32 expected = plain_sum(ctx, bytes);                                        \
		void *frame = frame_data(ctx);                                                 \
		long sum = 0;                                                                  \
                                                                                               \
		if (frame + bytes > frame_end(ctx))                                            \
			return XDP_DROP;                                                       \
		REPEAT_OPERATION                                                               \
		{                                                                              \
			sum = bpf_csum_diff(NULL, 0, frame, bytes, 0);                         \
			keep(sum);                                                             \
		}                                                                              \
		return folded(sum) == expected ? XDP_PASS : XDP_DROP;                          \
	}

CSUM_DIFF(4)
CSUM_DIFF(20)
CSUM_DIFF(40)
CSUM_DIFF(512)

/* --- routes and redirects */

struct {
	int (*type)[BPF_MAP_TYPE_DEVMAP];
	__u32 *key;
	__u32 *value;
	int (*max_entries)[1];
} devices SEC(".maps");

SEC("xdp")
int redirect(struct xdp_md *ctx)
{
	EACH_TURN(bpf_redirect(1, 0) != XDP_REDIRECT)
	return XDP_PASS;
}

SEC("xdp")
int redirect_map(struct xdp_md *ctx)
{
	EACH_TURN(bpf_redirect_map(&devices, 0, XDP_DROP) != XDP_REDIRECT)
	return XDP_PASS;
}

/* Of the route that the suite asks for: where to, and the next hop's address. */
volatile __u32 destination;
volatile __u64 next_hop;

SEC("xdp")
int fib_lookup(struct xdp_md *ctx)
{
	struct bpf_fib_lookup route = { .family = 2 /* AF_INET */ };
	const __u32 wanted = destination;
	__u64 found = 0;

	REPEAT_OPERATION
	{
		route.ifindex = 1;
		route.ipv4_dst = wanted;
		if (bpf_fib_lookup(ctx, &route, sizeof(route), 0) != BPF_FIB_LKUP_RET_SUCCESS)
			return XDP_DROP;
	}
	for (int i = 5; i >= 0; i--)
		found = found << 8 | route.dmac[i];
	return found == next_hop && route.ifindex != 1 ? XDP_PASS : XDP_DROP;
}

/* --- records to user space, which empties the ring before each run and is not woken */

#define RING(name, bytes)                                                                      \
	struct {                                                                               \
		int (*type)[BPF_MAP_TYPE_RINGBUF];                                             \
		int (*max_entries)[bytes];                                                     \
	} name SEC(".maps")

/* A run's records fit, and not much more: a ring is gone round, so that its size is its cost. */
RING(ring_8, 16 * 1024);
RING(ring_64, 64 * 1024);

/* Whether a run's records, and nothing else, were written since `before`. */
static __always_inline int written(void *ring, __u64 before, __u32 payload)
{
	__u64 bytes = bpf_ringbuf_query(ring, BPF_RB_PROD_POS) - before;

	return bytes == OPERATIONS * (BPF_RINGBUF_HDR_SZ + payload) ? XDP_PASS : XDP_DROP;
}

#define RING_OUTPUT(payload)                                                                   \
	SEC("xdp")                                                                             \
	int ringbuf_output_##payload(struct xdp_md *ctx)                                       \
	{                                                                                      \
		char record[payload] __attribute__((aligned(8))) = {};                         \
		__u64 before = bpf_ringbuf_query(&ring_##payload, BPF_RB_PROD_POS);            \
                                                                                               \
		EACH_TURN(bpf_ringbuf_output(&ring_##payload, record, payload,                 \
					     BPF_RB_NO_WAKEUP))                                \
		return written(&ring_##payload, before, payload);                              \
	}

RING_OUTPUT(8)
RING_OUTPUT(64)

#define RING_RESERVE(name, end)                                                                \
	SEC("xdp")                                                                             \
	int name(struct xdp_md *ctx)                                                           \
	{                                                                                      \
		__u64 before = bpf_ringbuf_query(&ring_8, BPF_RB_PROD_POS);                    \
                                                                                               \
		REPEAT_OPERATION                                                               \
		{                                                                              \
			__u64 *record = bpf_ringbuf_reserve(&ring_8, sizeof(*record), 0);      \
                                                                                               \
			if (!record)                                                           \
				return XDP_DROP;                                               \
			*record = turn;                                                        \
			end(record, BPF_RB_NO_WAKEUP);                                         \
		}                                                                              \
		return written(&ring_8, before, sizeof(__u64));                                \
	}

RING_RESERVE(ringbuf_reserve_submit, bpf_ringbuf_submit)
RING_RESERVE(ringbuf_reserve_discard, bpf_ringbuf_discard)
