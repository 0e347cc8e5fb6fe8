/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Packets as programs read them: Ethernet, up to two VLAN tags, then the protocol field of IPv4 or
 * IPv6, by direct access and by calls.
 */
#ifndef XDPLAB_PACKET_BPF_H
#define XDPLAB_PACKET_BPF_H

#include "xdplab.bpf.h"

#define ETHERTYPE_OFFSET 12
#define ETHERNET_BYTES 14
#define VLAN_BYTES 4
#define VLAN_TAGS 2
#define IPV4_BYTES 20
#define IPV6_BYTES 40
#define IPV4_PROTOCOL 9
#define IPV6_NEXT_HEADER 6

#define NETWORK_ORDER(value) ((__u16)((((value) & 0xff) << 8) | ((value) >> 8)))
#define TYPE_IPV4 NETWORK_ORDER(0x0800)
#define TYPE_IPV6 NETWORK_ORDER(0x86dd)
#define TYPE_VLAN NETWORK_ORDER(0x8100)
#define TYPE_QINQ NETWORK_ORDER(0x88a8)

#define IS_VLAN(type) ((type) == TYPE_VLAN || (type) == TYPE_QINQ)

/* Reads of two and one bytes that the compiler neither drops nor merges. */
#define READ16(at) (*(const volatile __u16 *)(at))
#define READ8(at) (*(const volatile __u8 *)(at))

#define TOO_SHORT -1

/* The protocol field of the packet at [start, end), TOO_SHORT, or `not_ip` (a constant). */
static __always_inline int parse(const char *start, const char *end, int not_ip)
{
	const char *at = start + ETHERNET_BYTES;
	__u16 type;

	if (at > end)
		return TOO_SHORT;
	type = READ16(start + ETHERTYPE_OFFSET);
#pragma clang loop unroll(full)
	for (int tag = 0; tag < VLAN_TAGS; tag++) {
		if (!IS_VLAN(type))
			break;
		if (at + VLAN_BYTES > end)
			return TOO_SHORT;
		type = READ16(at + 2);
		at += VLAN_BYTES;
	}
	if (type == TYPE_IPV4) {
		if (at + IPV4_BYTES > end)
			return TOO_SHORT;
		return READ8(at + IPV4_PROTOCOL);
	}
	if (type == TYPE_IPV6) {
		if (at + IPV6_BYTES > end)
			return TOO_SHORT;
		return READ8(at + IPV6_NEXT_HEADER);
	}
	return not_ip;
}

/* The same through bpf_xdp_load_bytes, as xdp-bench does: a call a header, one more a tag. */
static __always_inline int parse_by_calls(struct xdp_md *ctx, int not_ip)
{
	char header[IPV6_BYTES] __attribute__((aligned(8)));
	__u32 offset = ETHERNET_BYTES;
	__u16 type;

	if (bpf_xdp_load_bytes(ctx, 0, header, ETHERNET_BYTES))
		return TOO_SHORT;
	type = READ16(header + ETHERTYPE_OFFSET);
#pragma clang loop unroll(full)
	for (int tag = 0; tag < VLAN_TAGS; tag++) {
		if (!IS_VLAN(type))
			break;
		if (bpf_xdp_load_bytes(ctx, offset, header, VLAN_BYTES))
			return TOO_SHORT;
		type = READ16(header + 2);
		offset += VLAN_BYTES;
	}
	if (type == TYPE_IPV4) {
		if (bpf_xdp_load_bytes(ctx, offset, header, IPV4_BYTES))
			return TOO_SHORT;
		return READ8(header + IPV4_PROTOCOL);
	}
	if (type == TYPE_IPV6) {
		if (bpf_xdp_load_bytes(ctx, offset, header, IPV6_BYTES))
			return TOO_SHORT;
		return READ8(header + IPV6_NEXT_HEADER);
	}
	return not_ip;
}

/*
 * The two addresses of six bytes change places, in three words of four, which the stack allows
 * at this alignment, too: the middle word holds an end of one address and a start of the other.
 */
static __always_inline void swap_addresses(char *start)
{
	volatile __u32 *words = (volatile __u32 *)start;
	__u32 first = words[0];
	__u32 middle = words[1];
	__u32 last = words[2];

	words[0] = middle >> 16 | last << 16;
	words[1] = last >> 16 | first << 16;
	words[2] = first >> 16 | middle << 16;
}

#endif
