/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the price list's programs share: one operation a turn of a plain loop. A program returns
 * XDP_PASS only when its operation did what it should in every turn.
 */
#ifndef XDPLAB_CALLS_BPF_H
#define XDPLAB_CALLS_BPF_H

/*
 * Half of what other programs have: the verifier walks each turn, and a list as long as this one
 * is measured better by twice the loads than by twice the turns.
 */
#define OPERATIONS 500

#include "xdplab.bpf.h"

#define NULL ((void *)0)

static void *(*const bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*const bpf_map_update_elem)(void *map, const void *key, const void *value,
					 __u64 flags) = (void *)2;
static long (*const bpf_map_delete_elem)(void *map, const void *key) = (void *)3;

/* `operation` is an expression that is not zero where it failed. */
#define EACH_TURN(operation)                                                                   \
	REPEAT_OPERATION                                                                       \
	{                                                                                      \
		if (operation)                                                                 \
			return XDP_DROP;                                                       \
	}

#endif
