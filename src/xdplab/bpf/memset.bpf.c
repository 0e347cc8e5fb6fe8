/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Clearing a constant number of bytes, where a program may write: in a map's value, in the packet,
 * in its metadata, on the stack. Stores of words: through a char pointer each would be a byte's.
 * From 512 bytes on the stores are in a global function, which the verifier walks once, and not in
 * every turn; it is called, and its call is part of what it costs.
 */
#include "xdplab.bpf.h"

char _license[] SEC("license") = "GPL";

#define VALUE_BYTES 8192

struct value {
	__u64 words[VALUE_BYTES / 8];
};

struct {
	int (*type)[BPF_MAP_TYPE_ARRAY];
	int (*max_entries)[1];
	__u32 *key;
	struct value *value;
} cleared SEC(".maps");

static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;

static __always_inline void clear_constant(void *start, const __u32 bytes)
{
	__u64 *words = start;
	char *tail = (char *)start + bytes / 8 * 8;

#pragma clang loop unroll(full)
	for (__u32 word = 0; word < bytes / 8; word++)
		*(volatile __u64 *)(words + word) = 0;
	if (bytes & 4) {
		*(volatile __u32 *)tail = 0;
		tail += 4;
	}
	if (bytes & 2) {
		*(volatile __u16 *)tail = 0;
		tail += 2;
	}
	if (bytes & 1)
		*(volatile __u8 *)tail = 0;
}

static __always_inline struct value *find_value(void)
{
	__u32 key = 0;

	return bpf_map_lookup_elem(&cleared, &key);
}

SEC("xdp")
int loop(struct xdp_md *ctx)
{
	REPEAT_OPERATION
		asm volatile("" : : : "memory");
	return XDP_PASS;
}

__noinline int nothing(int value)
{
	asm volatile("" : "+r"(value));
	return value;
}

SEC("xdp")
int function_call(struct xdp_md *ctx)
{
	REPEAT_OPERATION
		keep(nothing(turn));
	return XDP_PASS;
}

#define IN_MAP_VALUE(bytes)                                                                    \
	SEC("xdp")                                                                             \
	int map_##bytes(struct xdp_md *ctx)                                                    \
	{                                                                                      \
		struct value *value = find_value();                                            \
                                                                                               \
		if (!value)                                                                    \
			return XDP_ABORTED;                                                    \
		REPEAT_OPERATION                                                               \
			clear_constant(value, bytes);                                          \
		return XDP_PASS;                                                               \
	}

#define IN_MAP_VALUE_CALLED(bytes)                                                             \
	__noinline int clear_##bytes(struct value *value)                                      \
	{                                                                                      \
		if (!value)                                                                    \
			return -1;                                                             \
		clear_constant(value, bytes);                                                  \
		return 0;                                                                      \
	}                                                                                      \
                                                                                               \
	SEC("xdp")                                                                             \
	int map_##bytes(struct xdp_md *ctx)                                                    \
	{                                                                                      \
		struct value *value = find_value();                                            \
                                                                                               \
		if (!value)                                                                    \
			return XDP_ABORTED;                                                    \
		REPEAT_OPERATION                                                               \
		{                                                                              \
			if (clear_##bytes(value))                                              \
				return XDP_ABORTED;                                            \
		}                                                                              \
		return XDP_PASS;                                                               \
	}

IN_MAP_VALUE(32)
IN_MAP_VALUE(64)
IN_MAP_VALUE(128)
IN_MAP_VALUE(192)
IN_MAP_VALUE(199)
IN_MAP_VALUE(200)
IN_MAP_VALUE(201)
IN_MAP_VALUE(204)
IN_MAP_VALUE(208)
IN_MAP_VALUE(256)
IN_MAP_VALUE_CALLED(512)
IN_MAP_VALUE_CALLED(768)
IN_MAP_VALUE_CALLED(1024)
IN_MAP_VALUE_CALLED(2048)
IN_MAP_VALUE_CALLED(4096)
IN_MAP_VALUE_CALLED(8192)

/* `start` is read again in every turn, and its bounds are checked, as in a program of one packet. */
#define IN_FRAME(where, bytes, start, end)                                                     \
	SEC("xdp")                                                                             \
	int where##_##bytes(struct xdp_md *ctx)                                                \
	{                                                                                      \
		REPEAT_OPERATION                                                               \
		{                                                                              \
			void *at = (void *)(long)*(volatile __u32 *)&ctx->start;               \
                                                                                               \
			if (at + bytes > (void *)(long)ctx->end)                               \
				return XDP_ABORTED;                                            \
			clear_constant(at, bytes);                                             \
		}                                                                              \
		return XDP_PASS;                                                               \
	}

IN_FRAME(packet, 32, data, data_end)
IN_FRAME(packet, 64, data, data_end)
IN_FRAME(packet, 128, data, data_end)
IN_FRAME(packet, 200, data, data_end)
IN_FRAME(packet, 256, data, data_end)
/* The most that the kernel's test run takes as metadata is 216 bytes, and other places take less. */
IN_FRAME(metadata, 32, data_meta, data)
IN_FRAME(metadata, 64, data_meta, data)
IN_FRAME(metadata, 128, data_meta, data)
IN_FRAME(metadata, 200, data_meta, data)

#define ON_STACK(bytes)                                                                        \
	SEC("xdp")                                                                             \
	int stack_##bytes(struct xdp_md *ctx)                                                  \
	{                                                                                      \
		__u64 words[(bytes + 7) / 8];                                                  \
                                                                                               \
		REPEAT_OPERATION                                                               \
			clear_constant(words, bytes);                                          \
		keep(&words);                                                                  \
		return XDP_PASS;                                                               \
	}
ON_STACK(32)
ON_STACK(64)
ON_STACK(128)
ON_STACK(200)
ON_STACK(256)
