"""The machine's facts that figures depend on, read from /proc and /sys without any right.

What cannot be read is None, on Linux and elsewhere: an unknown is an answer, a crash is
none. Nothing is judged here; disturbances.py does that.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import re
from importlib import resources
from pathlib import Path
from typing import Any

from xdplab.kernel.mitigations import call_mitigations, in_force

# What decides how memory is cleared and copied, how time is kept and what a call costs.
_FLAGS_OF_INTEREST = re.compile(
    r"avx2|avx512f|erms|fsrm|fsrs|fzrm|constant_tsc|nonstop_tsc|tsc_known_freq|hypervisor|"
    r"ibrs_enhanced|ibt|asimd|atomics|sve2?|sb|bti"
)
_CMDLINE_OF_INTEREST = re.compile(
    r"(mitigations|spectre\w*|spec_\w+|nospectre\w*|retbleed|srso|l1tf|mds|tsx\w*|bhi|"
    r"indirect_target_selection|nosmt|isolcpus|nohz|nohz_full|rcu_nocbs|idle|"
    r"intel_pstate|amd_pstate|cpufreq\.\w+|cpuidle\.\w+|processor\.max_cstate|"
    r"intel_idle\.max_cstate|clocksource|tsc|nopti|pti|kpti|preempt|nokaslr)(=.*)?"
)
# Implementer codes of MIDR_EL1, from the Arm architecture reference manual.
_ARM_VENDORS = {0x41: "Arm", 0x48: "HiSilicon", 0x51: "Qualcomm", 0x61: "Apple", 0xC0: "Ampere"}
# DMI vendors that only virtual machines have. Clouds name bare metal like their guests.
_VIRTUAL_VENDORS = {
    "QEMU": "KVM",
    "KVM": "KVM",
    "VMware, Inc.": "VMware",
    "innotek GmbH": "VirtualBox",
    "Xen": "Xen",
    "Parallels International GmbH.": "Parallels",
}
_CPUS = "sys/devices/system/cpu"


def environment(root: Path = Path("/")) -> dict[str, Any]:
    """Everything about this machine that belongs beside a figure, ready for JSON.

    Keys are stable and always there; None stands for what this user or system does not
    tell. Units are in the names. `clock.measured_ghz` is None until somebody measures it.
    `root` is where /proc, /sys and /etc are looked for.
    """
    info = _cpuinfo(root)
    flags = info.get("flags", info.get("Features", "")).split()
    texts = _vulnerabilities(root)
    return {
        "cpu": _cpu(root, info, flags),
        "clock": _clock(root, info, flags),
        "mitigations": texts,
        "call_mitigations": call_mitigations(texts),
        "smt": {
            "active": _truth(_read(root, f"{_CPUS}/smt/active")),
            "control": _read(root, f"{_CPUS}/smt/control"),
        },
        "governor": _governors(root),
        "turbo": _turbo(root),
        "kernel": _kernel(root),
        "jit": {
            "enable": _number(_read(root, "proc/sys/net/core/bpf_jit_enable")),
            "harden": _number(_read(root, "proc/sys/net/core/bpf_jit_harden")),
        },
        "bpf_stats_enabled": _truth(_read(root, "proc/sys/kernel/bpf_stats_enabled")),
        "clocksource": _read(
            root, "sys/devices/system/clocksource/clocksource0/current_clocksource"
        ),
        "virtualisation": _virtualisation(root, info, flags),
        "load": _load(root),
        "libbpf": _libbpf_version(),
        "compiler": _compiler(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "distribution": _distribution(root),
    }


def _read(root: Path, name: str) -> str | None:
    try:
        return (root / name).read_text(errors="replace").strip()
    except OSError:
        return None


def _number(text: str | None, base: int = 10) -> int | None:
    try:
        return int(text, base) if text is not None else None
    except ValueError:
        return None


def _truth(text: str | None) -> bool | None:
    number = _number(text)
    return None if number is None else number != 0


def _cpuinfo(root: Path) -> dict[str, str]:
    """The first processor's fields."""
    fields: dict[str, str] = {}
    for line in (_read(root, "proc/cpuinfo") or "").splitlines():
        name, colon, value = line.partition(":")
        if colon:
            fields.setdefault(name.strip(), value.strip())
    return fields


def _cpu(root: Path, info: dict[str, str], flags: list[str]) -> dict[str, Any]:
    implementer = _number(info.get("CPU implementer"), 16)
    part = info.get("CPU part")
    vendor, model = info.get("vendor_id"), info.get("model name")
    if implementer is not None:
        vendor = vendor or _ARM_VENDORS.get(implementer, info["CPU implementer"])
        model = model or f"{vendor} part {part}"
    online = _read(root, f"{_CPUS}/online")
    status = _read(root, "proc/self/status") or ""
    allowed = re.search(r"^Cpus_allowed_list:\s*(\S+)", status, re.MULTILINE)
    return {
        "model": model or platform.processor() or None,
        "vendor": vendor,
        "family": _number(info.get("cpu family", info.get("CPU architecture"))),
        "model_number": _number(info.get("model")) if part is None else _number(part, 16),
        "stepping": _number(info.get("stepping", info.get("CPU revision"))),
        "microcode": info.get("microcode"),
        "online": online,
        "logical": _count(online) if online else os.cpu_count(),
        "allowed": _count(allowed.group(1)) if allowed else None,
        "flags_of_interest": sorted(filter(_FLAGS_OF_INTEREST.fullmatch, set(flags))),
    }


def _count(cpu_list: str) -> int | None:
    """How many CPUs a kernel list such as "0-3,8" names."""
    total = 0
    for span in cpu_list.split(","):
        first, _, last = span.partition("-")
        if not first.isdigit() or not (last or first).isdigit():
            return None
        total += int(last or first) - int(first) + 1
    return total


def _clock(root: Path, info: dict[str, str], flags: list[str]) -> dict[str, Any]:
    tsc_khz = _number(_read(root, f"{_CPUS}/cpu0/tsc_freq_khz"))
    if tsc_khz is None and "constant_tsc" in flags:
        # Only out-of-tree modules tell the TSC's rate; x86 derives its bogomips from it:
        # twice the rate in MHz, with two digits (arch/x86/kernel/tsc.c, lpj_fine).
        bogomips = _fraction(info.get("bogomips"))
        tsc_khz = None if bogomips is None else round(bogomips * 500)
    frequencies = f"{_CPUS}/cpu0/cpufreq"
    now_mhz = _megahertz(root, f"{frequencies}/scaling_cur_freq")
    return {
        "tsc_khz": tsc_khz,
        "base_mhz": _megahertz(root, f"{frequencies}/base_frequency"),
        "max_mhz": _megahertz(root, f"{frequencies}/cpuinfo_max_freq"),
        "now_mhz": now_mhz if now_mhz is not None else _fraction(info.get("cpu MHz")),
        "measured_ghz": None,
    }


def _fraction(text: str | None) -> float | None:
    try:
        return float(text) if text is not None else None
    except ValueError:
        return None


def _megahertz(root: Path, name: str) -> float | None:
    kilohertz = _number(_read(root, name))
    return None if kilohertz is None else kilohertz / 1000


def mitigations_of_calls() -> tuple[str, ...]:
    """What calls of the running kernel pay for, in a few words each."""
    return in_force(call_mitigations(_vulnerabilities(Path("/"))) or {})


def _vulnerabilities(root: Path) -> dict[str, str] | None:
    try:
        names = sorted(path.name for path in (root / _CPUS / "vulnerabilities").iterdir())
    except OSError:
        return None
    found = {name: _read(root, f"{_CPUS}/vulnerabilities/{name}") for name in names}
    return {name: text for name, text in found.items() if text is not None}


def _governors(root: Path) -> list[str] | None:
    """The governors in use, each once; None where the clock is not the kernel's to set."""
    policies = (root / _CPUS / "cpufreq").glob("policy*/scaling_governor")
    found = {_read(root, str(path.relative_to(root))) for path in policies} - {None}
    return sorted(str(name) for name in found) or None


def _turbo(root: Path) -> dict[str, Any]:
    """Whether the clock may rise above its base, and the file that decides it."""
    inverted = _truth(_read(root, f"{_CPUS}/intel_pstate/no_turbo"))
    if inverted is not None:
        return {"on": not inverted, "control": f"/{_CPUS}/intel_pstate/no_turbo"}
    boost = _truth(_read(root, f"{_CPUS}/cpufreq/boost"))
    return {"on": boost, "control": None if boost is None else f"/{_CPUS}/cpufreq/boost"}


def _kernel(root: Path) -> dict[str, Any]:
    own = platform.uname()
    words = (_read(root, "proc/cmdline") or "").split()
    return {
        "system": own.system,
        "release": _read(root, "proc/sys/kernel/osrelease") or own.release,
        "version": _read(root, "proc/sys/kernel/version") or own.version,
        "machine": _read(root, "proc/sys/kernel/arch") or own.machine,
        "cmdline_of_interest": [word for word in words if _CMDLINE_OF_INTEREST.fullmatch(word)],
    }


def _virtualisation(root: Path, info: dict[str, str], flags: list[str]) -> dict[str, Any]:
    """`active` is None where nothing tells; `hypervisor` where it has no known name."""
    vendor = _read(root, "sys/class/dmi/id/sys_vendor") or ""
    product = _read(root, "sys/class/dmi/id/product_name") or ""
    clocks = _read(root, "sys/devices/system/clocksource/clocksource0/available_clocksource")
    name = _read(root, "sys/hypervisor/type") or _VIRTUAL_VENDORS.get(vendor)
    if name is None and product.startswith("Apple Virtualization"):
        name = "Apple"
    active = True if name or "hypervisor" in flags else None
    if active and name is None:
        if "kvm-clock" in (clocks or ""):
            name = "KVM"
        elif "hyperv" in (clocks or ""):
            name = "Hyper-V"
    if active is None and "flags" in info:
        # x86 guests have the flag; other architectures have nothing of the kind.
        active = False
    return {"active": active, "hypervisor": name}


def _load(root: Path) -> dict[str, Any]:
    found = re.match(r"(\d+\.\d+) \S+ \S+ (\d+)/", _read(root, "proc/loadavg") or "")
    return {
        "avg1": float(found.group(1)) if found else None,
        "runnable": int(found.group(2)) if found else None,
    }


def _libbpf_version() -> str | None:
    try:
        version = ctypes.CDLL("libbpf.so.1").libbpf_version_string
    except (OSError, AttributeError):
        return None
    version.restype = ctypes.c_char_p
    text: bytes = version()
    return text.decode(errors="replace").removeprefix("v")


def _compiler() -> str | None:
    try:
        text = resources.files("xdplab").joinpath("bpf/objects/BUILD.json").read_text()
        compiler = json.loads(text)["compiler"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return str(compiler)


def _distribution(root: Path) -> str | None:
    text = _read(root, "etc/os-release") or _read(root, "usr/lib/os-release") or ""
    found = re.search(r"^PRETTY_NAME=[\"']?(.*?)[\"']?$", text, re.MULTILINE)
    if found:
        return found.group(1)
    release = platform.mac_ver()[0]
    return f"macOS {release}" if release else None
