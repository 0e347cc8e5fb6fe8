/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The core's clock as it is while we measure: a chain of 32-bit multiplications, each waiting
 * for the one before. x86 cores since 2008 take three cycles for one, whatever the maker
 * (Agner Fog, Instruction tables: IMUL r32, r32), so time gives the frequency.
 */
#include "xdplab.bpf.h"

char _license[] SEC("license") = "GPL";

volatile __u32 factor = 3;
volatile __u32 product;

#define MULTIPLY asm volatile("%0 *= %1" : "+w"(value) : "w"(by));
#define MULTIPLY_10                                                                            \
	MULTIPLY MULTIPLY MULTIPLY MULTIPLY MULTIPLY MULTIPLY MULTIPLY MULTIPLY MULTIPLY MULTIPLY

SEC("xdp")
int multiply_chain(struct xdp_md *ctx)
{
	__u32 by = factor;
	__u32 value = by;

	_Pragma("clang loop unroll(disable)") for (int turn = 0; turn < 100; turn++)
	{
		MULTIPLY_10 MULTIPLY_10 MULTIPLY_10 MULTIPLY_10 MULTIPLY_10
		MULTIPLY_10 MULTIPLY_10 MULTIPLY_10 MULTIPLY_10 MULTIPLY_10
	}
	product = value;
	return XDP_PASS;
}
