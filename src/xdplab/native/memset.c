/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Clearing memory, one way a family. What is known when the code is compiled is in a function's name,
 * what is not comes from `size`. Stores are volatile: the compiler must neither drop them nor make
 * of them what they are compared with; tests/engines/test_native_memset.py looks at the machine code.
 */
#include "native.h"

volatile u64 size = 32;
/* Address of the C library's memset, as user space found it. */
volatile u64 libc_memset;

/* Sizes that the compiler must know; suites/memset.py has the same. */
#define SMALL_SIZES(DO) DO(32) DO(64) DO(128)
#define LARGE_SIZES(DO)                                                                         \
	DO(192) DO(199) DO(200) DO(201) DO(204) DO(208) DO(256) DO(512) DO(768) DO(1024) DO(2048) \
	DO(4096) DO(8192)

inline_always void clear_u64(u8 *at)
{
	*(volatile u64 *)at = 0;
}

/* What is left behind whole words, at most 7 bytes. */
inline_always void clear_tail(u8 *at, u64 bytes)
{
	if (bytes & 4) {
		*(volatile u32 *)at = 0;
		at += 4;
	}
	if (bytes & 2) {
		*(volatile u16 *)at = 0;
		at += 2;
	}
	if (bytes & 1)
		*(volatile u8 *)at = 0;
}

/* Plain stores of constant places: what a compiler makes of a small constant size. */
inline_always void clear_by_stores(u8 *at, const u64 bytes)
{
	_Pragma("clang loop unroll(full)") for (u64 word = 0; word < bytes / 8; word++)
		clear_u64(at + 8 * word);
	clear_tail(at + bytes / 8 * 8, bytes);
}

#if defined(__x86_64__)
inline_always u8 *clear_by_stosq(u8 *at, u64 words)
{
	__asm__ volatile("rep stosq" : "+D"(at), "+c"(words) : "a"(0ull) : "memory");
	return at;
}

inline_always void clear_by_stosb(u8 *at, u64 bytes)
{
	__asm__ volatile("rep stosb" : "+D"(at), "+c"(bytes) : "a"(0) : "memory");
}
#endif

/* The loop that all the others are net of. */
NATIVE(loop)
{
	REPEAT_OPERATION
		keep(memory);
	return DONE;
}

/*
 * Constant sizes. This compiler stores up to 128 bytes in place; above that it would call memset,
 * and others, of which published figures are, have the processor repeat a store.
 */
#define BY_STORES(prefix, bytes)                        \
	NATIVE(prefix##_##bytes)                        \
	{                                               \
		REPEAT_OPERATION                        \
		{                                       \
			clear_by_stores(memory, bytes); \
			keep(memory);                   \
		}                                       \
		return DONE;                            \
	}
#define CONSTANT_SMALL(bytes) BY_STORES(constant, bytes)
#define STORES_LARGE(bytes) BY_STORES(stores, bytes)
SMALL_SIZES(CONSTANT_SMALL)
LARGE_SIZES(STORES_LARGE)

#if defined(__x86_64__)
#define CONSTANT_LARGE(bytes)                                                    \
	NATIVE(constant_##bytes)                                                 \
	{                                                                        \
		REPEAT_OPERATION                                                 \
			clear_tail(clear_by_stosq(memory, bytes / 8), bytes);    \
		return DONE;                                                     \
	}
LARGE_SIZES(CONSTANT_LARGE)
#endif

/* Blocks of four words, whose number comes at run time, and a switch over the words that remain. */
inline_always void clear_by_blocks(u8 *at, u64 bytes)
{
	u64 words = bytes / 8;

	_Pragma("clang loop unroll(disable)") for (; words >= 4; words -= 4, at += 32)
	{
		clear_u64(at);
		clear_u64(at + 8);
		clear_u64(at + 16);
		clear_u64(at + 24);
	}
	switch (words) {
	case 3:
		clear_u64(at + 16);
		__attribute__((fallthrough));
	case 2:
		clear_u64(at + 8);
		__attribute__((fallthrough));
	case 1:
		clear_u64(at);
	}
}

NATIVE(blocks)
{
	REPEAT_OPERATION
		clear_by_blocks(memory, size);
	return DONE;
}

/* The scheme of the kernel's word-wise routine: eight words a turn, then words, then bytes. */
never_inline static void clear_by_words(u8 *at, u64 bytes)
{
	_Pragma("clang loop unroll(disable)") for (; bytes >= 64; bytes -= 64, at += 64)
	{
		clear_u64(at);
		clear_u64(at + 8);
		clear_u64(at + 16);
		clear_u64(at + 24);
		clear_u64(at + 32);
		clear_u64(at + 40);
		clear_u64(at + 48);
		clear_u64(at + 56);
	}
	_Pragma("clang loop unroll(disable)") for (; bytes >= 8; bytes -= 8, at += 8)
		clear_u64(at);
	_Pragma("clang loop unroll(disable)") for (; bytes; bytes--, at++)
		*(volatile u8 *)at = 0;
}

NATIVE(words)
{
	REPEAT_OPERATION
		clear_by_words(memory, size);
	return DONE;
}

/*
 * A size known at run time only, in a routine that is called: by fast string operations, words and
 * then bytes, as the kernel's memset where a processor is good at them.
 */
#if defined(__x86_64__)
never_inline static void clear_at_run_time(u8 *at, u64 bytes)
{
	at = clear_by_stosq(at, bytes / 8);
	clear_by_stosb(at, bytes % 8);
}

NATIVE(run_time)
{
	REPEAT_OPERATION
		clear_at_run_time(memory, size);
	return DONE;
}

NATIVE(rep_stosb)
{
	REPEAT_OPERATION
		clear_by_stosb(memory, size);
	return DONE;
}

/* In assembly, since vector registers are otherwise kept out of this file. */
inline_always void clear_by_avx2(u8 *at, u64 bytes)
{
	__asm__ volatile("vpxor %%xmm0, %%xmm0, %%xmm0" : : : "xmm0");
	_Pragma("clang loop unroll(disable)") for (; bytes >= 128; bytes -= 128, at += 128)
		__asm__ volatile("vmovdqu %%ymm0, (%0)\n\tvmovdqu %%ymm0, 32(%0)\n\t"
				 "vmovdqu %%ymm0, 64(%0)\n\tvmovdqu %%ymm0, 96(%0)"
				 :
				 : "r"(at)
				 : "memory");
	_Pragma("clang loop unroll(disable)") for (; bytes >= 32; bytes -= 32, at += 32)
		__asm__ volatile("vmovdqu %%ymm0, (%0)" : : "r"(at) : "memory");
	_Pragma("clang loop unroll(disable)") for (; bytes >= 8; bytes -= 8, at += 8)
		clear_u64(at);
	clear_tail(at, bytes);
	__asm__ volatile("vzeroupper" : : : "xmm0");
}

NATIVE(avx2)
{
	REPEAT_OPERATION
		clear_by_avx2(memory, size);
	return DONE;
}

/* A page, in the three ways that the kernel has for one. */
NATIVE(page_rep_stosq)
{
	REPEAT_OPERATION
		clear_by_stosq(memory, 4096 / 8);
	return DONE;
}

NATIVE(page_rep_stosb)
{
	REPEAT_OPERATION
		clear_by_stosb(memory, 4096);
	return DONE;
}
#endif

NATIVE(page_words)
{
	REPEAT_OPERATION
	{
		_Pragma("clang loop unroll(disable)") for (u64 line = 0; line < 4096 / 64; line++)
			clear_by_stores(memory + 64 * line, 64);
	}
	return DONE;
}

NATIVE(libc)
{
	void *(*clear)(void *, int, u64) = (void *(*)(void *, int, u64))libc_memset;

	if (!clear)
		return FAILED;
	REPEAT_OPERATION
		clear(memory, 0, size);
	return DONE;
}
