/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a call costs: direct, and through a pointer that the compiler cannot see through. */
#include "native.h"

never_inline static u64 nothing(u64 value)
{
	__asm__ volatile("" : "+r"(value));
	return value;
}

/* Another one, so that a pointer may have to be predicted. */
never_inline static u64 nothing_else(u64 value)
{
	__asm__ volatile("" : "+r"(value) : : "memory");
	return value;
}

NATIVE(empty)
{
	REPEAT_OPERATION
		keep(turn);
	return DONE;
}

NATIVE(function_call)
{
	REPEAT_OPERATION
		keep(nothing(turn));
	return DONE;
}

NATIVE(indirect_call)
{
	u64 (*target)(u64) = nothing;

	REPEAT_OPERATION
	{
		__asm__ volatile("" : "+r"(target));
		keep(target(turn));
	}
	return DONE;
}

/* Two targets in turn, which a predictor of one target for a place would always miss. */
NATIVE(indirect_call_alternating)
{
	u64 (*target)(u64) = nothing, (*other)(u64) = nothing_else;

	REPEAT_OPERATION
	{
		u64 (*called)(u64) = target;

		__asm__ volatile("" : "+r"(target), "+r"(other));
		keep(called(turn));
		called = target;
		target = other;
		other = called;
	}
	return DONE;
}
