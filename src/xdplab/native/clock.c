/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Reference cycles: the time stamp counter of x86, which counts at one rate whatever the core's clock
 * does. Measured like an operation, one of it is the time from one count to the next.
 */
#include "native.h"

#if defined(__x86_64__)
inline_always u64 read_reference(void)
{
	u32 low, high;

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (u64)high << 32 | low;
}

NATIVE(reference_cycles)
{
	u64 end = read_reference() + turns;

	while (read_reference() < end)
		;
	return DONE;
}
#endif
