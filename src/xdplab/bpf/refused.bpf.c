/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Frames that an interface did not take from XDP_REDIRECT, of which no call returns an error: the
 * kernel's tracepoints, of which both are quick where nothing is refused.
 */
#include "kernel_types.bpf.h"

char _license[] SEC("license") = "GPL";

const volatile __u64 cookie = 0;
const volatile __u32 out_ifindex = 0;

__u64 refused;
__s64 last_error;

/* xdp_devmap_xmit(from_dev, to_dev, sent, drops, err), once a bulk of up to 16 */
SEC("raw_tp/xdp_devmap_xmit")
int not_sent(__u64 *arguments)
{
	struct net_device *device = (void *)arguments[1];
	int dropped = (int)arguments[3];
	__u32 ifindex = 0;

	if (dropped <= 0)
		return 0;
	read_field(ifindex, device, ifindex);
	if (ifindex == out_ifindex && namespace_cookie(device) == cookie) {
		__sync_fetch_and_add(&refused, dropped);
		last_error = (int)arguments[4];
	}
	return 0;
}

/* xdp_redirect_err(dev, prog, target, err, map_type, map_id, index); dev is the test run's, lo. */
SEC("raw_tp/xdp_redirect_err")
int not_redirected(__u64 *arguments)
{
	struct net_device *device = (void *)arguments[0];

	if ((__u32)arguments[6] == out_ifindex && namespace_cookie(device) == cookie) {
		__sync_fetch_and_add(&refused, 1);
		last_error = (int)arguments[3];
	}
	return 0;
}
