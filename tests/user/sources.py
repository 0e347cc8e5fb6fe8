"""C programs for the user-space engine's tests: maps, callbacks, subprograms, tail calls."""

SOURCE = """\
#include <linux/bpf.h>
#include <linux/types.h>
#define SEC(name) __attribute__((section(name), used))
#define __noinline __attribute__((noinline))
#define __uint(name, value) int (*name)[value]
#define __type(name, type_) typeof(type_) *name
#define __array(name, type_) typeof(type_) *name[]
static void *(*const lookup)(void *, const void *) = (void *)1;
static long (*const update)(void *, const void *, const void *, __u64) = (void *)2;
static long (*const delete)(void *, const void *) = (void *)3;
static long (*const tail_call)(void *, void *, __u32) = (void *)12;
static long (*const loop)(__u32, void *, void *, __u64) = (void *)181;
static long (*const for_each)(void *, void *, void *, __u64) = (void *)164;
static long (*const load_bytes)(void *, __u32, void *, __u32) = (void *)189;

char _license[] SEC("license") = "GPL";

struct value { __u64 packets, bytes; __u32 last; };
struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 8); __type(key, __u32);
	__type(value, struct value); } counts SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 64); __type(key, __u64);
	__type(value, struct value); } flows SEC(".maps");

int second(struct xdp_md *ctx);
int third(struct xdp_md *ctx);
struct { __uint(type, BPF_MAP_TYPE_PROG_ARRAY); __uint(max_entries, 4); __uint(key_size, 4);
	__array(values, int (struct xdp_md *)); } jumps SEC(".maps") = {
	.values = { [1] = &second, [2] = &third } };

__u64 total, weighted = 5;
volatile const __u32 shift = 3;
__u32 trail[8];
__s16 signed_word = -2;

SEC("xdp")
int count(struct xdp_md *ctx)
{
	char *data = (char *)(long)ctx->data, *end = (char *)(long)ctx->data_end;
	struct value *value, fresh = {};
	__u32 index;
	__u64 key;

	if (data + 14 > end)
		return XDP_ABORTED;
	index = data[0] & 15;
	value = lookup(&counts, &index);
	if (value) {
		__sync_fetch_and_add(&value->packets, 1);
		value->bytes += end - data;
		value->last = *(__u32 *)(data + 4);
	}
	key = *(__u16 *)(data + 12) & 31;
	value = lookup(&flows, &key);
	if (!value) {
		fresh.packets = 1;
		fresh.last = index;
		update(&flows, &key, &fresh, BPF_NOEXIST);
	} else if (++value->packets > 3) {
		delete(&flows, &key);
	}
	total += index << shift;
	weighted = weighted * 31 + (signed_word ^ index);
	return index > 7 ? XDP_PASS : XDP_DROP;
}

struct context { struct xdp_md *ctx; __u64 sum; __u32 limit; };

static long step(__u32 index, struct context *context)
{
	char *data = (char *)(long)context->ctx->data, *end = (char *)(long)context->ctx->data_end;
	char *at = data + (index & 63);

	if (index >= context->limit || at + 1 > end)
		return 1;
	context->sum = context->sum * 33 + *at;
	return 0;
}

SEC("xdp")
int callbacks(struct xdp_md *ctx)
{
	struct context context = { .ctx = ctx, .limit = 40 };
	long turns = loop(100, step, &context, 0);

	total = context.sum;
	trail[0] = turns;
	return context.sum & 1 ? XDP_TX : XDP_DROP;
}

static long each(void *map, const __u32 *key, struct value *value, struct context *context)
{
	context->sum += value->packets * (*key + 1);
	value->last++;
	return 0;
}

SEC("xdp")
int walk(struct xdp_md *ctx)
{
	struct context context = {};

	trail[1] = for_each(&counts, each, &context, 0);
	total = context.sum;
	return XDP_PASS;
}

__noinline int mix(__u64 a, __u64 b, __u32 *where)
{
	if (!where)
		return 0;
	*where += a * 7;
	return (a ^ b) + *where;
}

__noinline int headers(struct xdp_md *ctx)
{
	__u8 bytes[20] = {};

	if (load_bytes(ctx, 2, bytes, sizeof(bytes)))
		return -1;
	return bytes[3] | bytes[19] << 8;
}

SEC("xdp")
int calls(struct xdp_md *ctx)
{
	__u32 state = ctx->rx_queue_index;
	int found = headers(ctx);

	total = mix(found, 9, &state) + mix(3, found, &state);
	trail[2] = state;
	return found < 0 ? XDP_ABORTED : XDP_PASS;
}

SEC("xdp")
int first(struct xdp_md *ctx)
{
	char *data = (char *)(long)ctx->data;

	trail[3]++;
	if (data + 14 > (char *)(long)ctx->data_end)
		return XDP_ABORTED;
	tail_call(ctx, &jumps, data[0] & 3);
	trail[4]++;
	return XDP_DROP;
}

SEC("xdp")
int second(struct xdp_md *ctx)
{
	trail[5]++;
	tail_call(ctx, &jumps, 1);
	return XDP_TX;
}

SEC("xdp")
int third(struct xdp_md *ctx)
{
	char *data = (char *)(long)ctx->data;

	trail[6] += 3;
	if (data + 14 > (char *)(long)ctx->data_end)
		return XDP_ABORTED;
	data[13] ^= 0xff;
	return XDP_PASS;
}
"""

CHECKS = """\
#include <linux/bpf.h>
#define SEC(name) __attribute__((section(name), used))
#define __uint(name, value) int (*name)[value]
#define __type(name, type_) typeof(type_) *name
static void *(*const lookup)(void *, const void *) = (void *)1;
static long (*const load_bytes)(void *, unsigned, void *, unsigned) = (void *)189;
char _license[] SEC("license") = "GPL";
struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 4); __type(key, unsigned);
	__type(value, char[20]); } values SEC(".maps");
unsigned where;
int table[4] = { 1, 2, 3, 4 };
volatile const int fixed = 3;
#define START char *data = (char *)(long)ctx->data
SEC("xdp") int packet(struct xdp_md *ctx)
{
	START;
	return data[where];
}
SEC("xdp") int before(struct xdp_md *ctx)
{
	START;
	data[-1] = 1;
	return 2;
}
SEC("xdp") int null(struct xdp_md *ctx)
{
	unsigned key = 99;
	return *(char *)lookup(&values, &key);
}
SEC("xdp") int value(struct xdp_md *ctx)
{
	unsigned key = 0;
	char *found = lookup(&values, &key);
	if (!found)
		return 1;
	return found[where];
}
SEC("xdp") int data(struct xdp_md *ctx)
{
	return *(volatile int *)((char *)table + where);
}
SEC("xdp") int constant(struct xdp_md *ctx)
{
	*(volatile int *)&fixed = 9;
	return 2;
}
SEC("xdp") int stack(struct xdp_md *ctx)
{
	volatile char room[16];
	room[where] = 1;
	return 2;
}
SEC("xdp") int number(struct xdp_md *ctx)
{
	return *(char *)(long)0x123456789abc;
}
SEC("xdp") int helper(struct xdp_md *ctx)
{
	char room[16];
	load_bytes(ctx, 0, room, where);
	return 2;
}
SEC("xdp") int forever(struct xdp_md *ctx)
{
	for (;;)
		asm volatile("" : : : "memory");
}
__attribute__((noinline)) int again(struct xdp_md *ctx)
{
	asm volatile("" : : : "memory");
	return ctx->rx_queue_index > 99 ? 0 : again(ctx) + 1;
}
SEC("xdp") int deep(struct xdp_md *ctx)
{
	return again(ctx);
}
"""
