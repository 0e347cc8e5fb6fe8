/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What translated programs, the runtime's helpers and Python agree on. Python has the same
 * layouts in abi.py; a test compares sizes and offsets.
 *
 * A program is `u64 program(struct user_frame *frame)`. It sees the frame as struct xdp_md: the
 * translation turns loads of xdp_md's fields into loads of these, and data, data_end and data_meta
 * into 64-bit pointers. A helper is `u64 user_helper_NAME(struct user_frame *, u64 r1, ..., u64 r5)`
 * with BPF's registers, whatever the helper's number of arguments.
 */
#ifndef XDPLAB_USER_ABI_H
#define XDPLAB_USER_ABI_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char s8;
typedef short s16;
typedef int s32;
typedef long long s64;

#define USER_HEADROOM_BYTES 256
#define USER_XDP_FRAME_BYTES 40 /* sizeof(struct xdp_frame): kept free at the start of the headroom */
#define USER_TAILROOM_BYTES 320 /* struct skb_shared_info, aligned: no program may grow into it */
#define USER_FRAGS 17           /* MAX_SKB_FRAGS */

struct user_frag {
	u8 *data;
	u32 bytes;
	u32 room_bytes; /* what the frag's page holds from `data` on */
};

struct user_frame {
	u8 *data;
	u8 *data_end;
	u8 *data_meta;
	u8 *hard_start;
	u8 *hard_end; /* end of the buffer, tailroom included */
	u32 ingress_ifindex;
	u32 rx_queue_index;
	u32 egress_ifindex;
	u32 frag_count;
	struct user_frag frags[USER_FRAGS];
	struct user_state *state;
};

/* What kind of address a fault was about; 0 is no fault. */
enum user_fault {
	USER_FAULT_NONE,
	USER_FAULT_PACKET,
	USER_FAULT_STACK,
	USER_FAULT_MAP_VALUE,
	USER_FAULT_DATA,   /* a data section: .data, .bss, .rodata */
	USER_FAULT_CTX,
	USER_FAULT_NULL,
	USER_FAULT_OTHER,
	USER_FAULT_BUDGET, /* the instruction budget is spent */
	USER_FAULT_HELPER, /* a helper was given what it cannot take; `helper` says which */
	USER_FAULT_DEPTH,  /* too many nested or tail calls */
};

/* One for each program that is loaded: what outlives a packet, and what a packet leaves to be read. */
struct user_state {
	/* set before a run, read by helpers */
	u64 time_ns;          /* what ktime_get_ns answers where `fixed_time` is set */
	u32 fixed_time;
	u32 cpu;
	u32 random[4];        /* xoshiro128++ */
	u64 budget;           /* instructions left (checked and counted modes) */
	/* variants of the data path, see docs: enum values of runtime.c */
	u32 clear_head;
	u32 trait_move;
	/* what a redirect left */
	u32 redirect_kind;    /* 0 none, 1 ifindex, 2 map */
	u32 redirect_ifindex;
	u64 redirect_flags;
	void *redirect_map;
	u64 redirect_key;
	/* what a fault left */
	u32 fault;
	u32 fault_insn;       /* instruction slot in the linked program */
	u64 fault_address;
	u64 fault_bytes;
	u64 fault_low;        /* the bounds that were broken, 0 where unknown */
	u64 fault_high;
	u32 helper;
	u32 tail_calls;       /* of the present packet */
	/* where programs of a prog array live: filled when they are loaded */
	u64 instructions;     /* executed, counted mode */
	u64 *counts;          /* per basic block, counted mode */
	void *host;           /* the runtime's own: fib table, trace buffer */
};

/* A map. `type` is enum bpf_map_type; values lie at 8-byte aligned addresses and never move. */
struct user_map {
	u32 type;
	u32 key_bytes;
	u32 value_bytes;
	u32 max_entries;
	u32 flags;
	u32 id;
	u8 *values;           /* array types: the values, `value_stride` apart */
	u64 value_stride;
	u64 values_bytes;     /* of all values: every valid value address lies in here (hash types too) */
	void *inside;         /* the type's own structure */
};

#endif
