/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Programs that make traffic: as live frames of an XDP test run, and as clones of the skb of a
 * classifier's test run. The constants are set before loading, and the verifier removes what they
 * rule out: traffic of one flow pays nothing for what many flows would take.
 *
 * One thread runs a generator, so that its state needs no care.
 */
#include "xdplab.bpf.h"

char _license[] SEC("license") = "GPL";

static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*const bpf_skb_store_bytes)(struct __sk_buff *skb, __u32 offset, const void *from,
					 __u32 length, __u64 flags) = (void *)9;
static long (*const bpf_clone_redirect)(struct __sk_buff *skb, __u32 ifindex,
					__u64 flags) = (void *)13;
static long (*const bpf_redirect)(__u32 ifindex, __u64 flags) = (void *)23;
static long (*const bpf_skb_change_tail)(struct __sk_buff *skb, __u32 length,
					 __u64 flags) = (void *)38;
static long (*const bpf_xdp_adjust_tail)(struct xdp_md *xdp, int delta) = (void *)65;

#define ETHERNET_BYTES 14
/* Ethernet, two VLAN tags, IPv6 and TCP have 82; a multiple of eight. */
#define MAX_HEADER_BYTES 96
/* Clones a run of the classifier's program. */
#define MAX_BURST 64
/* What a page holds of a live frame. */
#define MAX_CAPTURED_BYTES 3520

#define SWAP16(value) ((__u16)((((value) & 0xff) << 8) | (((value) >> 8) & 0xff)))
#define SWAP32(value) __builtin_bswap32(value)

const volatile __u32 out_ifindex = 0;

/* What a frame begins with, as it is before its varied fields are set. */
const volatile __u64 header[MAX_HEADER_BYTES / 8] = {};
const volatile __u32 header_bytes = 0;
/* Its last eight bytes once more, for what does not fill a word. */
const volatile __u64 header_tail = 0;

/*
 * Fields that vary from packet to packet, the first fastest: the values are first, first + 1, ...
 * first + count - 1, all combinations in turn. Addresses vary in their last four bytes.
 */
enum { SOURCE_PORT, DESTINATION_PORT, SOURCE_ADDRESS, DESTINATION_ADDRESS, FIELDS };

const volatile __u32 first[FIELDS] = {};
const volatile __u32 count[FIELDS] = { 1, 1, 1, 1 };
const volatile __u32 offset[FIELDS] = {};
const volatile _Bool varies = 0;

/* Of IPv4's and the transport's checksum: where it is (0: none), the sum of all that stays. */
const volatile __u32 ip_checksum_offset = 0;
const volatile __u32 ip_sum = 0;
const volatile __u32 checksum_offset = 0;
const volatile __u32 sum = 0;
const volatile _Bool checksum_never_zero = 0;

/* Captured frames: how many, and the most bytes that one has. */
const volatile __u32 captured_frames = 0;
const volatile __u32 captured_bytes = 0;

__u64 generated;
__u64 refused;
__u32 burst;
__u32 at[FIELDS];
__u32 next_captured;

struct captured {
	__u32 bytes;
	char data[MAX_CAPTURED_BYTES];
};

/* Made with as many entries, of as many bytes, as the capture takes. */
struct {
	int (*type)[BPF_MAP_TYPE_ARRAY];
	int (*key_size)[4];
	int (*value_size)[4 + MAX_CAPTURED_BYTES];
	int (*max_entries)[1];
} capture SEC(".maps");

static __always_inline __u16 folded(__u64 total)
{
	total = (total & 0xffff) + (total >> 16);
	total = (total & 0xffff) + (total >> 16);
	total = (total & 0xffff) + (total >> 16);
	return ~total;
}

/* A one's complement sum is the same in either byte order, as long as it is one for all. */
static __always_inline __u64 halves(__u32 value)
{
	return (__u64)(value & 0xffff) + (value >> 16);
}

static __always_inline void set_port(char *start, int field, __u64 *total)
{
	__u16 value;

	if (count[field] <= 1)
		return;
	value = first[field] + at[field];
	value = SWAP16(value);
	*(__u16 *)(start + offset[field]) = value;
	*total += value;
}

static __always_inline void set_address(char *start, int field, __u64 *ip_total, __u64 *total)
{
	__u32 value;

	if (count[field] <= 1)
		return;
	value = SWAP32(first[field] + at[field]);
	*(__u32 *)(start + offset[field]) = value;
	*ip_total += halves(value);
	*total += halves(value);
}

static __always_inline void advance(void)
{
#pragma clang loop unroll(full)
	for (int field = 0; field < FIELDS; field++) {
		if (count[field] <= 1)
			continue;
		if (++at[field] < count[field])
			return;
		at[field] = 0;
	}
}

/* The fields of the next packet, in a frame of at least `header_bytes`. */
static __always_inline void vary(char *start)
{
	__u64 ip_total = ip_sum;
	__u64 total = sum;
	__u16 checksum;

	set_port(start, SOURCE_PORT, &total);
	set_port(start, DESTINATION_PORT, &total);
	set_address(start, SOURCE_ADDRESS, &ip_total, &total);
	set_address(start, DESTINATION_ADDRESS, &ip_total, &total);
	if (ip_checksum_offset)
		*(__u16 *)(start + ip_checksum_offset) = folded(ip_total);
	if (checksum_offset) {
		checksum = folded(total);
		/* 0 would mean that UDP has none (RFC 768). */
		if (checksum_never_zero && !checksum)
			checksum = 0xffff;
		*(__u16 *)(start + checksum_offset) = checksum;
	}
	advance();
}

/*
 * A page comes back as the last receiver left it, and is not restored: whoever swapped addresses
 * or rewrote a port would meet its own work.
 */
static __always_inline void restore(char *start)
{
#pragma clang loop unroll(full)
	for (int word = 0; word < MAX_HEADER_BYTES / 8; word++) {
		if (8 * (word + 1) <= header_bytes)
			*(__u64 *)(start + 8 * word) = header[word];
	}
	if (header_bytes & 7)
		*(__u64 *)(start + header_bytes - 8) = header_tail;
}

SEC("xdp")
int frames(struct xdp_md *ctx)
{
	char *start = frame_data(ctx);

	if (start + header_bytes > (char *)frame_end(ctx))
		return XDP_ABORTED;
	restore(start);
	if (varies)
		vary(start);
	generated++;
	return bpf_redirect(out_ifindex, 0);
}

static __always_inline struct captured *next_frame(void)
{
	struct captured *frame = bpf_map_lookup_elem(&capture, &next_captured);

	next_captured++;
	if (next_captured >= captured_frames)
		next_captured = 0;
	if (!frame || frame->bytes < ETHERNET_BYTES || frame->bytes > captured_bytes)
		return (void *)0;
	return frame;
}

SEC("xdp.frags")
int frames_of_capture(struct xdp_md *ctx)
{
	long present = (long)frame_end(ctx) - (long)frame_data(ctx);
	struct captured *frame = next_frame();
	__u32 bytes;

	if (!frame)
		return XDP_ABORTED;
	bytes = frame->bytes;
	if (bytes < ETHERNET_BYTES || bytes > captured_bytes)
		return XDP_ABORTED;
	if (bytes != present && bpf_xdp_adjust_tail(ctx, bytes - present))
		return XDP_ABORTED;
	if (bpf_xdp_store_bytes(ctx, 0, frame->data, bytes))
		return XDP_ABORTED;
	generated++;
	return bpf_redirect(out_ifindex, 0);
}

SEC("tc")
int skbs(struct __sk_buff *skb)
{
	for (int clone = 0; clone < MAX_BURST && clone < burst; clone++) {
		if (varies) {
			char *start = (char *)(long)skb->data;

			if (start + header_bytes > (char *)(long)skb->data_end)
				return 1;
			vary(start);
		}
		generated++;
		if (bpf_clone_redirect(skb, out_ifindex, 0))
			refused++;
	}
	return 0;
}

SEC("tc")
int skbs_of_capture(struct __sk_buff *skb)
{
	for (int clone = 0; clone < MAX_BURST && clone < burst; clone++) {
		struct captured *frame = next_frame();
		__u32 bytes;

		if (!frame)
			return 1;
		bytes = frame->bytes;
		if (bytes < ETHERNET_BYTES || bytes > captured_bytes)
			return 1;
		if (bytes != skb->len && bpf_skb_change_tail(skb, bytes, 0))
			return 1;
		if (bpf_skb_store_bytes(skb, 0, frame->data, bytes, 0))
			return 1;
		generated++;
		if (bpf_clone_redirect(skb, out_ifindex, 0))
			refused++;
	}
	return 0;
}
