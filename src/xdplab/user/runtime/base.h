/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What every part of the runtime uses: no libc, no global state, kernel error numbers. */
#ifndef XDPLAB_USER_BASE_H
#define XDPLAB_USER_BASE_H

#include "abi.h"

#define NULL ((void *)0)
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define inline_always static inline __attribute__((always_inline))
#define min_of(a, b) ((a) < (b) ? (a) : (b))
#define round_up_8(x) (((u64)(x) + 7) & ~7ULL)

/* LLVM emits calls of these, and the process has them. */
#define copy_bytes(to, from, bytes) __builtin_memcpy(to, from, bytes)
#define move_bytes(to, from, bytes) __builtin_memmove(to, from, bytes)
#define clear_bytes(to, bytes) __builtin_memset(to, 0, bytes)
#define same_bytes(a, b, bytes) (__builtin_memcmp(a, b, bytes) == 0)

/* Keeps LLVM from recognising a loop as memset or memcpy. */
#define keep_loop() __asm__ volatile("" : : : "memory")

/* Linux's numbers on x86 and arm64, whatever the host: programs compare with them. */
enum {
	EPERM = 1,
	ENOENT = 2,
	E2BIG = 7,
	EAGAIN = 11,
	ENOMEM = 12,
	EACCES = 13,
	EFAULT = 14,
	EBUSY = 16,
	EEXIST = 17,
	ENODEV = 19,
	EINVAL = 22,
	ENOSPC = 28,
	ERANGE = 34,
	EOVERFLOW = 75,
	EOPNOTSUPP = 95,
	EAFNOSUPPORT = 97,
	ENOTSUPP = 524,
};

/* enum bpf_map_type */
enum {
	MAP_HASH = 1,
	MAP_ARRAY,
	MAP_PROG_ARRAY,
	MAP_PERF_EVENT_ARRAY,
	MAP_PERCPU_HASH,
	MAP_PERCPU_ARRAY,
	MAP_LRU_HASH = 9,
	MAP_LRU_PERCPU_HASH,
	MAP_LPM_TRIE,
	MAP_ARRAY_OF_MAPS,
	MAP_HASH_OF_MAPS,
	MAP_DEVMAP,
	MAP_CPUMAP = 16,
	MAP_XSKMAP,
	MAP_QUEUE = 22,
	MAP_STACK,
	MAP_DEVMAP_HASH = 25,
	MAP_RINGBUF = 27,
	MAP_BLOOM_FILTER = 30,
};

enum { BPF_ANY, BPF_NOEXIST, BPF_EXIST, BPF_F_LOCK = 4 };
enum {
	BPF_F_NO_PREALLOC = 1 << 0,
	BPF_F_NO_COMMON_LRU = 1 << 1,
	BPF_F_NUMA_NODE = 1 << 2,
	BPF_F_RDONLY = 1 << 3,
	BPF_F_WRONLY = 1 << 4,
	BPF_F_ZERO_SEED = 1 << 6,
	BPF_F_RDONLY_PROG = 1 << 7,
	BPF_F_WRONLY_PROG = 1 << 8,
	BPF_F_MMAPABLE = 1 << 10,
	BPF_F_PRESERVE_ELEMS = 1 << 11,
	BPF_F_INNER_MAP = 1 << 12,
};

/* Limits of the kernel: the largest kmalloc, the least unit of per-CPU memory. */
#define KMALLOC_MAX (1ull << 22)
#define PERCPU_MAX 32768

#define ACCESS_FLAGS (BPF_F_RDONLY | BPF_F_WRONLY | BPF_F_RDONLY_PROG | BPF_F_WRONLY_PROG)

typedef u64 (*callback_fn)(struct user_frame *, u64, u64, u64, u64, u64);

/* Defines a helper; all have the same type, so that a translation need not know any of them. */
#define REGISTERS struct user_frame *frame, u64 r1, u64 r2, u64 r3, u64 r4, u64 r5
#define HELPER(name) \
	u64 user_helper_##name(REGISTERS); \
	u64 user_helper_##name(REGISTERS)

#define U64(pointer) ((u64)(unsigned long)(pointer))
#define BYTES(value) ((u8 *)(unsigned long)(value))
#define MAP(value) ((struct user_map *)(unsigned long)(value))

inline_always u32 read_u32(const void *from)
{
	u32 value;

	copy_bytes(&value, from, 4);
	return value;
}

inline_always u64 read_u64(const void *from)
{
	u64 value;

	copy_bytes(&value, from, 8);
	return value;
}

inline_always void write_u32(void *to, u32 value)
{
	copy_bytes(to, &value, 4);
}

inline_always void write_u64(void *to, u64 value)
{
	copy_bytes(to, &value, 8);
}

inline_always u32 power_of_two_from(u32 least)
{
	return least <= 1 ? 1 : 1u << (32 - __builtin_clz(least - 1));
}

#endif
