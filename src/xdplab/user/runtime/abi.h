/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What translated programs, the runtime's helpers and Python agree on. Python has the same
 * layouts in abi.py; a test compares sizes and offsets.
 *
 * A program is `u64 program(struct user_frame *frame)`. It sees the frame as struct xdp_md: the
 * translation turns loads of xdp_md's fields into loads of these, and data, data_end and data_meta
 * into 64-bit pointers. A helper is `u64 user_helper_NAME(struct user_frame *, u64 r1, ..., u64
 * r5)` with BPF's registers, whatever the helper's number of arguments.
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
#define USER_XDP_FRAME_BYTES 40 /* sizeof(struct xdp_frame): kept free where the headroom starts */
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

/* One for each program that is loaded: what outlives a packet, and what a packet leaves behind. */
struct user_state {
	/* set before a run, read by helpers */
	u64 time_ns;          /* what ktime_get_ns answers where `fixed_time` is set */
	u32 fixed_time;
	u32 cpu;
	u32 random[4];        /* xoshiro128++ */
	u64 budget;           /* instructions left (checked and counted modes) */
	/* variants of the data path */
	u32 clear_head;       /* enum user_clear_head */
	u32 trait_move;       /* enum user_move: how adjust_head moves metadata */
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
	/* what a counted run leaves */
	u64 instructions;     /* executed, counted mode */
	u64 *counts;          /* per basic block, counted mode */
	struct user_host *host; /* never NULL where a helper may be called */
};

/* How adjust_head clears the bytes that a negative offset exposes (none: as Linux does). */
enum user_clear_head {
	USER_CLEAR_NONE,
	USER_CLEAR_MEMSET,    /* a call of memset */
	USER_CLEAR_REP_STOSB, /* inline `rep stosb` on x86, memset elsewhere */
	USER_CLEAR_WORDS,     /* a loop of 8-byte stores, then the rest */
	USER_CLEAR_CONSTANT,  /* plain stores for common sizes, the loop for others */
};

enum user_move {
	USER_MOVE_MEMMOVE,
	USER_MOVE_WORDS,      /* a loop over 8-byte words, inline */
};

enum user_redirect {
	USER_REDIRECT_NONE,
	USER_REDIRECT_IFINDEX,
	USER_REDIRECT_MAP,
};

/* One route for bpf_fib_lookup: the longest prefix wins, the first of equals. */
struct user_route {
	u8 family;            /* 2 AF_INET, 10 AF_INET6 */
	u8 prefix_bits;
	u16 mtu;              /* 0: no limit */
	u32 ifindex;
	u8 address[16];       /* network byte order, as much as the family has */
	u8 gateway[16];       /* all zero: none */
	u8 dmac[6];
	u8 smac[6];
	u32 result;           /* BPF_FIB_LKUP_RET_*, 0 success */
	u32 metric;
};

/* What programs share with their host beyond frames and maps. */
struct user_host {
	s32 clock_monotonic;  /* this system's clock ids for clock_gettime */
	s32 clock_boottime;
	s32 clock_coarse;
	s32 clock_tai;
	u32 nr_cpus;
	u32 numa_node;
	u32 route_count;
	u32 mtu;              /* of every interface, for bpf_check_mtu */
	const struct user_route *routes;
	u8 *trace;            /* bpf_trace_printk's text, one message a line */
	u64 trace_bytes;      /* room */
	u64 trace_used;
	u64 trace_lost;       /* messages that found no room */
};

/*
 * A map. `type` is enum bpf_map_type. Values lie at 8-byte aligned addresses, and an address stays
 * an entry's while the entry lives. Every address of a value byte is in
 * [values, values + values_bytes), whatever the type.
 *
 * Arrays: entry i has its value at values + i * value_stride, for CPU c at c * cpu_stride further
 * (0 unless per-CPU). Prog arrays: the native program's address, u64 at values + i * 8, 0 where
 * there is none. Maps of maps: looking up gives the inner struct user_map *, never a value.
 */
struct user_map {
	u32 type;
	u32 key_bytes;
	u32 value_bytes;
	u32 max_entries;
	u32 flags;
	u32 id;
	u32 nr_cpus;          /* copies of each value that a per-CPU map keeps */
	u32 padding;
	u64 extra;            /* map_extra */
	u8 *values;
	u64 value_stride;
	u64 values_bytes;
	u64 cpu_stride;
	void *inside;         /* the type's own structure */
};

/* A buffer that packets arrive in, and what a packet looks like at its start. */
struct user_buffer {
	u8 *hard_start;
	u8 *hard_end;
	u8 *data;
	u8 *data_end;
	u8 *data_meta;
	const u8 *original;   /* what is copied to data_meta before each packet; NULL: nothing is */
	u64 original_bytes;
	const struct user_frag *frags;
	u32 frag_count;
	u32 padding;
};

#define USER_ACTIONS 8

/*
 * One timed call: `packets` packets through `program`, taking the buffers in turn. The frame is
 * set up per packet as a driver does it: pointers, frags and, where asked for, bytes. It ends
 * early at a fault.
 */
struct user_job {
	u64 (*program)(struct user_frame *frame);
	struct user_frame *frame; /* its ifindexes, rx_queue_index and state are the caller's */
	const struct user_buffer *buffers;
	u32 buffer_count;
	s32 clock;            /* clock id of CLOCK_MONOTONIC */
	u64 packets;
	u64 stack_shift;      /* bytes by which the program's stack lies lower */
	u64 done;             /* out: packets that ran to their end */
	u64 actions[USER_ACTIONS]; /* out: how often each retval came; others count in the last */
};

/* What the model of veth does with a head whose frame goes on. */
enum user_skb_reuse {
	USER_SKB_REUSE_OFF,        /* back to the slab */
	USER_SKB_REUSE_NAPI_CACHE, /* back to the NAPI cache that it came from */
};

/* One timed call of the model of veth's receive path (veth_model.c). */
struct user_veth_job {
	u64 (*program)(struct user_frame *frame); /* of every interface, told apart by ifindex */
	struct user_frame *frame; /* its state is the caller's */
	u8 *memory;           /* page-aligned, user_veth_bytes() of them */
	u64 memory_bytes;
	const u8 *packet;     /* what the generator sends */
	u32 packet_bytes;
	u32 skb_reuse;        /* enum user_skb_reuse */
	u32 ring_entries;     /* of each interface's ring, 2 to 256 */
	u32 budget;           /* packets a poll, 1 to 256 */
	s32 clock;            /* clock id of CLOCK_MONOTONIC */
	u32 padding;
	u64 warmup;           /* packets before the clock starts */
	u64 packets;
	/* out: packets */
	u64 generated;
	u64 polled;           /* by the first interface */
	u64 forwarded;        /* that a second one's ring took */
	u64 polled_far;       /* by the second ones */
	u64 dropped;
	u64 passed;
	u64 lost;             /* no room in the second ring, or no memory */
	u64 refused;          /* sent where there is no interface */
	u64 seen;             /* sum of what the stack behind PASS read of the headers */
	/* out: heads, found by walking every free list, and buffers */
	u64 heads_made;
	u64 heads_free;
	u64 heads_cached;
	u64 pages_out;        /* not back in the driver's pool */
	u64 buffers_out;      /* not back with the generator */
};

#endif
