/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The core's clock as it is while we measure: multiplications that each wait for the one before.
 * x86 cores since 2008 take three cycles for one of 32 bits, whatever the maker (Agner Fog,
 * Instruction tables: IMUL r32, r32), so time gives the frequency. The same chain as in
 * bpf/calibrate.bpf.c, in assembly since a compiler would find the powers.
 */

u64 user_multiply_chain(u64 turns, s32 clock);

/* Elapsed nanoseconds of `turns` times 100 multiplications; 0 where their cycles are not known. */
u64 user_multiply_chain(u64 turns, s32 clock)
{
#if defined(__x86_64__)
	u32 value = 3, factor = 3;
	u64 start = read_clock(clock);

#define MULTIPLY_10                                                                    \
	"imul %1, %0\n\timul %1, %0\n\timul %1, %0\n\timul %1, %0\n\timul %1, %0\n\t"  \
	"imul %1, %0\n\timul %1, %0\n\timul %1, %0\n\timul %1, %0\n\timul %1, %0\n\t"
	for (u64 turn = 0; turn < turns; turn++)
		asm volatile(MULTIPLY_10 MULTIPLY_10 MULTIPLY_10 MULTIPLY_10 MULTIPLY_10
			     MULTIPLY_10 MULTIPLY_10 MULTIPLY_10 MULTIPLY_10 MULTIPLY_10
			     : "+r"(value)
			     : "r"(factor));
	return read_clock(clock) - start;
#else
	(void)turns;
	(void)clock;
	return 0;
#endif
}
