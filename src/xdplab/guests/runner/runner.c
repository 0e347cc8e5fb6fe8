/*
 * PID 1 of a guest: loads what the bundle holds, runs its rows, says one JSON line each, restarts.
 *
 * Freestanding: six system calls' worth of work needs no C library, and without one the build takes
 * milliseconds and gives the same bytes everywhere. The bundle's layout is that of bundle.py, the
 * lines are those that console.py reads. Offsets into union bpf_attr and command numbers are those
 * of the kernel's include/uapi/linux/bpf.h.
 */

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long u64;

enum {
	SYS_READ = 0, SYS_WRITE = 1, SYS_OPEN = 2, SYS_CLOSE = 3, SYS_LSEEK = 8, SYS_MMAP = 9,
	SYS_NANOSLEEP = 35, SYS_UNAME = 63, SYS_MKDIR = 83, SYS_MOUNT = 165, SYS_REBOOT = 169, SYS_PRLIMIT64 = 302,
	SYS_BPF = 321,
};

enum {
	MAP_CREATE = 0, MAP_LOOKUP = 1, MAP_UPDATE = 2, PROG_LOAD = 5, PROG_TEST_RUN = 10,
	BTF_LOAD = 18, MAP_FREEZE = 22,
};

enum { RECORD_MAP = 1, RECORD_BTF, RECORD_PROG, RECORD_ROW, RECORD_SYMBOLS };
enum { VALUES_BYTES, VALUES_MAPS, VALUES_PROGS };
enum { FIX_MAP = 1, FIX_KFUNC, FIX_KFUNC_ADDRESS };
enum { PERCPU_HASH = 5, PERCPU_ARRAY = 6, LRU_PERCPU_HASH = 10, RINGBUF = 27 };
enum { BTF_KIND_FUNC = 12 };
enum { E2BIG = 7, ENOMEM = 12, EINVAL = 22 };

struct record { u32 kind, bytes; };

struct map_record {
	u32 type, key_bytes, value_bytes, entries, flags, inner, freeze, count, values, extra;
	char name[16];
};

struct prog_record {
	u32 insns, fixups, funcs, flags, btf, pad;
	char name[16];
};

struct fixup { u32 slot, kind, map, weak; char name[64]; };

struct row_record {
	u32 prog, repeat, calls, frame_bytes, ctx, meta, end, pokes, report_map, report_offset,
		report_bytes, expected, windows, pad;
};

struct poke { u32 map, offset, bytes, pad; };

enum { MOST = 4096, SCRATCH = 4 << 20, CPUS = 128, PAGE = 4096, NONE = 0xffffffff };

static struct { int fd; struct map_record *spec; u8 *entries; u8 *consumer, *producer; } maps[MOST];
static struct { int fd; struct prog_record *spec; } progs[MOST];
static int btfs[MOST];
static u32 map_count, btf_count, prog_count, row_count;
static u8 value[SCRATCH], data_out[SCRATCH];
static char verifier_log[1 << 18];
static u8 *kernel_btf;
static u64 kernel_btf_bytes;

void *memcpy(void *to, const void *from, u64 bytes)
{
	for (u64 i = 0; i < bytes; i++)
		((volatile u8 *)to)[i] = ((const u8 *)from)[i];
	return to;
}

void *memset(void *to, int byte, u64 bytes)
{
	for (u64 i = 0; i < bytes; i++)
		((volatile u8 *)to)[i] = byte;
	return to;
}

static long sys6(long number, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long result;

	__asm__ volatile("syscall" : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}

#define SYS(number, a, b, c) sys6(number, (long)(a), (long)(b), (long)(c), 0, 0, 0)

/* One line is written at once, so that the kernel's own messages do not come between. */
static char line[1 << 15];
static u32 line_bytes;

static void put(char c)
{
	if (line_bytes < sizeof(line) - 2)
		line[line_bytes++] = c;
}

static void text(const char *from)
{
	while (*from)
		put(*from++);
}

static void number(long n)
{
	char digits[24];
	u32 count = 0;
	u64 left = n < 0 ? -(u64)n : (u64)n;

	if (n < 0)
		put('-');
	do
		digits[count++] = '0' + left % 10;
	while (left /= 10);
	while (count)
		put(digits[--count]);
}

static void field(const char *name, long n)
{
	text(",\""), text(name), text("\":"), number(n);
}

static void quoted(const char *name, const char *from, u64 bytes)
{
	text(",\""), text(name), text("\":\"");
	for (u64 i = 0; i < bytes && from[i]; i++) {
		char c = from[i];

		if (c == '\n' && i + 1 < bytes && from[i + 1])
			text("\\n");
		else if (c == '"' || c == '\\')
			put('\\'), put(c);
		else if (c >= ' ' && c < 127)
			put(c);
	}
	put('"');
}

static void begin(const char *kind, long n)
{
	line_bytes = 0;
	text("@xdplab {\""), text(kind), text("\":"), number(n);
}

static void finish(void)
{
	put('}'), put('\n');
	for (u32 done = 0; done < line_bytes;) {
		long n = SYS(SYS_WRITE, 1, line + done, line_bytes - done);

		if (n <= 0)
			break;
		done += n;
	}
}

static void leave(void) __attribute__((noreturn));
static void leave(void)
{
	begin("end", row_count), finish();
	for (;;) /* LINUX_REBOOT_MAGIC1, MAGIC2, LINUX_REBOOT_CMD_RESTART */
		sys6(SYS_REBOOT, 0xfee1dead, 672274793, 0x1234567, 0, 0, 0);
}

/* Everything of a file into memory of its own; its size, or a negative errno. */
static long slurp(const char *path, u8 **to)
{
	long fd = SYS(SYS_OPEN, path, 0, 0), size, done = 0;

	if (fd < 0)
		return fd;
	size = SYS(SYS_LSEEK, fd, 0, 2);
	SYS(SYS_LSEEK, fd, 0, 0);
	if (size <= 0)
		return size ? size : -EINVAL;
	/* PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS */
	*to = (u8 *)sys6(SYS_MMAP, 0, size, 3, 0x22, -1, 0);
	if ((long)*to < 0 && (long)*to > -PAGE)
		return (long)*to;
	while (done < size) {
		long n = SYS(SYS_READ, fd, *to + done, size - done);

		if (n <= 0)
			break;
		done += n;
	}
	SYS(SYS_CLOSE, fd, 0, 0);
	return done;
}

/* A short file as a field of the line that is being made; nothing where there is none. */
static void told(const char *name, const char *path)
{
	static char content[512];
	long fd = SYS(SYS_OPEN, path, 0, 0), n;

	if (fd < 0)
		return;
	n = SYS(SYS_READ, fd, content, sizeof(content) - 1);
	SYS(SYS_CLOSE, fd, 0, 0);
	if (n > 0 && content[n - 1] == '\n')
		n--;
	if (n > 0)
		quoted(name, content, n);
}

static void attr32(u64 *attr, u32 offset, u32 n)
{
	*(u32 *)((u8 *)attr + offset) = n;
}

static long bpf(long command, u64 *attr)
{
	return SYS(SYS_BPF, command, attr, 128);
}

static u32 rounded(u32 bytes)
{
	return (bytes + 7) / 8 * 8;
}

static int is_percpu(u32 type)
{
	return type == PERCPU_HASH || type == PERCPU_ARRAY || type == LRU_PERCPU_HASH;
}

static long make_map(struct map_record *spec)
{
	u64 attr[16] = { 0 };

	attr32(attr, 0, spec->type);
	attr32(attr, 4, spec->key_bytes);
	attr32(attr, 8, spec->value_bytes);
	attr32(attr, 12, spec->entries);
	attr32(attr, 16, spec->flags);
	if (spec->inner != NONE)
		attr32(attr, 20, maps[spec->inner].fd);
	memcpy((u8 *)attr + 28, spec->name, 15);
	attr[8] = spec->extra;
	return bpf(MAP_CREATE, attr);
}

static long update(u32 map, void *key, void *from)
{
	u64 attr[16] = { 0 };

	attr32(attr, 0, maps[map].fd);
	attr[1] = (u64)key;
	attr[2] = (u64)from;
	return bpf(MAP_UPDATE, attr);
}

/* Entries whose values are of that sort: a program must be loaded before a prog array holds it. */
static long fill(u32 map, u32 sort)
{
	struct map_record *spec = maps[map].spec;
	u32 bytes = rounded(spec->value_bytes), copies = is_percpu(spec->type) ? CPUS : 1;
	u8 *entry = maps[map].entries;

	if (maps[map].fd < 0 || spec->values != sort)
		return 0;
	for (u32 i = 0; i < spec->count; i++, entry += rounded(spec->key_bytes) + bytes) {
		u8 *from = entry + rounded(spec->key_bytes);
		u32 other = *(u32 *)from;
		long result;

		if (bytes * copies > SCRATCH)
			return -E2BIG;
		for (u32 copy = 0; copy < copies; copy++)
			memcpy(value + copy * bytes, from, bytes);
		if (sort != VALUES_BYTES) {
			int fd = sort == VALUES_MAPS ? maps[other].fd : progs[other].fd;

			if (fd < 0)
				continue; /* its own line says why it is not there */
			*(u32 *)value = fd;
		}
		/* Entries that are allocated one by one come from a stock that a tick fills up. */
		for (u32 tries = 0; tries < 50; tries++) {
			static const u64 tick[2] = { 0, 10000000 };

			result = update(map, entry, value);
			if (result != -ENOMEM)
				break;
			SYS(SYS_NANOSLEEP, tick, 0, 0);
		}
		if (result < 0)
			return result;
	}
	return 0;
}

static void add_map(struct map_record *spec)
{
	u32 map = map_count++;
	long result = make_map(spec);

	maps[map].spec = spec;
	maps[map].entries = (u8 *)(spec + 1);
	maps[map].fd = result;
	if (result >= 0)
		result = fill(map, VALUES_BYTES);
	if (result >= 0)
		result = fill(map, VALUES_MAPS);
	if (result >= 0 && spec->freeze) {
		u64 attr[16] = { 0 };

		attr32(attr, 0, maps[map].fd);
		result = bpf(MAP_FREEZE, attr);
	}
	if (result >= 0 && spec->type == RINGBUF) {
		/* PROT_READ | PROT_WRITE and PROT_READ, MAP_SHARED */
		maps[map].consumer = (u8 *)sys6(SYS_MMAP, 0, PAGE, 3, 1, maps[map].fd, 0);
		maps[map].producer = (u8 *)sys6(SYS_MMAP, 0, PAGE, 1, 1, maps[map].fd, PAGE);
		if ((long)maps[map].consumer < 0 || (long)maps[map].producer < 0)
			result = -ENOMEM;
	}
	if (result < 0) {
		maps[map].fd = -1;
		begin("map", map), field("errno", -result), finish();
	}
}

static void add_btf(u8 *data, u32 bytes)
{
	u64 attr[16] = { 0 };

	attr[0] = (u64)data;
	attr32(attr, 16, bytes);
	btfs[btf_count++] = bpf(BTF_LOAD, attr);
}

static int is_same(const char *one, const char *other)
{
	while (*one && *one == *other)
		one++, other++;
	return *one == *other;
}

/* The number of the kernel's function of that name, 0 where its BTF has none. */
static u32 find_function(const char *wanted)
{
	static const u8 fixed[] = { [1] = 4, [3] = 12, [14] = 4, [17] = 4 };
	static const u8 member[] = { [4] = 12, [5] = 12, [6] = 8, [13] = 8, [15] = 12, [19] = 12 };
	u32 *header = (u32 *)kernel_btf, id = 1;
	u8 *start, *strings;

	/* struct btf_header: magic, version, flags; hdr_len, type_off, type_len, str_off, str_len */
	if (kernel_btf_bytes < 24 || (header[0] & 0xffff) != 0xeb9f)
		return 0;
	start = kernel_btf + header[1] + header[2];
	strings = kernel_btf + header[1] + header[4];
	for (u8 *at = start; at + 12 <= start + header[3]; id++) {
		u32 *type = (u32 *)at, kind = type[1] >> 24 & 31, count = type[1] & 0xffff;

		if (kind == BTF_KIND_FUNC && is_same((char *)strings + type[0], wanted))
			return id;
		at += 12 + (kind < sizeof(fixed) ? fixed[kind] : 0) +
		      (kind < sizeof(member) ? member[kind] * count : 0);
	}
	return 0;
}

/* Puts in what only this kernel knows; the name of what it lacks, 0 where it has everything. */
static const char *resolve(u32 *insns, struct fixup *fixups, u32 count, const char **absent)
{
	for (struct fixup *one = fixups; one < fixups + count; one++) {
		u32 *insn = insns + 2 * one->slot;

		if (one->kind == FIX_MAP) {
			if (maps[one->map].fd < 0)
				return maps[one->map].spec->name;
			insn[1] = maps[one->map].fd;
			continue;
		}
		insn[1] = find_function(one->name);
		if (!insn[1] && !one->weak)
			return one->name;
		if (!insn[1])
			*absent = one->name;
		/* A program only asks whether it is there, and the verifier has to know. */
		if (one->kind == FIX_KFUNC_ADDRESS)
			insn[1] = !!insn[1];
	}
	return 0;
}

static long load(struct prog_record *spec, u8 *insns, u8 *funcs, u32 log_level)
{
	u64 attr[16] = { 0 };

	attr32(attr, 0, 6); /* BPF_PROG_TYPE_XDP */
	attr32(attr, 4, spec->insns);
	attr[1] = (u64)insns;
	attr[2] = (u64)"GPL";
	if (log_level) {
		attr32(attr, 24, log_level);
		attr32(attr, 28, sizeof(verifier_log));
		attr[4] = (u64)verifier_log;
	}
	attr32(attr, 44, spec->flags);
	memcpy((u8 *)attr + 48, spec->name, 15);
	attr32(attr, 68, 37); /* BPF_XDP */
	if (spec->btf != NONE && btfs[spec->btf] >= 0) {
		attr32(attr, 72, btfs[spec->btf]);
		attr32(attr, 76, 8);
		attr[10] = (u64)funcs;
		attr32(attr, 88, spec->funcs);
	}
	return bpf(PROG_LOAD, attr);
}

static void add_prog(struct prog_record *spec)
{
	u32 prog = prog_count++;
	u8 *insns = (u8 *)(spec + 1), *funcs = insns + 8 * spec->insns;
	struct fixup *fixups = (struct fixup *)(funcs + 8 * spec->funcs);
	const char *absent = 0, *lacks = resolve((u32 *)insns, fixups, spec->fixups, &absent);
	long result, again;

	progs[prog].spec = spec;
	progs[prog].fd = -1;
	if (lacks) {
		begin("prog", prog), quoted("lacks", lacks, 64), finish();
		return;
	}
	result = load(spec, insns, funcs, 0);
	/* Without BTF of its own a kernel knows no ctx in a function that is verified for itself. */
	if (result < 0 && spec->btf != NONE) {
		u32 btf = spec->btf;

		spec->btf = NONE;
		if ((again = load(spec, insns, funcs, 0)) >= 0)
			result = again;
		spec->btf = btf;
	}
	if (result < 0 && absent) {
		/* Weak, and yet it calls it. */
		begin("prog", prog), quoted("lacks", absent, 64), finish();
		return;
	}
	if (result < 0) {
		/* The verifier's reason is at the end of its log. */
		u64 bytes = 0, from;

		verifier_log[0] = 0;
		load(spec, insns, funcs, 1);
		while (bytes < sizeof(verifier_log) && verifier_log[bytes])
			bytes++;
		from = bytes > 2000 ? bytes - 2000 : 0;
		begin("prog", prog), field("errno", -result);
		quoted("log", verifier_log + from, bytes - from), finish();
		return;
	}
	progs[prog].fd = result;
}

static long poke(struct poke *first, u32 count)
{
	for (; count; count--) {
		u64 attr[16] = { 0 };
		u32 key = 0;
		long result;

		attr32(attr, 0, maps[first->map].fd);
		attr[1] = (u64)&key;
		attr[2] = (u64)value;
		result = bpf(MAP_LOOKUP, attr);
		if (result < 0)
			return result;
		memcpy(value + first->offset, first + 1, first->bytes);
		result = update(first->map, &key, value);
		if (result < 0)
			return result;
		first = (struct poke *)((u8 *)(first + 1) + rounded(first->bytes));
	}
	return 0;
}

static void empty_rings(void)
{
	for (u32 map = 0; map < map_count; map++)
		if (maps[map].consumer)
			*(volatile u64 *)maps[map].consumer = *(volatile u64 *)maps[map].producer;
}

static long run(struct row_record *row, u8 *frame, u32 repeat, u32 *retval, u32 *duration)
{
	u64 attr[16] = { 0 };
	u32 ctx[6] = { row->meta, row->end };
	long result;

	attr32(attr, 0, progs[row->prog].fd);
	attr32(attr, 8, row->frame_bytes);
	attr32(attr, 12, SCRATCH);
	attr[2] = (u64)frame;
	attr[3] = (u64)data_out;
	attr32(attr, 32, repeat);
	if (row->ctx) {
		attr32(attr, 40, sizeof(ctx));
		attr[6] = (u64)ctx;
	}
	result = bpf(PROG_TEST_RUN, attr);
	*retval = attr[0] >> 32;
	*duration = attr[4] >> 32;
	return result;
}

/* What profile.c looks for: NOPs, which any processor runs as such. */
#define MARK(end) __asm__ volatile(".byte 0x0f,0x1f,0x84,0x00,'x','d','p','" end "'" ::: "memory")

/* Calls of one length and of twice that, each in a window of its own: what begins and ends a call
 * is the same in both, but for calls of a single run, around which a kernel does less. Gives how
 * many pairs there were.
 */
static u32 profile(struct row_record *row, u8 *frame, struct poke *pokes)
{
	u32 retval, duration, pairs = 0, repeat = row->repeat > 1 ? row->repeat : 2;

	for (; pairs < row->windows; pairs++)
		for (u32 length = 1; length <= 2; length++) {
			long result = poke(pokes, row->pokes);

			empty_rings();
			MARK("B");
			if (result >= 0)
				result = run(row, frame, length * repeat, &retval, &duration);
			MARK("E");
			if (result < 0)
				return pairs;
		}
	return pairs;
}

static void add_row(struct row_record *row)
{
	u32 number_ = row_count++, retval = 0, duration = 0;
	u8 *frame = (u8 *)(row + 1);
	struct poke *pokes = (struct poke *)(frame + rounded(row->frame_bytes));
	long result;

	if (progs[row->prog].fd < 0)
		return;
	result = poke(pokes, row->pokes);
	if (result >= 0)
		empty_rings(), result = run(row, frame, 1, &retval, &duration);
	begin("row", number_);
	/* Only what did its work has a cost. */
	if (result >= 0 && (row->expected == NONE || retval == row->expected)) {
		text(",\"ns\":[");
		for (u32 call = 0; call < row->calls && result >= 0; call++) {
			result = poke(pokes, row->pokes);
			empty_rings();
			if (result >= 0)
				result = run(row, frame, row->repeat, &retval, &duration);
			if (call)
				put(',');
			number(duration);
		}
		put(']');
		if (result >= 0 && row->windows)
			field("windows", profile(row, frame, pokes));
	}
	field("retval", retval);
	if (result < 0)
		field("errno", -result);
	if (result >= 0 && row->report_map != NONE) {
		u64 attr[16] = { 0 };
		u32 key = 0;

		attr32(attr, 0, maps[row->report_map].fd);
		attr[1] = (u64)&key;
		attr[2] = (u64)value;
		if (bpf(MAP_LOOKUP, attr) >= 0) {
			text(",\"value\":\"");
			for (u32 i = 0; i < row->report_bytes; i++) {
				u8 byte = value[row->report_offset + i];

				put("0123456789abcdef"[byte >> 4]), put("0123456789abcdef"[byte & 15]);
			}
			put('"');
		}
	}
	finish();
}

static int is_code(char kind)
{
	return kind == 't' || kind == 'T' || kind == 'w' || kind == 'W';
}

/* The kernel's functions, as many of /proc/kallsyms as a line holds at a time. */
static void add_symbols(void)
{
	static char content[1 << 15];
	long fd = SYS(SYS_OPEN, "/proc/kallsyms", 0, 0), n;
	u32 at = 0, lines = 0;
	char symbol[256];

	if (fd < 0)
		return;
	line_bytes = 0;
	while ((n = SYS(SYS_READ, fd, content, sizeof(content))) > 0)
		for (long i = 0; i < n; i++) {
			if (content[i] != '\n') {
				if (at < sizeof(symbol))
					symbol[at++] = content[i];
				continue;
			}
			/* "ffffffff81000000 T name", at times with a module behind a tab. */
			if (at > 19 && at < sizeof(symbol) && is_code(symbol[17])) {
				if (!line_bytes)
					begin("symbols", lines), text(",\"text\":\"");
				for (u32 c = 0; c < at; c++)
					if (c < 16 || c > 18)
						put(symbol[c] >= ' ' && symbol[c] < 127 && symbol[c] != '"' &&
						    symbol[c] != '\\' ? symbol[c] : ' ');
					else if (c == 16)
						put(' ');
				text("\\n");
				lines++;
				if (line_bytes > sizeof(line) - 2 * sizeof(symbol))
					put('"'), finish(), line_bytes = 0;
			}
			at = 0;
		}
	if (line_bytes)
		put('"'), finish();
	SYS(SYS_CLOSE, fd, 0, 0);
}

static void introduce(void)
{
	static const char *vulnerabilities[] = {
		"spectre_v1", "spectre_v2", "retbleed", "spec_rstack_overflow",
		"indirect_target_selection", "meltdown", "gather_data_sampling", "vmscape",
	};
	static char names[6][65]; /* struct utsname */
	u64 attr[16] = { 0 };
	long result;

	SYS(SYS_UNAME, names, 0, 0);
	begin("guest", 1);
	quoted("release", names[2], 64);
	quoted("version", names[3], 64);
	quoted("machine", names[4], 64);
	told("jit", "/proc/sys/net/core/bpf_jit_enable");
	told("harden", "/proc/sys/net/core/bpf_jit_harden");
	told("stats", "/proc/sys/kernel/bpf_stats_enabled");
	told("clocksource", "/sys/devices/system/clocksource/clocksource0/current_clocksource");
	told("command_line", "/proc/cmdline");
	/* A map that no kernel refuses: ENOSYS is a kernel without bpf(2). */
	attr32(attr, 0, 2), attr32(attr, 4, 4), attr32(attr, 8, 4), attr32(attr, 12, 1);
	result = bpf(MAP_CREATE, attr);
	field("bpf", result < 0 ? -result : 0);
	field("btf_bytes", kernel_btf_bytes);
	finish();
	for (u32 i = 0; i < sizeof(vulnerabilities) / sizeof(*vulnerabilities); i++) {
		static char path[96] = "/sys/devices/system/cpu/vulnerabilities/";
		u32 at = sizeof("/sys/devices/system/cpu/vulnerabilities/") - 1, from = 0;

		do
			path[at++] = vulnerabilities[i][from];
		while (vulnerabilities[i][from++]);
		begin("vulnerability", i), quoted("name", vulnerabilities[i], 64);
		told("state", path), finish();
	}
}

static void turn_on(const char *path)
{
	long fd = SYS(SYS_OPEN, path, 1, 0);

	if (fd >= 0) {
		SYS(SYS_WRITE, fd, "1", 1);
		SYS(SYS_CLOSE, fd, 0, 0);
	}
}

__attribute__((used, noreturn)) static void begin_guest(void)
{
	u64 unlimited[2] = { ~0UL, ~0UL };
	u8 *bundle;
	long bytes;

	sys6(SYS_MOUNT, (long)"proc", (long)"/proc", (long)"proc", 0, 0, 0);
	sys6(SYS_MOUNT, (long)"sysfs", (long)"/sys", (long)"sysfs", 0, 0, 0);
	/* RLIMIT_MEMLOCK: kernels before 5.11 count maps against it. */
	sys6(SYS_PRLIMIT64, 0, 8, (long)unlimited, 0, 0, 0);
	turn_on("/proc/sys/net/core/bpf_jit_enable");
	bytes = slurp("/sys/kernel/btf/vmlinux", &kernel_btf);
	kernel_btf_bytes = bytes > 0 ? bytes : 0;
	introduce();
	bytes = slurp("/bundle", &bundle);
	if (bytes < 0)
		begin("bundle", bytes), finish(), leave();
	for (u8 *at = bundle; at + sizeof(struct record) <= bundle + bytes;) {
		struct record *record = (struct record *)at;
		void *content = record + 1;

		if (record->kind == RECORD_MAP)
			add_map(content);
		else if (record->kind == RECORD_BTF)
			add_btf((u8 *)content + 8, *(u32 *)content);
		else if (record->kind == RECORD_PROG)
			add_prog(content);
		else if (record->kind == RECORD_ROW) {
			/* Rows come last: now every program that a prog array holds is there. */
			if (!row_count)
				for (u32 map = 0; map < map_count; map++)
					fill(map, VALUES_PROGS);
			add_row(content);
		} else if (record->kind == RECORD_SYMBOLS)
			add_symbols();
		at += sizeof(*record) + record->bytes;
	}
	leave();
}

/* The kernel enters with the stack as the ABI has it at a call's target less the return address. */
__attribute__((naked, used, noreturn)) void _start(void)
{
	__asm__("xor %ebp, %ebp\n\tand $-16, %rsp\n\tcall begin_guest");
}
