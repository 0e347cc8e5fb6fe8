"""What this kernel lets this process do: tried out, never concluded from a version.

A probe ends in one of three ways. Supported and not supported are conclusive and kept for
the life of the process; could not tell (a right is missing, say) is tried again.
"""

from __future__ import annotations

import enum
import errno
import functools
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from xdplab.errors import NotPossibleError, XdplabError
from xdplab.kernel import bpf, kernel_btf
from xdplab.kernel.namespace import LOOPBACK_IFINDEX, NetworkNamespace
from xdplab.kernel.testrun import TestRun

KFUNCS = ("bpf_dynptr_from_xdp", "bpf_dynptr_slice", "bpf_xdp_pull_data")
"""kfuncs that packet access by name depends on; each is a probe of its own."""

_STATUS = Path("/proc/self/status")
_UID_MAP = Path("/proc/self/uid_map")

# Bit numbers in CapEff, from linux/capability.h.
_CAPABILITIES = {"CAP_NET_ADMIN": 12, "CAP_SYS_ADMIN": 21, "CAP_BPF": 39}
# r0 = XDP_PASS; exit
_PASS = bytes.fromhex("b700000002000000 9500000000000000")
_ENOTSUPP = 524
_REFUSED = frozenset({errno.EINVAL, errno.EOPNOTSUPP, _ENOTSUPP})


class Probe(enum.Enum):
    """How a probe ended."""

    SUPPORTED = "supported"
    NOT_SUPPORTED = "not supported"
    UNKNOWN = "could not tell"


@dataclass(frozen=True, slots=True)
class ProbeOutcome:
    """`reason` says what was looked at or what happened; `remedy` is "" where there is none."""

    probe: Probe
    reason: str
    remedy: str = ""


_conclusive: dict[str, ProbeOutcome] = {}


def probe(name: str) -> ProbeOutcome:
    """Try one feature by its stable name, a key of `probe_all()`. Raises nothing."""
    if name in _conclusive:
        return _conclusive[name]
    outcome = _on_linux(_PROBES[name])
    if outcome.probe is not Probe.UNKNOWN:
        _conclusive[name] = outcome
    return outcome


def probe_all() -> dict[str, ProbeOutcome]:
    """Every probe's outcome by name, in the order in which they build on each other."""
    return {name: probe(name) for name in _PROBES}


def require_kernel_engine() -> None:
    """NotPossibleError, saying what is missing and the remedy, unless test runs can be timed."""
    for name in ("bpf_syscall", "libbpf", "netns", "test_run"):
        outcome = probe(name)
        if outcome.probe is not Probe.SUPPORTED:
            remedy = outcome.remedy or "nothing is known to cure it; `xdplab doctor` tells more"
            raise NotPossibleError(
                f"programs cannot be measured in the kernel: {outcome.reason}. "
                f"{remedy[0].upper()}{remedy[1:]}"
            )


def _as_root() -> str:
    # sudo looks for commands on a PATH of its own: name what was called, wherever it lies.
    script = Path(sys.argv[0])
    called = shutil.which(sys.argv[0])
    if script.name == "__main__.py":
        command = [sys.executable, "-m", script.parent.name]
    elif called:
        # Not resolved: a link into an environment's bin is what tells Python where it belongs.
        command = [str(Path.cwd() / called)]
    else:
        command = [sys.executable, *([str(script)] if script.is_file() else ["-m", "xdplab"])]
    return (
        "run it as root, who has CAP_BPF, CAP_NET_ADMIN and CAP_SYS_ADMIN: "
        f"sudo {shlex.join([*command, *sys.argv[1:]])}"
    )


def _on_linux(function: Callable[[], ProbeOutcome]) -> ProbeOutcome:
    if sys.platform != "linux":
        return ProbeOutcome(
            Probe.NOT_SUPPORTED,
            f"this is {sys.platform}, not Linux",
            "run xdplab on Linux, as root",
        )
    try:
        return function()
    except XdplabError as error:
        return ProbeOutcome(Probe.UNKNOWN, str(error))
    except OSError as error:
        return ProbeOutcome(Probe.UNKNOWN, f"trying it failed: {error.strerror}")


def _supported(reason: str) -> ProbeOutcome:
    return ProbeOutcome(Probe.SUPPORTED, reason)


def _bpf_syscall() -> ProbeOutcome:
    try:
        os.close(bpf.prog_load(_PASS)[0])
    except OSError as error:
        if error.errno == errno.ENOSYS:
            # A seccomp filter may answer so as well, but here the outcome is the same.
            return ProbeOutcome(
                Probe.NOT_SUPPORTED,
                "the kernel, or the sandbox around this process, has no bpf(2) (ENOSYS)",
                "run xdplab on a Linux kernel with CONFIG_BPF_SYSCALL, outside the sandbox",
            )
        if error.errno in {errno.EPERM, errno.EACCES}:
            return _refused("loading a BPF program", ("CAP_BPF", "CAP_NET_ADMIN"))
        raise
    return _supported("a program of two instructions was loaded")


def _refused(tried: str, needed: tuple[str, ...]) -> ProbeOutcome:
    """Why a privileged call gave EPERM: what /proc says of this process's rights."""
    status = _read(_STATUS)
    name = f"{tried} was refused (EPERM)"
    missing = missing_capabilities(status, needed)
    if missing:
        return ProbeOutcome(
            Probe.UNKNOWN, f"{name}: this process lacks {' and '.join(missing)}", _as_root()
        )
    # The first user namespace maps all 2^32 - 1 ids; the kernel asks for rights there.
    if _read(_UID_MAP).split() != ["0", "0", "4294967295"]:
        return ProbeOutcome(
            Probe.UNKNOWN,
            f"{name}: this root is that of a user namespace, such as a rootless container's",
            "run it as the root of the machine, outside the container",
        )
    if re.search(r"^Seccomp:\s*2", status, re.MULTILINE):
        return ProbeOutcome(
            Probe.UNKNOWN,
            f"{name} although this process has the right: a seccomp filter forbids it",
            "run it outside the container, or start that with --privileged",
        )
    return ProbeOutcome(
        Probe.UNKNOWN,
        f"{name} although this process has the right: a security module or lockdown forbids it",
        "see /sys/kernel/security/lockdown and the audit log",
    )


def missing_capabilities(status: str, needed: tuple[str, ...]) -> tuple[str, ...]:
    """Those of `needed` that CapEff in the text of /proc/PID/status lacks.

    CAP_SYS_ADMIN stands for CAP_BPF and CAP_NET_ADMIN wherever bpf(2) asks for them.
    """
    found = re.search(r"^CapEff:\s*([0-9a-f]+)", status, re.MULTILINE)
    effective = int(found.group(1), 16) if found else 0
    held = {name for name, bit in _CAPABILITIES.items() if effective >> bit & 1}
    return () if "CAP_SYS_ADMIN" in held else tuple(name for name in needed if name not in held)


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _libbpf() -> ProbeOutcome:
    from xdplab.kernel import libbpf

    try:
        libbpf.library()
    except NotPossibleError as error:
        # What is installed while the process runs counts the next time.
        return ProbeOutcome(
            Probe.UNKNOWN,
            str(error).partition(". ")[0],
            "install libbpf (Debian and Ubuntu: apt-get install libbpf1; Fedora: dnf install "
            "libbpf)",
        )
    return _supported("libbpf.so.1 was loaded")


def _btf() -> ProbeOutcome:
    if not kernel_btf.VMLINUX.exists():
        return ProbeOutcome(
            Probe.NOT_SUPPORTED,
            f"{kernel_btf.VMLINUX} is not there",
            "a kernel with CONFIG_DEBUG_INFO_BTF has it",
        )
    with kernel_btf.VMLINUX.open("rb") as file:
        file.read(1)
    return _supported(f"{kernel_btf.VMLINUX} is readable")


def _jit() -> ProbeOutcome:
    def compiled(fd: int) -> ProbeOutcome:
        size = bpf.prog_info(fd).jited_bytes
        if size:
            return _supported(f"a loaded program has {size} bytes of machine code")
        # root may switch it on at any time
        return ProbeOutcome(
            Probe.UNKNOWN,
            "a loaded program has no machine code: the JIT is off",
            "sysctl net.core.bpf_jit_enable=1",
        )

    return _with_program(compiled)


def _with_program(use: Callable[[int], ProbeOutcome], prog_flags: int = 0) -> ProbeOutcome:
    base = probe("bpf_syscall")
    if base.probe is not Probe.SUPPORTED:
        return ProbeOutcome(base.probe, "it is tried with a program, and none can be loaded")
    try:
        fd, _ = bpf.prog_load(_PASS, prog_flags=prog_flags)
    except OSError as error:
        return _verdict("loading a program with these flags", error)
    try:
        return use(fd)
    finally:
        os.close(fd)


def _verdict(tried: str, error: OSError) -> ProbeOutcome:
    number = error.errno or 0
    name = errno.errorcode.get(number, "ENOTSUPP" if number == _ENOTSUPP else str(number))
    if number == errno.EPERM:
        return _refused(tried, ("CAP_BPF", "CAP_NET_ADMIN"))
    outcome = Probe.NOT_SUPPORTED if number in _REFUSED else Probe.UNKNOWN
    return ProbeOutcome(outcome, f"{tried} gave {name}")


def _netns() -> ProbeOutcome:
    try:
        NetworkNamespace().close()
    except NotPossibleError:
        return _refused("making a network namespace", ("CAP_SYS_ADMIN",))
    return _supported("one was made and given up")


def _test_run() -> ProbeOutcome:
    def run(fd: int) -> ProbeOutcome:
        once = TestRun(fd, bytes(64))
        try:
            once(1)
        except OSError as error:
            return _verdict("a test run", error)
        return _supported(f"a test run returned {once.retval}")

    return _with_program(run)


def _xdp_link() -> ProbeOutcome:
    def attach(fd: int) -> ProbeOutcome:
        namespace = NetworkNamespace()
        try:
            with namespace:
                os.close(bpf.link_create_xdp(fd, LOOPBACK_IFINDEX, bpf.XDP_FLAGS_SKB_MODE))
        except OSError as error:
            return _verdict("attaching to lo of a namespace", error)
        finally:
            namespace.close()
        return _supported("a program was attached to lo of a namespace in generic mode")

    if probe("netns").probe is not Probe.SUPPORTED:
        return ProbeOutcome(
            Probe.UNKNOWN, "it is tried in a network namespace, and none is to be had"
        )
    return _with_program(attach)


def _xdp_frags() -> ProbeOutcome:
    return _with_program(
        lambda fd: _supported("a program was loaded with BPF_F_XDP_HAS_FRAGS"),
        prog_flags=bpf.PROG_F_XDP_HAS_FRAGS,
    )


def _kfunc(name: str) -> ProbeOutcome:
    base = probe("btf")
    if base.probe is not Probe.SUPPORTED:
        return ProbeOutcome(
            Probe.UNKNOWN, f"it is looked up in the kernel's BTF, and {base.reason}"
        )
    if kernel_btf.has_function(name):
        return _supported("the kernel's BTF has it as a function; only that was looked at")
    return ProbeOutcome(
        Probe.NOT_SUPPORTED,
        f"the kernel's BTF has no function {name}; only that was looked at",
        "a newer kernel may have it",
    )


_PROBES: Mapping[str, Callable[[], ProbeOutcome]] = {
    "bpf_syscall": _bpf_syscall,
    "libbpf": _libbpf,
    "btf": _btf,
    "jit": _jit,
    "netns": _netns,
    "test_run": _test_run,
    "xdp_link": _xdp_link,
    "xdp_frags": _xdp_frags,
    **{name: functools.partial(_kfunc, name) for name in KFUNCS},
}
