/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the measured programs need of BPF: helpers, kfuncs, maps, loops, packet headers.
 * Helper numbers are ABI (enum bpf_func_id in linux/bpf.h); kfuncs are found by name through
 * the kernel's BTF and are weak, so that an object loads where one is missing.
 */
#ifndef XDPLAB_BPF_H
#define XDPLAB_BPF_H

#include <linux/bpf.h>
#include <linux/types.h>

#define SEC(name) __attribute__((section(name), used))
#define __always_inline inline __attribute__((always_inline))
#define __noinline __attribute__((noinline))
#define __ksym __attribute__((section(".ksyms")))
#define __weak __attribute__((weak))

static long (*const bpf_xdp_adjust_head)(struct xdp_md *xdp, int delta) = (void *)44;
static long (*const bpf_xdp_load_bytes)(struct xdp_md *xdp, __u32 offset, void *buffer,
					__u32 length) = (void *)189;
static long (*const bpf_xdp_store_bytes)(struct xdp_md *xdp, __u32 offset, void *buffer,
					 __u32 length) = (void *)190;
static long (*const bpf_dynptr_read)(void *destination, __u32 length,
				     const struct bpf_dynptr *source, __u32 offset,
				     __u64 flags) = (void *)201;

extern int bpf_dynptr_from_xdp(struct xdp_md *xdp, __u64 flags,
			       struct bpf_dynptr *dynptr) __weak __ksym;
extern void *bpf_dynptr_slice(const struct bpf_dynptr *dynptr, __u32 offset, void *buffer,
			      __u32 buffer__szk) __weak __ksym;
extern int bpf_xdp_pull_data(struct xdp_md *xdp, __u32 length) __weak __ksym;

/*
 * A program of the operation method runs its body this many times. The loop is a plain one:
 * what a callback's call would add to every turn is not there to disturb the body.
 */
#ifndef OPERATIONS
#define OPERATIONS 1000
#endif
#define REPEAT_OPERATION                                                                       \
	_Pragma("clang loop unroll(disable)") for (int turn = 0; turn < OPERATIONS; turn++)

/* The compiler must take `value` as used, and memory as changed. */
#define keep(value) asm volatile("" : : "r"(value) : "memory")

static __always_inline void *frame_data(const struct xdp_md *ctx)
{
	return (void *)(long)ctx->data;
}

static __always_inline void *frame_end(const struct xdp_md *ctx)
{
	return (void *)(long)ctx->data_end;
}

#endif
