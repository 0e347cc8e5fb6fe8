/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What functions of the native engine have in common. Each .c file of this folder becomes LLVM IR
 * when the package is built, without vector registers and without the compiler's knowledge of libc,
 * as a kernel is compiled; which mitigations it has is decided when it is loaded (code.py).
 *
 * A function that is measured is defined by NATIVE: it does its operation `turns` times on `memory`,
 * the bytes of its subject's frame at the start of a page, and answers DONE. Variables that user
 * space sets are global, volatile and u64.
 */
#ifndef XDPLAB_NATIVE_H
#define XDPLAB_NATIVE_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;

/* What a BPF program would return: XDP_PASS, XDP_ABORTED. */
#define DONE 2
#define FAILED 0

#define NATIVE(name)                     \
	u32 name(u64 turns, u8 *memory); \
	u32 name(u64 turns, u8 *memory)

#define REPEAT_OPERATION _Pragma("clang loop unroll(disable)") for (u64 turn = 0; turn < turns; turn++)

#define inline_always static inline __attribute__((always_inline))
#define never_inline __attribute__((noinline))

/* The compiler must take `value` as used, and memory as changed. */
#define keep(value) __asm__ volatile("" : : "r"(value) : "memory")
#define keep_memory() __asm__ volatile("" : : : "memory")

struct timespec {
	long seconds;
	long nanoseconds;
};

extern int clock_gettime(s32 clock, struct timespec *time);

inline_always u64 read_clock(s32 clock)
{
	struct timespec time = { 0, 0 };

	clock_gettime(clock, &time);
	return (u64)time.seconds * 1000000000u + (u64)time.nanoseconds;
}

u64 native_time(u32 (*function)(u64, u8 *), u64 turns, u8 *memory, s32 clock);

/* Elapsed nanoseconds of one call of `function`; all ones where it did not do its work. */
u64 native_time(u32 (*function)(u64, u8 *), u64 turns, u8 *memory, s32 clock)
{
	u64 start = read_clock(clock);
	u32 answer = function(turns, memory);
	u64 end = read_clock(clock);

	return answer == DONE ? end - start : ~0ull;
}

#endif
