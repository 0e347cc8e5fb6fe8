/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * For XDP programs whose packets go to an AF_XDP socket of xdplab with metadata="sealed": the
 * kernel copies metadata before the packet, but does not tell user space how long it is. A seal of
 * four bytes, between the metadata and the packet, does. Include it behind <linux/bpf.h> or
 * vmlinux.h; docs/af-xdp.md has an example.
 */
#ifndef XDPLAB_SEAL_BPF_H
#define XDPLAB_SEAL_BPF_H

#define SEAL_MAGIC 0x5844

struct metadata_seal {
	__u16 length_bytes;
	__u16 magic;
};

/* Words of metadata that XDP allows: less than 256 bytes. */
#define SEAL_METADATA_WORDS 63

/*
 * Put the seal before the packet and move what metadata there is down by its size. Returns 0, or
 * the kernel's refusal: no room, or a driver without metadata; then nothing has changed. Pointers
 * into the packet are to be read from ctx again.
 */
static inline __attribute__((always_inline)) int seal_metadata(struct xdp_md *ctx)
{
	/* Not by the helper's own name, which the includer may have declared in a way of its own. */
	long (*const adjust_meta)(struct xdp_md *ctx, int delta) = (void *)54;
	__u32 length = ctx->data - ctx->data_meta;
	int error = adjust_meta(ctx, -(int)sizeof(struct metadata_seal));
	struct metadata_seal *seal;
	__u32 *word;
	void *data;

	if (error)
		return error;
	word = (void *)(long)ctx->data_meta;
	data = (void *)(long)ctx->data;
	for (int turn = 0; turn < SEAL_METADATA_WORDS; turn++) {
		if ((void *)(word + 2) > data)
			break;
		word[0] = word[1];
		word++;
	}
	seal = (void *)word;
	if ((void *)(seal + 1) > data)
		return 0;
	seal->length_bytes = length;
	seal->magic = SEAL_MAGIC;
	return 0;
}

#endif
