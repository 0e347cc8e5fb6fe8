"""Which CPU measures: one for each process, so that two runs at once do not time each other.

A CPU is claimed by a name among the abstract Unix sockets, which the kernel gives back when the
process ends, however it ends, and which leaves nothing in any folder.
"""

from __future__ import annotations

import os
import resource
import socket
import sys

_NAME = "\0xdplab-measures-on-cpu-{cpu}"
_claims: dict[int, socket.socket] = {}


def pinned_cpu() -> int | None:
    """The CPU that sessions of this process run on, None where a thread cannot be pinned.

    CPU 0 serves most interrupts on most machines; the last is as good and quieter. The last that
    no other process measures on, that is; where all are taken, the last all the same.
    """
    if sys.platform != "linux":
        return None
    allowed = sorted(os.sched_getaffinity(0), reverse=True)
    return next((cpu for cpu in allowed if _claim(cpu)), allowed[0])


def is_shared(cpu: int | None) -> bool:
    """Whether another process of xdplab measures on that CPU, too."""
    return cpu is not None and not _claim(cpu)


def _claim(cpu: int) -> bool:
    if cpu in _claims:
        return True
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
    try:
        claim.bind(_NAME.format(cpu=cpu))
    except OSError:
        claim.close()
        return False
    _claims[cpu] = claim
    return True


def involuntary_switches() -> int:
    """How often the kernel took the CPU from the calling thread (getrusage(2), ru_nivcsw); always
    0 where a thread is not told."""
    if sys.platform != "linux":
        return 0
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw
