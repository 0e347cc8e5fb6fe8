/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Redirects: what a program named is left in the state; nobody sends anything. */

enum { XDP_ABORTED, XDP_DROP, XDP_PASS, XDP_TX, XDP_REDIRECT };
enum { BPF_F_BROADCAST = 1 << 3, BPF_F_EXCLUDE_INGRESS = 1 << 4 };

HELPER(redirect)
{
	struct user_state *state = frame->state;

	if (unlikely(r2))
		return XDP_ABORTED;
	state->redirect_kind = USER_REDIRECT_IFINDEX;
	state->redirect_ifindex = (u32)r1;
	state->redirect_flags = 0;
	state->redirect_map = NULL;
	state->redirect_key = 0;
	return XDP_REDIRECT;
}

inline_always u64 redirect_to(struct user_frame *frame, struct user_map *map, u64 key, u64 flags,
			      u32 type)
{
	struct user_state *state = frame->state;
	int is_devmap = type == MAP_DEVMAP || type == MAP_DEVMAP_HASH;
	u64 allowed = 3 | (is_devmap ? BPF_F_BROADCAST | BPF_F_EXCLUDE_INGRESS : 0);
	u32 index = (u32)key;
	u8 *target;

	if (unlikely(flags & ~allowed))
		return XDP_ABORTED;
	/* The kernel's key has 64 bits for a devmap_hash as well, and its lookup takes 32. */
	if (type == MAP_DEVMAP_HASH)
		target = hash_lookup(map, &index, 0);
	else
		target = slots_lookup(map, &index);
	if (unlikely(!target) && !(flags & BPF_F_BROADCAST)) {
		state->redirect_kind = USER_REDIRECT_NONE;
		return flags & 3;
	}
	state->redirect_kind = USER_REDIRECT_MAP;
	state->redirect_map = map;
	state->redirect_key = key;
	state->redirect_flags = flags & BPF_F_BROADCAST ? flags : 0;
	state->redirect_ifindex = is_devmap && target ? read_u32(target) : 0;
	return XDP_REDIRECT;
}

HELPER(redirect_map)
{
	return redirect_to(frame, MAP(r1), r2, r3, MAP(r1)->type);
}

HELPER(redirect_map_devmap)
{
	return redirect_to(frame, MAP(r1), r2, r3, MAP_DEVMAP);
}

HELPER(redirect_map_devmap_hash)
{
	return redirect_to(frame, MAP(r1), r2, r3, MAP_DEVMAP_HASH);
}

HELPER(redirect_map_slots)
{
	return redirect_to(frame, MAP(r1), r2, r3, MAP_XSKMAP);
}

/* struct bpf_fib_lookup, as far as it is read or written here. */
enum {
	FIB_FAMILY = 0,
	FIB_LENGTH = 6,       /* in: tot_len; out: mtu_result */
	FIB_IFINDEX = 8,
	FIB_METRIC = 12,
	FIB_DESTINATION = 32,
	FIB_VLAN = 48,
	FIB_SMAC = 52,
	FIB_DMAC = 58,
	FIB_BYTES = 64,
};

enum { FIB_NOT_FORWARDED = 4, FIB_FRAG_NEEDED = 8 };
enum { FIB_FLAGS = 0x3f, AF_INET = 2, AF_INET6 = 10 };

static u32 route_matches(const struct user_route *route, u8 family, const u8 *address)
{
	u32 whole = route->prefix_bits / 8, rest = route->prefix_bits % 8;

	if (route->family != family || !same_bytes(route->address, address, whole))
		return 0;
	return !rest || !((route->address[whole] ^ address[whole]) >> (8 - rest));
}

HELPER(fib_lookup)
{
	const struct user_host *host = frame->state->host;
	const struct user_route *best = NULL;
	u8 *request = BYTES(r2), family;
	u32 address_bytes;
	u16 length;

	if (unlikely((s32)r3 < FIB_BYTES || r4 & ~(u64)FIB_FLAGS))
		return -EINVAL;
	family = request[FIB_FAMILY];
	if (family != AF_INET && family != AF_INET6)
		return -EAFNOSUPPORT;
	for (u32 i = 0; i < host->route_count; i++) {
		const struct user_route *route = &host->routes[i];

		if (best && route->prefix_bits <= best->prefix_bits)
			continue;
		if (route_matches(route, family, request + FIB_DESTINATION))
			best = route;
	}
	if (!best)
		return FIB_NOT_FORWARDED;
	if (best->result)
		return best->result;
	address_bytes = family == AF_INET ? 4 : 16;
	copy_bytes(&length, request + FIB_LENGTH, 2);
	if (length && best->mtu) {
		copy_bytes(request + FIB_LENGTH, &best->mtu, 2);
		if (length > best->mtu)
			return FIB_FRAG_NEEDED;
	}
	for (u32 i = 0; i < address_bytes; i++) {
		if (best->gateway[i]) {
			copy_bytes(request + FIB_DESTINATION, best->gateway, address_bytes);
			break;
		}
	}
	write_u32(request + FIB_IFINDEX, best->ifindex);
	write_u32(request + FIB_METRIC, best->metric);
	write_u32(request + FIB_VLAN, 0);
	copy_bytes(request + FIB_SMAC, best->smac, 6);
	copy_bytes(request + FIB_DMAC, best->dmac, 6);
	return 0;
}

HELPER(check_mtu)
{
	s32 bytes = (s32)(frame->data_end - frame->data);
	s32 mtu = (s32)frame->state->host->mtu;
	u8 *length = BYTES(r3);

	if (unlikely(r5))
		return -EINVAL;
	if (read_u32(length))
		bytes = (s32)read_u32(length) + ETHERNET_BYTES;
	bytes += (s32)r4;
	write_u32(length, (u32)mtu);
	return bytes > mtu + ETHERNET_BYTES;
}
