"""C text that the tests compile: one program with everything a reader must find."""

HEADER = """\
#pragma once
#include <linux/bpf.h>
#define SEC(name) __attribute__((section(name), used))
#define __uint(name, value) int (*name)[value]
#define __type(name, type_) typeof(type_) *name
#define __array(name, type_) typeof(type_) *name[]
static void *(*bpf_map_lookup_elem)(void *, const void *) = (void *)1;
static long (*bpf_loop)(__u32, void *, void *, __u64) = (void *)181;
static __attribute__((always_inline)) int from_header(int x)
{
	asm volatile("%0 += 1" : "+r"(x));
	return x;
}
"""

SOURCE = """\
#include "common.h"
char _license[] SEC("license") = "GPL";
struct pair { __u32 a, b; };
struct { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 4); __type(key, __u32);
	__type(value, struct pair); } counts SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_HASH); __uint(max_entries, 16); __uint(key_size, 6);
	__uint(value_size, 12); __uint(map_flags, BPF_F_NO_PREALLOC); __uint(pinning, 1);
	} hashed SEC(".maps");
struct inner { __uint(type, BPF_MAP_TYPE_ARRAY); __uint(max_entries, 2); __type(key, __u32);
	__type(value, __u64); } one SEC(".maps"), two SEC(".maps");
struct { __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS); __uint(max_entries, 3); __type(key, __u32);
	__array(values, struct inner); } outer SEC(".maps") = { .values = { [0] = &one, [2] = &two } };
int tail(struct xdp_md *ctx);
struct { __uint(type, BPF_MAP_TYPE_PROG_ARRAY); __uint(max_entries, 2); __uint(key_size, 4);
	__array(values, int (struct xdp_md *)); } jumps SEC(".maps") = { .values = { [1] = &tail } };
enum mode { SLOW = -1, FAST = 3 };
__u32 packets; __u64 limit = 500; const volatile __s16 bias = -3;
const volatile __u32 ceiling = 11; _Bool enabled = 1;
double ratio; enum mode mode = FAST; struct pair last = { 1, 2 }; __u8 mac[6]; void *where;
__s64 tuned SEC(".data.tuning") = 9;
static __u32 hidden = 77;
extern int bpf_needed(struct xdp_md *ctx) __attribute__((section(".ksyms")));
extern int bpf_wanted(struct xdp_md *ctx) __attribute__((section(".ksyms"), weak));
extern const int a_symbol __attribute__((section(".ksyms"), weak));
__attribute__((noinline)) int visible(int x) { asm volatile("" : "+r"(x)); return x + bias; }
static __attribute__((noinline)) int local(int x)
{
	asm volatile("" : "+r"(x));
	return x + packets;
}
static long callback(__u32 i, void *data) { *(volatile __u32 *)data += visible(i); return 0; }
SEC("xdp") int main_prog(struct xdp_md *ctx)
{
	__u32 key = 0, sum = 0;
	struct pair *pair = bpf_map_lookup_elem(&counts, &key);
	if (pair)
		pair->a += limit + *(volatile __u32 *)&hidden;
	packets++;
	bpf_loop(3, callback, &sum, 0);
	if (bpf_wanted)
		bpf_wanted(ctx);
	if (&a_symbol)
		sum += *(volatile __s64 *)&tuned;
	bpf_map_lookup_elem(&outer, &key);
	return visible(3) + local(from_header(4)) + sum + bpf_needed(ctx);
}
SEC("xdp.frags") int tail(struct xdp_md *ctx) { return XDP_PASS; }
"""
