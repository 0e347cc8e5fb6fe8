/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A QEMU plugin: how often each guest instruction ran between two markers.
 *
 * A marker is an 8-byte NOP whose displacement says what it is (runner.c has the same numbers). At
 * the end of each such window every address that ran in it is written with its count, for symbols.py
 * to make functions of.
 *
 * Compiled on the user's machine, where QEMU's header is not packaged: what is used of it is declared
 * here. Declarations are weak, since plugin interfaces from 3 on have no inline counter for one
 * instruction, and another signature for its bytes; there a callback counts.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PUBLIC __attribute__((visibility("default")))
#define MAYBE __attribute__((weak))

typedef uint64_t plugin_id;
struct insn;
struct block;
enum inline_op { ADD_U64 };
enum callback_flags { NO_REGS };

struct qemu_info {
	const char *target;
	struct { int min, cur; } version;
	bool is_system;
};

void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, void (*)(plugin_id, struct block *));
void qemu_plugin_register_vcpu_insn_exec_cb(struct insn *, void (*)(unsigned, void *),
					    enum callback_flags, void *);
MAYBE void qemu_plugin_register_vcpu_insn_exec_inline(struct insn *, enum inline_op, void *, uint64_t);
size_t qemu_plugin_tb_n_insns(const struct block *);
struct insn *qemu_plugin_tb_get_insn(const struct block *, size_t);
/* Since interface 3 the caller gives the place and its size; before, a pointer came back. */
MAYBE const void *qemu_plugin_insn_data(const struct insn *, void *, size_t);
size_t qemu_plugin_insn_size(const struct insn *);
uint64_t qemu_plugin_insn_vaddr(const struct insn *);
void qemu_plugin_register_atexit_cb(plugin_id, void (*)(plugin_id, void *), void *);

PUBLIC int qemu_plugin_version = INTERFACE;

enum { SLOTS = 1 << 20, PER_CHUNK = 4096, MARKER_BYTES = 8, COPIES_BYTES = 3 };

struct counter { uint64_t address, count, before; };

static struct counter *slots[SLOTS];
static struct counter *chunk;
static unsigned used;
static FILE *out;
static unsigned windows;
static bool counts_by_callback, copies_bytes;

static struct counter *counter_of(uint64_t address)
{
	unsigned at = (address * 0x9e3779b97f4a7c15ull >> 44) & (SLOTS - 1);

	while (slots[at] && slots[at]->address != address)
		at = (at + 1) & (SLOTS - 1);
	if (!slots[at]) {
		if (used == SLOTS / 2) {
			fprintf(stderr, "xdplab's plugin: more instructions than it has room for\n");
			exit(1);
		}
		/* Counters never move: what QEMU generated adds to their addresses. */
		if (used % PER_CHUNK == 0 && !(chunk = calloc(PER_CHUNK, sizeof(*chunk)))) {
			fprintf(stderr, "xdplab's plugin: there is not enough memory\n");
			exit(1);
		}
		slots[at] = &chunk[used++ % PER_CHUNK];
		slots[at]->address = address;
	}
	return slots[at];
}

static void begin(unsigned cpu, void *data)
{
	(void)cpu, (void)data;
	for (unsigned at = 0; at < SLOTS; at++)
		if (slots[at])
			slots[at]->before = slots[at]->count;
}

static void end(unsigned cpu, void *data)
{
	(void)cpu, (void)data;
	fprintf(out, "window %u\n", windows++);
	for (unsigned at = 0; at < SLOTS; at++)
		if (slots[at] && slots[at]->count != slots[at]->before)
			fprintf(out, "%llx %llu\n", (unsigned long long)slots[at]->address,
				(unsigned long long)(slots[at]->count - slots[at]->before));
}

static void add(unsigned cpu, void *counter)
{
	(void)cpu;
	((struct counter *)counter)->count++;
}

/* nopl disp32(%rax,%rax,1), the displacement "xdp" and 'B' or 'E'. */
static int marker(struct insn *insn)
{
	static const unsigned char head[] = { 0x0f, 0x1f, 0x84, 0x00, 'x', 'd', 'p' };
	unsigned char copy[MARKER_BYTES];
	const unsigned char *bytes = copy;

	if (qemu_plugin_insn_size(insn) != MARKER_BYTES)
		return 0;
	if (copies_bytes)
		qemu_plugin_insn_data(insn, copy, sizeof(copy));
	else
		bytes = qemu_plugin_insn_data(insn, NULL, 0);
	return memcmp(bytes, head, sizeof(head)) ? 0 : bytes[7];
}

static void translated(plugin_id id, struct block *block)
{
	size_t insns = qemu_plugin_tb_n_insns(block);

	(void)id;
	for (size_t at = 0; at < insns; at++) {
		struct insn *insn = qemu_plugin_tb_get_insn(block, at);
		struct counter *counter = counter_of(qemu_plugin_insn_vaddr(insn));
		int mark = marker(insn);

		if (mark == 'B' || mark == 'E')
			qemu_plugin_register_vcpu_insn_exec_cb(insn, mark == 'B' ? begin : end, NO_REGS, NULL);
		else if (counts_by_callback)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, add, NO_REGS, counter);
		else
			qemu_plugin_register_vcpu_insn_exec_inline(insn, ADD_U64, &counter->count, 1);
	}
}

static void finished(plugin_id id, void *data)
{
	(void)id, (void)data;
	fprintf(out, "end %u\n", windows);
	fclose(out);
}

PUBLIC int qemu_plugin_install(plugin_id id, const struct qemu_info *info, int count, char **words)
{
	counts_by_callback = !qemu_plugin_register_vcpu_insn_exec_inline;
	copies_bytes = info->version.cur >= COPIES_BYTES;
	for (int at = 0; at < count; at++)
		if (!strncmp(words[at], "out=", 4))
			out = fopen(words[at] + 4, "w");
	if (!out) {
		fprintf(stderr, "xdplab's plugin: its output cannot be written\n");
		return -1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	qemu_plugin_register_atexit_cb(id, finished, NULL);
	return 0;
}
