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
            ("helper_call", "call", 0.27, 0.25, "helper call (bpf_get_numa_node_id)"),
            ("function_call", "call", 0.51, 0.12, "BPF-to-BPF call"),
            ("indirect_call", "call", 10.2, 0.94, "indirect call (bpf_loop, of two callbacks)"),
            ("bpf_loop_turn", "loop", 0.52, 0.95, "bpf_loop, each turn"),
            ("jiffies64", "helper", 0.01, 3.86, "bpf_jiffies64"),
            ("get_smp_processor_id", "helper", 0.16, 0.16, "bpf_get_smp_processor_id"),
            ("ktime_get_coarse_ns", "helper", 2.26, 3.38, "bpf_ktime_get_coarse_ns"),
            ("get_prandom_u32", "helper", 3.31, 1.66, "bpf_get_prandom_u32"),
            ("ktime_get_ns", "helper", 22.9, 16.7, "bpf_ktime_get_ns"),
            ("ktime_get_boot_ns", "helper", 23.8, 16.7, "bpf_ktime_get_boot_ns"),
            ("atomic_xchg", "atomic", 3.89, 3.87, "atomic xchg"),
            ("atomic_add", "atomic", 4.12, 4.11, "atomic add"),
            ("atomic_fetch_add", "atomic", 4.12, 4.1, "atomic fetch_add"),
            ("atomic_cmpxchg", "atomic", 4.43, 4.38, "atomic cmpxchg"),
        ),
    ),
    *_of(
        "calls",
        (("bpf_loop_once", "loop", 1.81, 2.55, "bpf_loop, called for one turn"),),
        against=CALL,
    ),
    *_of(
        "calls_kfunc",
        (
            ("kfunc_call", "call", 0.51, 0.27, "kfunc call (bpf_dynptr_size)"),
            ("iterator_turn", "loop", 0.58, 0.35, "bpf_iter_num_next, each turn"),
            ("dynptr_from_xdp", "packet", 1.78, 0.57, "dynptr_from_xdp"),
            ("dynptr_slice_34", "packet", 3.26, 2.69, "dynptr_slice of 34 B"),
        ),
    ),
    *_of(
        "calls_kfunc",
        (("iterator_once", "loop", 5.96, 3.38, "bpf_iter_num, all of one turn"),),
        against=CALL,
    ),
    *_of(
        "calls_tail",
        (("tail_call_constant", "call", 1.03, 1.24, "tail call, index constant"),),
        against="no-tail-call-constant",
        operations=TAIL_CALLS_A_RUN,
    ),
    *_of(
        "calls_tail",
        (("tail_call_variable", "call", 12.2, 1.27, "tail call, index known at run time"),),
        against="no-tail-call-variable",
        operations=TAIL_CALLS_A_RUN,
    ),
    *_of(
        "calls_maps",
        (
            ("lookup_array_16", "map", 0.39, 0.45, "array lookup, 16 entries"),
            ("lookup_array_1024", "map", 0.61, 0.7, "array lookup, 1024 entries"),
            ("lookup_percpu_array", "map", 0.69, 0.84, "per-CPU array lookup"),
            ("lookup_array_of_maps", "map", 0.81, 2.46, "array of maps, then array lookup"),
            ("update_array", "map", 6.36, 1.5, "array update"),
            ("update_percpu_array", "map", 6.55, 1.74, "per-CPU array update"),
            ("update_array_values64", "map", 6.49, 5.9, "array update, values of 64 B"),
            ("lookup_hash_16", "map", 6.75, 5.07, "hash lookup, 16 entries"),
            ("miss_hash", "map", 6.3, 6.14, "hash lookup, not there"),
            ("lookup_hash_of_maps", "map", 7.2, 6.01, "hash of maps, then array lookup"),
            ("lookup_lru_hash", "map", 8.58, 6.44, "LRU hash lookup"),
            ("lookup_hash_keys16", "map", 11.5, 10.2, "hash lookup, keys of 16 B"),
            ("lookup_lpm_trie_16", "map", 12.3, 9.16, "LPM trie lookup, 16 prefixes"),
            ("lookup_hash_1024", "map", 12.3, 7.76, "hash lookup, 1024 entries"),
            ("lookup_percpu_hash", "map", 12.5, 7.86, "per-CPU hash lookup"),
            ("lookup_hash_4096", "map", 16.1, 12.1, "hash lookup, 4096 entries"),
            ("update_percpu_hash", "map", 26.5, 12.4, "per-CPU hash update"),
            ("lookup_hash_keys64", "map", 29.6, 26.4, "hash lookup, keys of 64 B"),
            ("update_hash", "map", 36.3, 19.6, "hash update"),
            (
                "insert_delete_hash_allocating",
                "map",
                59.6,
                18.7,
                "hash insert and delete, allocating",
            ),
            ("lookup_lpm_trie_1024", "map", 68.7, 28.4, "LPM trie lookup, 1024 prefixes"),
            ("insert_delete_hash", "map", 80.7, 15.7, "hash insert and delete"),
            ("insert_lru_hash", "map", 84.0, 31.3, "LRU hash insert into a full map"),
            ("update_lru_hash", "map", 83.9, 10.2, "LRU hash update"),
        ),
        against=KEY,
    ),
    *_of(
        "calls_maps",
        (
            ("spin_lock", "atomic", 17.9, 8.68, "bpf_spin_lock and unlock"),
            ("for_each_array", "loop", 9.98, 1.24, "bpf_for_each_map_elem, each entry of an array"),
            ("peek_bloom_filter", "map", 21.8, 12.8, "Bloom filter peek"),
            ("push_pop_queue", "map", 30.3, 5.64, "queue push and pop"),
            ("push_pop_stack", "map", 30.4, 5.15, "stack push and pop"),
        ),
    ),
    *_of(
        "calls_packet",
        (
            ("csum_diff_40", "helper", 2.5, 3.69, "csum_diff of 40 B"),
            ("csum_diff_4", "helper", 2.73, 1.97, "csum_diff of 4 B"),
            ("csum_diff_20", "helper", 2.75, 3.0, "csum_diff of 20 B"),
            ("csum_diff_512", "helper", 10.8, 17.1, "csum_diff of 512 B"),
            ("get_buff_len", "packet", 0.67, 0.28, "xdp_get_buff_len"),
            ("redirect", "packet", 0.77, 0.78, "bpf_redirect"),
            ("redirect_map", "packet", 1.61, 1.01, "bpf_redirect_map, devmap"),
            ("adjust_meta_pair", "packet", 2.24, 1.86, "adjust_meta by 8 B and back"),
            ("adjust_head_pair", "packet", 3.16, 2.93, "adjust_head by 20 B and back"),
            ("load_bytes_14", "packet", 5.02, 2.12, "xdp_load_bytes of 14 B"),
            ("load_bytes_4", "packet", 4.91, 2.25, "xdp_load_bytes of 4 B"),
            ("load_bytes_34", "packet", 5.0, 2.22, "xdp_load_bytes of 34 B"),
            ("store_bytes_34", "packet", 5.08, 1.98, "xdp_store_bytes of 34 B"),
            ("load_bytes_64", "packet", 4.97, 2.21, "xdp_load_bytes of 64 B"),
            ("adjust_tail_pair", "packet", 5.91, 2.98, "adjust_tail by 20 B and back"),
            ("load_bytes_256", "packet", 10.4, 2.7, "xdp_load_bytes of 256 B"),
            ("fib_lookup", "packet", 29.2, 8.7, "bpf_fib_lookup, next hop known"),
            ("ringbuf_reserve_submit", "ring", 20.4, 1.71, "ringbuf reserve and submit, 8 B"),
            ("ringbuf_reserve_discard", "ring", 20.4, 1.65, "ringbuf reserve and discard, 8 B"),
            ("ringbuf_output_8", "ring", 22.0, 2.38, "ringbuf_output of 8 B"),
            ("ringbuf_output_64", "ring", 22.0, 3.05, "ringbuf_output of 64 B"),
        ),
    ),
)
