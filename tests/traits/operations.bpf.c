/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Performs a list of operations on the traits of one packet and notes after each what it answered
 * and what the area then holds. Keys and lengths are variables, or constants as far as `mode` says.
 */
#include "xdplab.bpf.h"
#include "traits.bpf.h"

char _license[] SEC("license") = "GPL";

#define OPS 64
#define AREA_WORDS 54

enum { SET, GET, DEL, IS_SET };
enum { VARIABLE, CONSTANT_LENGTH, CONSTANT_KEY };

struct op {
	__u32 kind;
	__u32 key;
	__u32 bytes;
	__u32 flags;
	__u32 mode;
	__u32 padding;
	__u64 value;
};

struct result {
	__s64 answer;
	__u64 value;
	__u32 area[AREA_WORDS];
};

struct op ops[OPS];
struct result results[OPS];
__u32 op_count;

static __always_inline int set_constant(struct xdp_md *ctx, __u64 key, struct op *op)
{
	__u64 eight = op->value;
	__u32 four = op->value;
	__u16 two = op->value;

	if (op->bytes == 8)
		return traits_set(ctx, key, &eight, 8, op->flags);
	if (op->bytes == 4)
		return traits_set(ctx, key, &four, 4, op->flags);
	if (op->bytes == 2)
		return traits_set(ctx, key, &two, 2, op->flags);
	return traits_set(ctx, key, &eight, 3, op->flags);
}

static __always_inline int get_constant(struct xdp_md *ctx, __u64 key, struct op *op, __u64 *value)
{
	if (op->bytes >= 8)
		return traits_get(ctx, key, value, 8);
	if (op->bytes >= 4)
		return traits_get(ctx, key, value, 4);
	if (op->bytes >= 2)
		return traits_get(ctx, key, value, 2);
	return traits_get(ctx, key, value, 1);
}

#define PERFORM(name, the_key, set, get)                                                   \
	__noinline int name(struct xdp_md *ctx, __u32 index)                               \
	{                                                                                  \
		struct op *op = &ops[index % OPS];                                         \
		struct result *result = &results[index % OPS];                             \
		__u64 value = 0x5a5a5a5a5a5a5a5aULL, given = op->value, key = the_key;     \
                                                                                           \
		if (op->kind == SET)                                                       \
			result->answer = set;                                              \
		else if (op->kind == GET)                                                  \
			result->answer = get;                                              \
		else if (op->kind == DEL)                                                  \
			result->answer = traits_del(ctx, key);                             \
		else                                                                       \
			result->answer = traits_is_set(ctx, key);                          \
		/* The compiler passes no argument that a function has no use for. */      \
		keep(ctx);                                                                 \
		result->value = value;                                                     \
		return 0;                                                                  \
	}
#define PERFORM_CONSTANT(name, key) \
	PERFORM(name, key, set_constant(ctx, key, op), get_constant(ctx, key, op, &value))

PERFORM(variable, op->key, traits_set(ctx, key, &given, op->bytes, op->flags),
	traits_get(ctx, key, &value, op->bytes))
PERFORM_CONSTANT(constant_length, op->key)
PERFORM_CONSTANT(constant_0, 0)
PERFORM_CONSTANT(constant_1, 1)
PERFORM_CONSTANT(constant_30, 30)
PERFORM_CONSTANT(constant_31, 31)
PERFORM_CONSTANT(constant_32, 32)
PERFORM_CONSTANT(constant_33, 33)
PERFORM_CONSTANT(constant_62, 62)
PERFORM_CONSTANT(constant_63, 63)
PERFORM_CONSTANT(constant_64, 64)

__noinline int note_area(struct xdp_md *ctx, __u32 index)
{
	char *area = (char *)(long)ctx->data_meta, *end = frame_data(ctx);
	struct result *result = &results[index % OPS];

#pragma clang loop unroll(disable)
	for (int word = 0; word < AREA_WORDS; word++) {
		if (area + 4 > end)
			break;
		result->area[word] = *(__u32 *)area;
		area += 4;
	}
	return 0;
}

static __always_inline int perform_one(struct xdp_md *ctx, __u32 index)
{
	struct op *op = &ops[index % OPS];

	if (op->mode == VARIABLE)
		return variable(ctx, index);
	if (op->mode == CONSTANT_KEY) {
		switch (op->key) {
		case 0:
			return constant_0(ctx, index);
		case 1:
			return constant_1(ctx, index);
		case 30:
			return constant_30(ctx, index);
		case 31:
			return constant_31(ctx, index);
		case 32:
			return constant_32(ctx, index);
		case 33:
			return constant_33(ctx, index);
		case 62:
			return constant_62(ctx, index);
		case 63:
			return constant_63(ctx, index);
		case 64:
			return constant_64(ctx, index);
		}
	}
	return constant_length(ctx, index);
}

SEC("xdp")
int perform_ops(struct xdp_md *ctx)
{
#pragma clang loop unroll(disable)
	for (__u32 index = 0; index < OPS; index++) {
		if (index >= op_count)
			break;
		perform_one(ctx, index);
		note_area(ctx, index);
	}
	return XDP_PASS;
}

/* traits_init on a packet with whatever metadata: its answer, and the area that it made. */
__u32 init_bytes;
__s64 init_answer;

SEC("xdp")
int init_traits(struct xdp_md *ctx)
{
	init_answer = traits_init(ctx, init_bytes);
	return XDP_PASS;
}
