# SPDX-License-Identifier: GPL-2.0-or-later
# What returns and indirect branches become under mitigations, in the forms that the kernel
# documents (Documentation/admin-guide/hw-vuln). Whoever returns through native_return_safe has its
# return predicted wrongly on purpose: the predictor leads it to a trap, and it goes its way.
	.text
	.p2align 6, 0xcc
# A jump to a return that stands alone in the upper half of its line (ITS), with no further work.
	.skip 32, 0xcc
native_return_thunk:
	ret
	int3

	.p2align 6, 0xcc
# "Safe RET" (SRSO).
native_return_safe:
	call 1f
	int3
	int3
1:
	lea 8(%rsp), %rsp
	ret
	int3

	.p2align 6, 0xcc
	.skip 32, 0xcc
native_indirect_thunk:
	jmp *%r11
	int3

	.p2align 6, 0xcc
# The retpoline: a return, predicted to a place that waits, whose address was replaced.
native_indirect_retpoline:
	call 1f
2:
	pause
	lfence
	jmp 2b
1:
	mov %r11, (%rsp)
	ret
	int3
