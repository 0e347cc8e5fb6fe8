/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Bob Jenkins' hash lookup3 (public domain, 2006) as Linux's maps use it: with BPF_F_ZERO_SEED a
 * map here has the same buckets, and so the same order of keys, as in the kernel.
 */

#define JHASH_INITIAL 0xdeadbeefu

inline_always u32 rotate_left(u32 word, u32 bits)
{
	return (word << bits) | (word >> (32 - bits));
}

#define JHASH_MIX(a, b, c) do { \
	a -= c; a ^= rotate_left(c, 4); c += b; \
	b -= a; b ^= rotate_left(a, 6); a += c; \
	c -= b; c ^= rotate_left(b, 8); b += a; \
	a -= c; a ^= rotate_left(c, 16); c += b; \
	b -= a; b ^= rotate_left(a, 19); a += c; \
	c -= b; c ^= rotate_left(b, 4); b += a; \
} while (0)

#define JHASH_FINAL(a, b, c) do { \
	c ^= b; c -= rotate_left(b, 14); \
	a ^= c; a -= rotate_left(c, 11); \
	b ^= a; b -= rotate_left(a, 25); \
	c ^= b; c -= rotate_left(b, 16); \
	a ^= c; a -= rotate_left(c, 4); \
	b ^= a; b -= rotate_left(a, 14); \
	c ^= b; c -= rotate_left(b, 24); \
} while (0)

static u32 hash_words(const u8 *key, u32 words, u32 seed)
{
	u32 a = JHASH_INITIAL + (words << 2) + seed, b = a, c = a;

	while (words > 3) {
		a += read_u32(key);
		b += read_u32(key + 4);
		c += read_u32(key + 8);
		JHASH_MIX(a, b, c);
		key += 12;
		words -= 3;
	}
	switch (words) {
	case 3:
		c += read_u32(key + 8);
		__attribute__((fallthrough));
	case 2:
		b += read_u32(key + 4);
		__attribute__((fallthrough));
	case 1:
		a += read_u32(key);
		JHASH_FINAL(a, b, c);
	}
	return c;
}

static u32 hash_odd_bytes(const u8 *key, u32 bytes, u32 seed)
{
	u32 a = JHASH_INITIAL + bytes + seed, b = a, c = a;
	u8 rest[12] = { 0 };

	while (bytes > 12) {
		a += read_u32(key);
		b += read_u32(key + 4);
		c += read_u32(key + 8);
		JHASH_MIX(a, b, c);
		key += 12;
		bytes -= 12;
	}
	if (bytes) {
		for (u32 i = 0; i < bytes; i++)
			rest[i] = key[i];
		a += read_u32(rest);
		b += read_u32(rest + 4);
		c += read_u32(rest + 8);
		JHASH_FINAL(a, b, c);
	}
	return c;
}

inline_always u32 hash_bytes(const u8 *key, u32 bytes, u32 seed)
{
	if (likely(bytes % 4 == 0))
		return hash_words(key, bytes / 4, seed);
	return hash_odd_bytes(key, bytes, seed);
}
