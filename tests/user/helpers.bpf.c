/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Performs a list of helper calls that a test writes into `ops`, on one packet, and leaves their
 * results in `results`: the same object runs in the kernel and in user space.
 */
#include "xdplab.bpf.h"

#define OPS 12
#define BUFFER 512

struct op {
	__u32 kind;
	__s32 a;
	__u32 b;
	__u32 c;
};

volatile struct op ops[OPS];
volatile __s64 results[OPS];
__u8 buffer[BUFFER];

struct {
	int (*type)[27];
	int (*max_entries)[4096];
} ring __attribute__((section(".maps"), used));

static long (*const bpf_csum_diff)(__be32 *from, __u32 from_size, __be32 *to, __u32 to_size,
				   __u32 seed) = (void *)28;
static long (*const bpf_redirect)(__u32 ifindex, __u64 flags) = (void *)23;
static long (*const bpf_xdp_adjust_meta)(struct xdp_md *xdp, int delta) = (void *)54;
static long (*const bpf_xdp_adjust_tail)(struct xdp_md *xdp, int delta) = (void *)65;
static long (*const bpf_xdp_get_buff_len)(struct xdp_md *xdp) = (void *)188;
static long (*const bpf_strncmp)(const char *s1, __u32 size, const char *s2) = (void *)182;
static long (*const bpf_dynptr_write)(const struct bpf_dynptr *to, __u32 offset, void *from,
				      __u32 length, __u64 flags) = (void *)202;
static long (*const bpf_dynptr_from_mem)(void *data, __u32 size, __u64 flags,
					 struct bpf_dynptr *ptr) = (void *)197;
static void *(*const bpf_dynptr_data)(const struct bpf_dynptr *ptr, __u32 offset,
				      __u32 length) = (void *)203;
static long (*const bpf_snprintf)(char *str, __u32 str_size, const char *fmt, __u64 *data,
				  __u32 data_len) = (void *)165;
static long (*const bpf_ringbuf_output)(void *ringbuf, void *data, __u64 size,
					__u64 flags) = (void *)130;
static __u64 (*const bpf_ringbuf_query)(void *ringbuf, __u64 flags) = (void *)134;
static long (*const bpf_check_mtu)(void *ctx, __u32 ifindex, __u32 *mtu_len, __s32 len_diff,
				   __u64 flags) = (void *)163;

extern int bpf_dynptr_adjust(const struct bpf_dynptr *p, __u64 start, __u64 end) __weak __ksym;
extern __u64 bpf_dynptr_size(const struct bpf_dynptr *p) __weak __ksym;

static const char literal[] = "xdplab";
static const char formats[] = "%d|%5u%%|%08llx";

/* A fresh dynptr on the frame, cut to [c, c + b] where that can be. */
static __noinline long on_dynptr(struct xdp_md *ctx, __u32 kind, __s32 a, __u32 b, __u32 c)
{
	struct bpf_dynptr frame;
	__u32 length = b & 255;
	__u8 *slice;
	long result = 0;

	if (bpf_dynptr_from_xdp(ctx, kind == 13, &frame))
		return -1000;
	result = bpf_dynptr_adjust(&frame, c, c + 600ull);
	switch (kind) {
	case 10:
		result += 1000 * bpf_dynptr_read(buffer, length, &frame, a, 0);
		break;
	case 11:
		result += 1000 * bpf_dynptr_write(&frame, a, buffer, length, 0);
		break;
	case 12:
		slice = bpf_dynptr_slice(&frame, a, buffer, 64);
		if (slice)
			result += 1 + slice[0] + 256 * slice[63];
		break;
	default:
		result += bpf_dynptr_size(&frame);
	}
	return result;
}

static __noinline long on_memory(__u32 kind, __s32 a, __u32 b, __u32 c)
{
	struct bpf_dynptr memory;
	__u64 values[3] = { (__u64)a, b, c };
	__u8 *data;

	switch (kind) {
	case 20:
		return bpf_csum_diff((void *)buffer, a & 0xfc, (void *)buffer + 256, b & 0xfc, c);
	case 21:
		return bpf_strncmp((char *)buffer, (a & 15) + 1, literal);
	case 22:
		if (bpf_dynptr_from_mem(buffer, sizeof(buffer), a & 1, &memory))
			return -1000;
		data = bpf_dynptr_data(&memory, b, 16);
		return data ? data[15] : -1;
	case 23:
		return bpf_snprintf((char *)buffer, (a & 63) + 1, formats, values,
				    sizeof(values));
	case 24:
		return bpf_ringbuf_output(&ring, buffer, a & 511, b);
	case 25:
		return bpf_ringbuf_query(&ring, a);
	}
	return 0;
}

static __noinline long perform(struct xdp_md *ctx, __u32 kind, __s32 a, __u32 b, __u32 c)
{
	switch (kind) {
	case 0:
		return bpf_xdp_adjust_head(ctx, a);
	case 1:
		return bpf_xdp_adjust_meta(ctx, a);
	case 2:
		return bpf_xdp_adjust_tail(ctx, a);
	case 3:
		return bpf_xdp_load_bytes(ctx, a, buffer, (b & 255) + 1);
	case 4:
		return bpf_xdp_store_bytes(ctx, a, buffer, (b & 255) + 1);
	case 5:
		return bpf_xdp_pull_data(ctx, a);
	case 6:
		return bpf_xdp_get_buff_len(ctx);
	case 7:
		return ctx->data_end - ctx->data;
	case 8:
		return ctx->data - ctx->data_meta;
	case 9:
		return bpf_redirect(a, b & 1);
	}
	return 0;
}

SEC("xdp.frags")
int perform_ops(struct xdp_md *ctx)
{
	for (int i = 0; i < OPS; i++) {
		__u32 kind = ops[i].kind;

		if (kind < 10)
			results[i] = perform(ctx, kind, ops[i].a, ops[i].b, ops[i].c);
		else if (kind < 20)
			results[i] = on_dynptr(ctx, kind, ops[i].a, ops[i].b, ops[i].c);
		else
			results[i] = on_memory(kind, ops[i].a, ops[i].b, ops[i].c);
	}
	return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
