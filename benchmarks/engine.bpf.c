/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Eight programs that engine.py times on every engine, from nothing to several lookups a packet.
 * Each is idempotent: no engine restores a frame between packets. Maps that need entries get them
 * from the first packet.
 *
 * With NATIVE defined the same text is C for this machine: the context is the runtime's struct
 * user_frame, maps are the object's, and helpers are the runtime's functions, called. That is as
 * fast as the programs can be while they do this work.
 */
#ifdef NATIVE
#include <linux/types.h>

struct xdp_md {
	__u64 data;
	__u64 data_end;
};

enum { XDP_ABORTED, XDP_DROP, XDP_PASS, XDP_TX };

#define __always_inline inline __attribute__((always_inline))
#define SEC(name)
#define HIDDEN __attribute__((visibility("hidden")))
#define MAP(name, map_type, key_type, value_type, entries, flags) \
	extern HIDDEN char name __asm__("map:" #name)
#define LOOKUP(kind, map, key) user_helper_map_lookup_elem_##kind(ctx, &(map), key)
#define UPDATE(kind, map, key, value) user_helper_map_update_elem##kind(ctx, &(map), key, value, 0)

HIDDEN void *user_helper_map_lookup_elem_hash(struct xdp_md *, void *, const void *);
HIDDEN void *user_helper_map_lookup_elem_array(struct xdp_md *, void *, const void *);
HIDDEN void *user_helper_map_lookup_elem_lpm_trie(struct xdp_md *, void *, const void *);
HIDDEN long user_helper_map_update_elem(struct xdp_md *, void *, const void *, const void *, __u64);
HIDDEN long user_helper_map_update_elem_hash(struct xdp_md *, void *, const void *, const void *,
					     __u64);
HIDDEN long user_helper_xdp_load_bytes(struct xdp_md *, struct xdp_md *, __u64, void *, __u64);
HIDDEN long user_helper_xdp_adjust_head(struct xdp_md *, struct xdp_md *, __s64);

/* Helpers take the frame, then BPF's arguments. */
#define bpf_xdp_load_bytes(ctx, ...) user_helper_xdp_load_bytes(ctx, ctx, __VA_ARGS__)
#define bpf_xdp_adjust_head(ctx, ...) user_helper_xdp_adjust_head(ctx, ctx, __VA_ARGS__)

static __always_inline void *frame_data(const struct xdp_md *ctx)
{
	return (void *)ctx->data;
}

static __always_inline void *frame_end(const struct xdp_md *ctx)
{
	return (void *)ctx->data_end;
}
#else
#include "xdplab.bpf.h"

static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*const bpf_map_update_elem)(void *map, const void *key, const void *value,
					 __u64 flags) = (void *)2;

#define MAP(name, map_type, key_type, value_type, entries, flags) \
	struct { \
		int (*type)[map_type]; \
		key_type *key; \
		value_type *value; \
		int (*max_entries)[entries]; \
		int (*map_flags)[flags]; \
	} name SEC(".maps")
#define LOOKUP(kind, map, key) bpf_map_lookup_elem(&(map), key)
#define UPDATE(kind, map, key, value) bpf_map_update_elem(&(map), key, value, 0)

char _license[] SEC("license") = "GPL";
#endif

#define unlikely(condition) __builtin_expect(!!(condition), 0)

struct ethernet {
	__u8 destination[6];
	__u8 source[6];
	__u16 type;
};

struct ipv4 {
	__u8 version_ihl;
	__u8 tos;
	__u16 bytes;
	__u16 id;
	__u16 fragment;
	__u8 ttl;
	__u8 protocol;
	__u16 checksum;
	__u32 source;
	__u32 destination;
};

struct udp {
	__u16 source;
	__u16 destination;
	__u16 bytes;
	__u16 checksum;
};

struct count {
	__u64 packets;
	__u64 bytes;
};

struct prefix {
	__u32 bits;
	__u32 address;
};

struct rule {
	__u32 source_group;
	__u32 destination_group;
	__u16 port;
	__u8 protocol;
	__u8 zero;
};

MAP(by_source, 1, __u32, struct count, 1024, 0);
MAP(by_protocol, 2, __u32, struct count, 256, 0);
MAP(source_groups, 11, struct prefix, __u32, 64, 1);
MAP(destination_groups, 11, struct prefix, __u32, 64, 1);
MAP(rules, 1, struct rule, __u32, 256, 0);
MAP(verdicts, 2, __u32, struct count, 16, 0);

static int is_filled;

#define ETHERTYPE_IPV4 __builtin_bswap16(0x0800)
#define ETHERTYPE_VLAN __builtin_bswap16(0x8100)
#define UDP 17
#define TCP 6

/* The IPv4 header behind Ethernet, NULL where there is none. */
static __always_inline struct ipv4 *ipv4_of(struct xdp_md *ctx)
{
	struct ethernet *ethernet = frame_data(ctx);
	struct ipv4 *ipv4 = (void *)(ethernet + 1);

	if ((void *)(ipv4 + 1) > frame_end(ctx))
		return 0;
	return ethernet->type == ETHERTYPE_IPV4 ? ipv4 : 0;
}

static __always_inline void add(struct count *count, __u64 bytes)
{
	count->packets++;
	count->bytes += bytes;
}

static __always_inline __u16 fold(__u32 sum)
{
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

SEC("xdp")
int xdp_drop(struct xdp_md *ctx)
{
	return XDP_DROP;
}

/* Ethernet, VLAN tags if there are any, IPv4 with options or without, UDP or TCP: the port. */
SEC("xdp")
int xdp_parse(struct xdp_md *ctx)
{
	void *end = frame_end(ctx);
	struct ethernet *ethernet = frame_data(ctx);
	void *at = ethernet + 1;
	struct ipv4 *ipv4;
	struct udp *ports;
	__u32 header;
	__u16 type;

	if (at > end)
		return XDP_ABORTED;
	type = ethernet->type;
#pragma clang loop unroll(full)
	for (int tags = 0; tags < 2; tags++) {
		if (type != ETHERTYPE_VLAN)
			break;
		if (at + 4 > end)
			return XDP_ABORTED;
		type = *(__u16 *)(at + 2);
		at += 4;
	}
	if (type != ETHERTYPE_IPV4)
		return XDP_PASS;
	ipv4 = at;
	if ((void *)(ipv4 + 1) > end)
		return XDP_ABORTED;
	header = (ipv4->version_ihl & 15) * 4;
	if (header < sizeof(*ipv4) || at + header > end)
		return XDP_ABORTED;
	if (ipv4->protocol != UDP && ipv4->protocol != TCP)
		return XDP_PASS;
	ports = at + header;
	if ((void *)(ports + 1) > end)
		return XDP_ABORTED;
	return ports->destination == __builtin_bswap16(9) ? XDP_DROP : XDP_PASS;
}

SEC("xdp")
int xdp_hash_count(struct xdp_md *ctx)
{
	struct ipv4 *ipv4 = ipv4_of(ctx);
	__u64 bytes = frame_end(ctx) - frame_data(ctx);
	struct count *count;
	__u32 source;

	if (!ipv4)
		return XDP_ABORTED;
	source = ipv4->source;
	count = LOOKUP(hash, by_source, &source);
	if (unlikely(!count)) {
		struct count first = { 1, bytes };

		UPDATE(_hash, by_source, &source, &first);
		return XDP_PASS;
	}
	add(count, bytes);
	return XDP_PASS;
}

SEC("xdp")
int xdp_array_count(struct xdp_md *ctx)
{
	struct ipv4 *ipv4 = ipv4_of(ctx);
	__u64 bytes = frame_end(ctx) - frame_data(ctx);
	struct count *count;
	__u32 protocol;

	if (!ipv4)
		return XDP_ABORTED;
	protocol = ipv4->protocol;
	count = LOOKUP(array, by_protocol, &protocol);
	if (!count)
		return XDP_ABORTED;
	add(count, bytes);
	return XDP_PASS;
}

/* Headers by copies, as for frames that may be in pieces. */
SEC("xdp")
int xdp_load_bytes(struct xdp_md *ctx)
{
	struct ethernet ethernet;
	struct ipv4 ipv4;
	struct udp ports;

	if (bpf_xdp_load_bytes(ctx, 0, &ethernet, sizeof(ethernet)) < 0)
		return XDP_ABORTED;
	if (ethernet.type != ETHERTYPE_IPV4)
		return XDP_PASS;
	if (bpf_xdp_load_bytes(ctx, sizeof(ethernet), &ipv4, sizeof(ipv4)) < 0)
		return XDP_ABORTED;
	if (ipv4.protocol != UDP)
		return XDP_PASS;
	if (bpf_xdp_load_bytes(ctx, sizeof(ethernet) + sizeof(ipv4), &ports, sizeof(ports)) < 0)
		return XDP_ABORTED;
	return ports.destination == __builtin_bswap16(9) ? XDP_DROP : XDP_PASS;
}

/* The sum over a UDP datagram of any length up to 64 words, in a loop; answers whether it fits. */
SEC("xdp")
int xdp_checksum(struct xdp_md *ctx)
{
	struct ipv4 *ipv4 = ipv4_of(ctx);
	void *end = frame_end(ctx);
	__u16 *word;
	__u32 sum;

	if (!ipv4)
		return XDP_ABORTED;
	word = (__u16 *)(ipv4 + 1);
	sum = (ipv4->source >> 16) + (ipv4->source & 0xffff) + (ipv4->destination >> 16) +
	      (ipv4->destination & 0xffff) + __builtin_bswap16(UDP) +
	      __builtin_bswap16((__u16)(__builtin_bswap16(ipv4->bytes) - sizeof(*ipv4)));
#pragma clang loop unroll(disable) vectorize(disable)
	for (int words = 0; words < 64; words++) {
		if ((void *)(word + 1) > end)
			break;
		sum += *word++;
	}
	return fold(sum) ? XDP_DROP : XDP_PASS;
}

/* An IPv4 header in front and off again: two adjustments, a header and its checksum. */
SEC("xdp")
int xdp_encap(struct xdp_md *ctx)
{
	struct ipv4 *outer, *inner = ipv4_of(ctx);
	struct ethernet *ethernet, old;
	__u32 sum = 0;
	__u16 bytes;

	if (!inner)
		return XDP_ABORTED;
	bytes = __builtin_bswap16(inner->bytes);
	old = *(struct ethernet *)frame_data(ctx);
	if (bpf_xdp_adjust_head(ctx, -(int)sizeof(*outer)))
		return XDP_ABORTED;
	ethernet = frame_data(ctx);
	outer = (void *)(ethernet + 1);
	if ((void *)(outer + 1) > frame_end(ctx))
		return XDP_ABORTED;
	*ethernet = old;
	outer->version_ihl = 0x45;
	outer->tos = 0;
	outer->bytes = __builtin_bswap16(bytes + sizeof(*outer));
	outer->id = 0;
	outer->fragment = 0;
	outer->ttl = 64;
	outer->protocol = 4;
	outer->checksum = 0;
	outer->source = 0x0100000a;
	outer->destination = 0x0200000a;
#pragma clang loop unroll(full)
	for (int i = 0; i < 10; i++)
		sum += ((__u16 *)outer)[i];
	outer->checksum = fold(sum);
	if (bpf_xdp_adjust_head(ctx, sizeof(*outer)))
		return XDP_ABORTED;
	ethernet = frame_data(ctx);
	if ((void *)(ethernet + 1) > frame_end(ctx))
		return XDP_ABORTED;
	*ethernet = old;
	return XDP_TX;
}

static __always_inline void fill(struct xdp_md *ctx)
{
	struct rule rule = { 3, 5, __builtin_bswap16(9), UDP, 0 };
	__u32 allow = 1;

	/* Prefixes of 10/8, each longer than the one before: a lookup walks all of them. */
	for (__u32 i = 0; i < 8; i++) {
		struct prefix prefix = { 8 + 2 * i, 10 };
		__u32 group = i == 7 ? 3 : 100 + i;

		UPDATE(, source_groups, &prefix, &group);
		group = i == 7 ? 5 : 200 + i;
		UPDATE(, destination_groups, &prefix, &group);
	}
	for (__u32 i = 0; i < 32; i++) {
		UPDATE(_hash, rules, &rule, &allow);
		rule.port += 0x0100;
	}
	is_filled = 1;
}

/* Both addresses to groups by longest prefix, groups and port to a rule, the rule's counter. */
SEC("xdp")
int xdp_filter(struct xdp_md *ctx)
{
	struct ipv4 *ipv4 = ipv4_of(ctx);
	__u64 bytes = frame_end(ctx) - frame_data(ctx);
	struct prefix prefix = { 32, 0 };
	struct rule rule = { 0 };
	struct count *count;
	struct udp *ports;
	__u32 *found, verdict;

	if (unlikely(!is_filled))
		fill(ctx);
	if (!ipv4)
		return XDP_ABORTED;
	ports = (void *)(ipv4 + 1);
	if ((void *)(ports + 1) > frame_end(ctx))
		return XDP_ABORTED;
	rule.port = ports->destination;
	rule.protocol = ipv4->protocol;
	prefix.address = ipv4->destination;
	found = LOOKUP(lpm_trie, destination_groups, &prefix);
	if (!found)
		return XDP_DROP;
	rule.destination_group = *found;
	prefix.address = ipv4->source;
	found = LOOKUP(lpm_trie, source_groups, &prefix);
	if (!found)
		return XDP_DROP;
	rule.source_group = *found;
	found = LOOKUP(hash, rules, &rule);
	if (!found)
		return XDP_DROP;
	verdict = *found;
	count = LOOKUP(array, verdicts, &verdict);
	if (!count)
		return XDP_ABORTED;
	add(count, bytes);
	return XDP_PASS;
}
