/* SPDX-License-Identifier: GPL-2.0-or-later */
/* bpf_csum_diff as of Linux 6.13: any size, and the result folded to 16 bits. */

inline_always u32 add_with_carry(u32 a, u32 b)
{
	u32 sum = a + b;

	return sum + (sum < a);
}

/* csum_partial: the ones' complement sum in 32 bits, over bytes that start anywhere. */
static u32 sum_bytes(const u8 *from, u32 bytes, u32 sum)
{
	u64 total = sum, high = 0;
	u32 rest = 0;

	/* Two sums of 32-bit halves, which do not wait for each other's carry. */
	for (; bytes >= 8; bytes -= 8, from += 8) {
		u64 word = read_u64(from);

		total += (u32)word;
		high += word >> 32;
	}
	total += high;
	if (bytes >= 4) {
		total += read_u32(from);
		bytes -= 4;
		from += 4;
	}
	for (u32 i = 0; i < bytes; i++)
		rest |= (u32)from[i] << 8 * i;
	total += rest;
	return add_with_carry((u32)total, (u32)(total >> 32));
}

HELPER(csum_diff)
{
	u32 from_bytes = (u32)r2, to_bytes = (u32)r4, sum = (u32)r5;

	if (from_bytes && to_bytes) {
		sum = sum_bytes(BYTES(r3), to_bytes, sum);
		sum = add_with_carry(sum, ~sum_bytes(BYTES(r1), from_bytes, 0));
	} else if (to_bytes) {
		sum = sum_bytes(BYTES(r3), to_bytes, sum);
	} else if (from_bytes) {
		sum = ~sum_bytes(BYTES(r1), from_bytes, ~sum);
	}
	sum = (sum & 0xffff) + (sum >> 16);
	return (sum & 0xffff) + (sum >> 16);
}
