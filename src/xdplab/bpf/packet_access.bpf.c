/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How a program reads its packet: the same work by every way that the kernel offers. Parsing
 * means: Ethernet, up to two VLAN tags, then the protocol field of IPv4 or IPv6. Programs that
 * read drop the packet as `xdp-bench drop` does, those that swap addresses send it back;
 * whatever cannot be parsed is XDP_ABORTED, so that a wrong frame is never measured.
 */
#include "packet.bpf.h"

char _license[] SEC("license") = "GPL";

/* Ethernet and an IPv4 header; holds the protocol field behind two VLAN tags, too. */
#define HEADERS_BYTES 34

/* The same out of HEADERS_BYTES that were copied: every place read lies inside them. */
static __always_inline int parse_copy(const char *headers)
{
	const char *at = headers + ETHERNET_BYTES;
	__u16 type = READ16(headers + ETHERTYPE_OFFSET);

#pragma clang loop unroll(full)
	for (int tag = 0; tag < VLAN_TAGS; tag++) {
		if (!IS_VLAN(type))
			break;
		type = READ16(at + 2);
		at += VLAN_BYTES;
	}
	if (type == TYPE_IPV4)
		return READ8(at + IPV4_PROTOCOL);
	if (type == TYPE_IPV6)
		return READ8(at + IPV6_NEXT_HEADER);
	return -1;
}

static __always_inline int verdict(int protocol)
{
	keep(protocol);
	return protocol < 0 ? XDP_ABORTED : XDP_DROP;
}

SEC("xdp.frags")
int no_touch(struct xdp_md *ctx)
{
	return XDP_DROP;
}

SEC("xdp.frags")
int read_data(struct xdp_md *ctx)
{
	const char *start = frame_data(ctx);
	__u16 type;

	if (start + ETHERNET_BYTES > (char *)frame_end(ctx))
		return XDP_ABORTED;
	type = READ16(start + ETHERTYPE_OFFSET);
	keep(type);
	return XDP_DROP;
}

SEC("xdp.frags")
int parse_ip_dpa(struct xdp_md *ctx)
{
	return verdict(parse(frame_data(ctx), frame_end(ctx), TOO_SHORT));
}

SEC("xdp.frags")
int parse_ip_load_bytes_1(struct xdp_md *ctx)
{
	char headers[HEADERS_BYTES] __attribute__((aligned(8)));

	if (bpf_xdp_load_bytes(ctx, 0, headers, sizeof(headers)))
		return XDP_ABORTED;
	return verdict(parse_copy(headers));
}

SEC("xdp.frags")
int parse_ip_load_bytes_2(struct xdp_md *ctx)
{
	return verdict(parse_by_calls(ctx, TOO_SHORT));
}

SEC("xdp.frags")
int parse_ip_dynptr_slice_1(struct xdp_md *ctx)
{
	char buffer[HEADERS_BYTES] __attribute__((aligned(8)));
	struct bpf_dynptr packet;
	const char *headers;

	if (bpf_dynptr_from_xdp(ctx, 0, &packet))
		return XDP_ABORTED;
	headers = bpf_dynptr_slice(&packet, 0, buffer, sizeof(buffer));
	if (!headers)
		return XDP_ABORTED;
	return verdict(parse_copy(headers));
}

SEC("xdp.frags")
int parse_ip_dynptr_slice_2(struct xdp_md *ctx)
{
	char buffer[IPV6_BYTES] __attribute__((aligned(8)));
	__u32 offset = ETHERNET_BYTES;
	struct bpf_dynptr packet;
	const char *header;
	__u16 type;

	if (bpf_dynptr_from_xdp(ctx, 0, &packet))
		return XDP_ABORTED;
	header = bpf_dynptr_slice(&packet, 0, buffer, ETHERNET_BYTES);
	if (!header)
		return XDP_ABORTED;
	type = READ16(header + ETHERTYPE_OFFSET);
#pragma clang loop unroll(full)
	for (int tag = 0; tag < VLAN_TAGS; tag++) {
		if (!IS_VLAN(type))
			break;
		header = bpf_dynptr_slice(&packet, offset, buffer, VLAN_BYTES);
		if (!header)
			return XDP_ABORTED;
		type = READ16(header + 2);
		offset += VLAN_BYTES;
	}
	if (type == TYPE_IPV4) {
		header = bpf_dynptr_slice(&packet, offset, buffer, IPV4_BYTES);
		if (!header)
			return XDP_ABORTED;
		return verdict(READ8(header + IPV4_PROTOCOL));
	}
	if (type == TYPE_IPV6) {
		header = bpf_dynptr_slice(&packet, offset, buffer, IPV6_BYTES);
		if (!header)
			return XDP_ABORTED;
		return verdict(READ8(header + IPV6_NEXT_HEADER));
	}
	return XDP_ABORTED;
}

SEC("xdp.frags")
int parse_ip_dynptr_read(struct xdp_md *ctx)
{
	char headers[HEADERS_BYTES] __attribute__((aligned(8)));
	struct bpf_dynptr packet;

	if (bpf_dynptr_from_xdp(ctx, 0, &packet))
		return XDP_ABORTED;
	if (bpf_dynptr_read(headers, sizeof(headers), &packet, 0, 0))
		return XDP_ABORTED;
	return verdict(parse_copy(headers));
}

/* Direct access behind a call that first moves the headers into the linear part. */
SEC("xdp.frags")
int parse_ip_pull_data(struct xdp_md *ctx)
{
	if (bpf_xdp_pull_data(ctx, HEADERS_BYTES))
		return XDP_ABORTED;
	return verdict(parse(frame_data(ctx), frame_end(ctx), TOO_SHORT));
}

SEC("xdp.frags")
int swap_macs_dpa(struct xdp_md *ctx)
{
	char *start = frame_data(ctx);

	if (start + ETHERNET_BYTES > (char *)frame_end(ctx))
		return XDP_ABORTED;
	swap_addresses(start);
	return XDP_TX;
}

SEC("xdp.frags")
int swap_macs_store_bytes(struct xdp_md *ctx)
{
	char addresses[ETHERTYPE_OFFSET] __attribute__((aligned(8)));

	if (bpf_xdp_load_bytes(ctx, 0, addresses, sizeof(addresses)))
		return XDP_ABORTED;
	swap_addresses(addresses);
	if (bpf_xdp_store_bytes(ctx, 0, addresses, sizeof(addresses)))
		return XDP_ABORTED;
	return XDP_TX;
}
