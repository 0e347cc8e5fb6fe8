/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * bpf_trace_printk, bpf_trace_vprintk and bpf_snprintf: the formats of kernel/bpf/helpers.c
 * (bpf_bprintf_prepare). A pointer prints as its 16 digits; the kernel hashes it.
 */

#define FORMAT_ARGUMENTS 12
#define MESSAGE_BYTES 1024

struct output {
	u8 *text;
	u64 room;             /* what does not fit is counted, not written */
	u64 used;
};

/* Whether the program may read there; NULL where nothing is checked. */
typedef u64 (*may_read_fn)(struct user_frame *, u64 address, u64 bytes);

struct reader {
	struct user_frame *frame;
	may_read_fn may_read;
};

struct format {
	u32 width;
	u8 left, zeros, plus, space, alternate, upper;
};

static void put(struct output *out, u8 character)
{
	if (out->used < out->room)
		out->text[out->used] = character;
	out->used++;
}

static void put_padded(struct output *out, const struct format *format, const u8 *text, u32 bytes)
{
	u32 padding = format->width > bytes ? format->width - bytes : 0;

	if (!format->left)
		for (; padding; padding--)
			put(out, ' ');
	for (u32 i = 0; i < bytes; i++)
		put(out, text[i]);
	for (; padding; padding--)
		put(out, ' ');
}

static void put_number(struct output *out, const struct format *format, u64 value, u32 base,
		       int negative)
{
	const char *digits = format->upper ? "0123456789ABCDEF" : "0123456789abcdef";
	u8 text[96], *at = text + sizeof(text), *end = at;
	u32 sign = negative ? '-' : format->plus ? '+' : format->space ? ' ' : 0;
	u32 prefix = (sign ? 1 : 0) + (format->alternate && base == 16 ? 2 : 0);

	do {
		*--at = (u8)digits[value % base];
		value /= base;
	} while (value);
	if (format->zeros && !format->left)
		while ((u32)(end - at) + prefix < min_of(format->width, 64u))
			*--at = '0';
	if (format->alternate && base == 16) {
		*--at = format->upper ? 'X' : 'x';
		*--at = '0';
	}
	if (sign)
		*--at = (u8)sign;
	put_padded(out, format, at, (u32)(end - at));
}

static void put_decimal(struct output *out, u32 value)
{
	struct format plain = { 0 };

	put_number(out, &plain, value, 10, 0);
}

static void put_ipv4(struct output *out, const u8 *address)
{
	for (u32 i = 0; i < 4; i++) {
		if (i)
			put(out, '.');
		put_decimal(out, address[i]);
	}
}

static void put_ipv6(struct output *out, const u8 *address, int colons)
{
	struct format two = { .width = 2, .zeros = 1 };

	for (u32 i = 0; i < 16; i++) {
		if (colons && i && i % 2 == 0)
			put(out, ':');
		put_number(out, &two, address[i], 16, 0);
	}
}

static int is_letter_or_digit(u8 character)
{
	u8 lower = character | 0x20;

	return (character >= '0' && character <= '9') || (lower >= 'a' && lower <= 'z');
}

/* Low addresses are none, as where the kernel's fault-free reads fail. */
static int can_read(const struct reader *reader, u64 address, u64 bytes)
{
	if (address < 4096)
		return 0;
	return !reader->may_read || reader->may_read(reader->frame, address, bytes) != 0;
}

static u64 sign_extended(u64 value, u32 bits)
{
	return (u64)((s64)(value << (64 - bits)) >> (64 - bits));
}

/*
 * Writes `format` with `values`. Like the kernel, refuses with -EINVAL what it does not know, a `%`
 * too many for the values, and bytes that are not ASCII. Where a checked program may not read, a
 * string is empty and an address all zero, as the kernel has it where it cannot read.
 */
static s64 print(struct output *out, const struct reader *reader, const u8 *text, u32 bytes,
		 const u8 *given, u32 count)
{
	/* The output may lie on top of the values. */
	u8 values[8 * FORMAT_ARGUMENTS];
	u32 at = 0, taken = 0;

	if (count)
		copy_bytes(values, given, 8 * count);
	if (!bytes || text[bytes - 1])
		return -EINVAL;
	while (text[at]) {
		struct format format = { 0 };
		u32 bits = 32, length = 0;
		u64 value;
		u8 kind;

		if (text[at] & 0x80)
			return -EINVAL;
		if (text[at] != '%') {
			put(out, text[at++]);
			continue;
		}
		if (text[++at] == '%') {
			put(out, text[at++]);
			continue;
		}
		if (taken >= count)
			return -EINVAL;
		for (;; at++) {
			if (text[at] == '0')
				format.zeros = 1;
			else if (text[at] == '-')
				format.left = 1;
			else if (text[at] == '+')
				format.plus = 1;
			else if (text[at] == ' ')
				format.space = 1;
			else if (text[at] == '#')
				format.alternate = 1;
			else
				break;
		}
		for (; text[at] >= '0' && text[at] <= '9'; at++)
			format.width = min_of(format.width * 10 + text[at] - '0', 512u);
		for (; text[at] == 'l'; at++, length++)
			bits = 64;
		if (!length && text[at] == 'h') {
			bits = text[++at] == 'h' ? 8 : 16;
			at += bits == 8;
		}
		kind = text[at++];
		value = read_u64(values + 8 * taken++);
		switch (kind) {
		case 'd':
		case 'i':
			value = sign_extended(value, bits);
			put_number(out, &format, (s64)value < 0 ? 0 - value : value, 10,
				   (s64)value < 0);
			break;
		case 'u':
		case 'x':
		case 'X':
			value = bits == 64 ? value : value & ((1ull << bits) - 1);
			format.upper = kind == 'X';
			format.plus = format.space = 0;
			put_number(out, &format, value, kind == 'u' ? 10 : 16, 0);
			break;
		case 'c': {
			u8 character = (u8)value;

			put_padded(out, &format, &character, 1);
			break;
		}
		case 's': {
			const u8 *string = BYTES(value);
			u32 size = 0;

			while (size < MESSAGE_BYTES && can_read(reader, value + size, 1) &&
			       string[size])
				size++;
			put_padded(out, &format, string, size);
			break;
		}
		case 'p':
			if ((text[at] == 'i' || text[at] == 'I') &&
			    (text[at + 1] == '4' || text[at + 1] == '6')) {
				u8 address[16] = { 0 };
				u32 size = text[at + 1] == '4' ? 4 : 16;

				if (value < 4096)
					return -EINVAL;
				if (can_read(reader, value, size))
					copy_bytes(address, BYTES(value), size);
				if (size == 4)
					put_ipv4(out, address);
				else
					put_ipv6(out, address, text[at] == 'I');
				at += 2;
				break;
			}
			if (text[at] == 'x' || text[at] == 'K')
				at++;
			else if (is_letter_or_digit(text[at]))
				return -EINVAL;
			format.width = 16;
			format.zeros = 1;
			put_number(out, &format, value, 16, 0);
			break;
		default:
			return -EINVAL;
		}
	}
	return (s64)out->used;
}

static u64 trace(const struct reader *reader, const u8 *text, u32 bytes, const u8 *values,
		 u32 count)
{
	struct user_host *host = reader->frame->state->host;
	u8 message[MESSAGE_BYTES];
	struct output out = { message, MESSAGE_BYTES - 1, 0 };
	s64 result = print(&out, reader, text, bytes, values, count);
	u64 length;

	if (result < 0)
		return result;
	length = min_of(out.used, out.room);
	if (!length || message[length - 1] != '\n')
		message[length++] = '\n';
	if (host->trace_bytes - host->trace_used < length) {
		host->trace_lost++;
	} else {
		copy_bytes(host->trace + host->trace_used, message, length);
		host->trace_used += length;
	}
	return result;
}

/* Defines a helper, and its twin for checked programs, which say what they may read. */
#define READING_HELPER(name) \
	static u64 name##_by(const struct reader *reader, u64 r1, u64 r2, u64 r3, u64 r4, u64 r5); \
	u64 user_checked_##name(REGISTERS, may_read_fn may_read); \
	u64 user_checked_##name(REGISTERS, may_read_fn may_read) \
	{ \
		struct reader reader = { frame, may_read }; \
		return name##_by(&reader, r1, r2, r3, r4, r5); \
	} \
	HELPER(name) \
	{ \
		struct reader reader = { frame, NULL }; \
		return name##_by(&reader, r1, r2, r3, r4, r5); \
	} \
	static u64 name##_by(const struct reader *reader, u64 r1, u64 r2, u64 r3, u64 r4, u64 r5)

READING_HELPER(trace_printk)
{
	u64 values[3] = { r3, r4, r5 };

	return trace(reader, BYTES(r1), (u32)r2, (const u8 *)values, 3);
}

READING_HELPER(trace_vprintk)
{
	(void)r5;
	if ((u32)r4 % 8 || (u32)r4 > 8 * FORMAT_ARGUMENTS || ((u32)r4 && !r3))
		return -EINVAL;
	return trace(reader, BYTES(r1), (u32)r2, BYTES(r3), (u32)r4 / 8);
}

/*
 * Answers how many bytes the whole text takes, its final zero byte included. A string that the
 * output runs into may grow, and is cut where a string is.
 */
READING_HELPER(snprintf)
{
	u32 room = (u32)r2, count = (u32)r5 / 8, bytes = 0;
	struct output out = { BYTES(r1), room ? room - 1 : 0, 0 };
	s64 result;

	if ((u32)r5 % 8 || count > FORMAT_ARGUMENTS || (count && !r4))
		return -EINVAL;
	while (BYTES(r3)[bytes])
		bytes++;
	result = print(&out, reader, BYTES(r3), bytes + 1, BYTES(r4), count);
	if (result < 0)
		return result;
	if (room)
		BYTES(r1)[min_of(out.used, out.room)] = 0;
	return result + 1;
}
