"""The rows of the price list: what each of its programs measures, and against what.

A longer list is a new line here and a program of that name in bpf/calls*.bpf.c.
"""

from __future__ import annotations

from dataclasses import dataclass

EMPTY, KEY, CALL, INDIRECT = "empty", "key-alone", "function-call", "indirect-call"
"""Names of what rows are measured against, and of the indirect call."""

OPERATIONS = 500
"""Turns of a program's loop (bpf/calls.bpf.h)."""

TAIL_CALLS_A_RUN = 33
"""MAX_TAIL_CALL_CNT (linux/bpf.h), of which a program that counts them makes sure."""


@dataclass(frozen=True, slots=True)
class Price:
    """A row: program `program` of `object` (bpf/OBJECT.bpf.c), measured against `against`.

    `kernel_ns` and `user_ns` are what it took on each engine where docs/method.md was written. No
    table shows them: rows that a run cannot tell apart stand in their order. `operations` is how
    many a run makes.
    """

    program: str
    kind: str
    kernel_ns: float
    user_ns: float
    title: str
    object: str
    against: str
    operations: int = OPERATIONS

    @property
    def variant(self) -> str:
        """Its name in the result document."""
        return self.program.replace("_", "-")


def _of(
    object_name: str,
    rows: tuple[tuple[str, str, float, float, str], ...],
    against: str = EMPTY,
    operations: int = OPERATIONS,
) -> tuple[Price, ...]:
    return tuple(Price(*row, object_name, against, operations) for row in rows)


PRICES = (
    *_of(
        "calls",
        (
            ("helper_call", "call", 0.26, 0.25, "helper call (bpf_get_numa_node_id)"),
            ("function_call", "call", 0.5, 0.12, "BPF-to-BPF call"),
            ("indirect_call", "call", 10.1, 0.93, "indirect call (bpf_loop, of two callbacks)"),
            ("bpf_loop_turn", "loop", 0.51, 0.94, "bpf_loop, each turn"),
            ("jiffies64", "helper", 0.01, 3.83, "bpf_jiffies64"),
            ("get_smp_processor_id", "helper", 0.16, 0.16, "bpf_get_smp_processor_id"),
            ("ktime_get_coarse_ns", "helper", 2.24, 3.35, "bpf_ktime_get_coarse_ns"),
            ("get_prandom_u32", "helper", 3.27, 1.66, "bpf_get_prandom_u32"),
            ("ktime_get_ns", "helper", 22.6, 16.5, "bpf_ktime_get_ns"),
            ("ktime_get_boot_ns", "helper", 23.5, 16.5, "bpf_ktime_get_boot_ns"),
            ("atomic_xchg", "atomic", 3.84, 3.84, "atomic xchg"),
            ("atomic_add", "atomic", 4.07, 4.08, "atomic add"),
            ("atomic_fetch_add", "atomic", 4.07, 4.07, "atomic fetch_add"),
            ("atomic_cmpxchg", "atomic", 4.37, 4.35, "atomic cmpxchg"),
        ),
    ),
    *_of(
        "calls",
        (("bpf_loop_once", "loop", 1.79, 2.54, "bpf_loop, called for one turn"),),
        against=CALL,
    ),
    *_of(
        "calls_kfunc",
        (
            ("kfunc_call", "call", 0.5, 0.27, "kfunc call (bpf_dynptr_size)"),
            ("iterator_turn", "loop", 0.57, 0.35, "bpf_iter_num_next, each turn"),
            ("dynptr_from_xdp", "packet", 1.75, 0.56, "dynptr_from_xdp"),
            ("dynptr_slice_34", "packet", 3.22, 2.68, "dynptr_slice of 34 B"),
        ),
    ),
    *_of(
        "calls_kfunc",
        (("iterator_once", "loop", 5.96, 3.36, "bpf_iter_num, all of one turn"),),
        against=CALL,
    ),
    *_of(
        "calls_tail",
        (("tail_call_constant", "call", 1.0, 1.24, "tail call, index constant"),),
        against="no-tail-call-constant",
        operations=TAIL_CALLS_A_RUN,
    ),
    *_of(
        "calls_tail",
        (("tail_call_variable", "call", 12.0, 1.29, "tail call, index known at run time"),),
        against="no-tail-call-variable",
        operations=TAIL_CALLS_A_RUN,
    ),
    *_of(
        "calls_maps",
        (
            ("lookup_array_16", "map", 0.34, 0.64, "array lookup, 16 entries"),
            ("lookup_array_1024", "map", 0.51, 0.83, "array lookup, 1024 entries"),
            ("lookup_percpu_array", "map", 0.64, 0.98, "per-CPU array lookup"),
            ("lookup_array_of_maps", "map", 0.71, 2.66, "array of maps, then array lookup"),
            ("update_array", "map", 6.19, 2.26, "array update"),
            ("update_percpu_array", "map", 6.5, 2.3, "per-CPU array update"),
            ("update_array_values64", "map", 6.34, 5.82, "array update, values of 64 B"),
            ("lookup_hash_16", "map", 13.4, 11.4, "hash lookup, 16 entries"),
            ("miss_hash", "map", 13.7, 14.0, "hash lookup, not there"),
            ("lookup_hash_of_maps", "map", 13.7, 13.0, "hash of maps, then array lookup"),
            ("lookup_lru_hash", "map", 8.4, 7.02, "LRU hash lookup"),
            ("lookup_hash_keys16", "map", 15.6, 14.8, "hash lookup, keys of 16 B"),
            ("lookup_lpm_trie_16", "map", 12.0, 15.3, "LPM trie lookup, 16 prefixes"),
            ("lookup_hash_1024", "map", 14.8, 12.0, "hash lookup, 1024 entries"),
            ("lookup_percpu_hash", "map", 15.2, 12.2, "per-CPU hash lookup"),
            ("lookup_hash_4096", "map", 16.3, 13.0, "hash lookup, 4096 entries"),
            ("update_percpu_hash", "map", 26.2, 14.9, "per-CPU hash update"),
            ("lookup_hash_keys64", "map", 32.4, 30.5, "hash lookup, keys of 64 B"),
            ("update_hash", "map", 35.8, 18.6, "hash update"),
            (
                "insert_delete_hash_allocating",
                "map",
                59.6,
                18.7,
                "hash insert and delete, allocating",
            ),
            ("lookup_lpm_trie_64", "map", 18.8, 20.5, "LPM trie lookup, 64 prefixes"),
            ("insert_delete_hash", "map", 79.0, 15.6, "hash insert and delete"),
            ("insert_lru_hash", "map", 82.6, 31.1, "LRU hash insert into a full map"),
            ("update_lru_hash", "map", 79.0, 10.7, "LRU hash update"),
        ),
        against=KEY,
    ),
    *_of(
        "calls_maps",
        (
            ("spin_lock", "atomic", 17.7, 8.61, "bpf_spin_lock and unlock"),
            ("for_each_array", "loop", 9.86, 1.23, "bpf_for_each_map_elem, each entry of an array"),
            ("peek_bloom_filter", "map", 21.5, 12.8, "Bloom filter peek"),
            ("push_pop_queue", "map", 29.8, 5.6, "queue push and pop"),
            ("push_pop_stack", "map", 29.9, 5.11, "stack push and pop"),
        ),
    ),
    *_of(
        "calls_packet",
        (
            ("csum_diff_40", "helper", 2.47, 3.67, "csum_diff of 40 B"),
            ("csum_diff_4", "helper", 2.69, 1.95, "csum_diff of 4 B"),
            ("csum_diff_20", "helper", 2.72, 2.97, "csum_diff of 20 B"),
            ("csum_diff_512", "helper", 10.7, 17.0, "csum_diff of 512 B"),
            ("get_buff_len", "packet", 0.66, 0.28, "xdp_get_buff_len"),
            ("redirect", "packet", 0.75, 0.77, "bpf_redirect"),
            ("redirect_map", "packet", 1.6, 1.0, "bpf_redirect_map, devmap"),
            ("adjust_meta_pair", "packet", 2.21, 1.85, "adjust_meta by 8 B and back"),
            ("adjust_head_pair", "packet", 3.14, 2.91, "adjust_head by 20 B and back"),
            ("load_bytes_14", "packet", 5.05, 2.1, "xdp_load_bytes of 14 B"),
            ("load_bytes_4", "packet", 4.91, 2.23, "xdp_load_bytes of 4 B"),
            ("load_bytes_34", "packet", 4.86, 2.2, "xdp_load_bytes of 34 B"),
            ("store_bytes_34", "packet", 4.97, 1.97, "xdp_store_bytes of 34 B"),
            ("load_bytes_64", "packet", 4.9, 2.19, "xdp_load_bytes of 64 B"),
            ("adjust_tail_pair", "packet", 5.9, 2.96, "adjust_tail by 20 B and back"),
            ("load_bytes_256", "packet", 10.3, 2.68, "xdp_load_bytes of 256 B"),
            ("fib_lookup", "packet", 28.8, 8.64, "bpf_fib_lookup, next hop known"),
            ("ringbuf_reserve_submit", "ring", 20.1, 1.67, "ringbuf reserve and submit, 8 B"),
            ("ringbuf_reserve_discard", "ring", 20.1, 1.64, "ringbuf reserve and discard, 8 B"),
            ("ringbuf_output_8", "ring", 21.8, 2.34, "ringbuf_output of 8 B"),
            ("ringbuf_output_64", "ring", 21.8, 3.05, "ringbuf_output of 64 B"),
        ),
    ),
)
