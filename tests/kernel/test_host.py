"""The environment is read from made-up trees, so that every kind of machine is tested."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from xdplab.kernel.host import environment

_INTEL = """\
processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 79
model name\t: Intel(R) Xeon(R) CPU E5-1650 v4 @ 3.60GHz
stepping\t: 1
microcode\t: 0xb000040
cpu MHz\t\t: 1200.123
flags\t\t: fpu avx2 erms constant_tsc nonstop_tsc
bogomips\t: 7200.00

processor\t: 1
vendor_id\t: GenuineIntel
cpu MHz\t\t: 3600.000
"""
_ARM = """\
processor\t: 0
BogoMIPS\t: 50.00
Features\t: fp asimd atomics sve
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x3
CPU part\t: 0xd0c
CPU revision\t: 1
"""
_CPU = "sys/devices/system/cpu"
_CLOCK = "sys/devices/system/clocksource/clocksource0"

_INTEL_METAL = {
    "proc/cpuinfo": _INTEL,
    f"{_CPU}/online": "0-5,8",
    "proc/self/status": "Name:\tx\nCpus_allowed_list:\t2-3\n",
    f"{_CPU}/smt/active": "1",
    f"{_CPU}/smt/control": "on",
    f"{_CPU}/cpufreq/policy0/scaling_governor": "powersave",
    f"{_CPU}/cpufreq/policy1/scaling_governor": "powersave",
    f"{_CPU}/cpu0/cpufreq/cpuinfo_max_freq": "4000000",
    f"{_CPU}/cpu0/cpufreq/scaling_cur_freq": "1199870",
    f"{_CPU}/intel_pstate/no_turbo": "0",
    f"{_CPU}/vulnerabilities/spectre_v2": "Mitigation: Retpolines; IBPB: conditional",
    f"{_CPU}/vulnerabilities/srbds": "Not affected",
    "proc/sys/net/core/bpf_jit_enable": "1",
    "proc/sys/net/core/bpf_jit_harden": "2",
    "proc/sys/kernel/bpf_stats_enabled": "1",
    "proc/sys/kernel/osrelease": "6.12.1",
    "proc/sys/kernel/arch": "x86_64",
    "proc/cmdline": "root=/dev/sda mitigations=auto nosmt isolcpus=2-3 secret=1 idle=poll quiet",
    "proc/loadavg": "3.50 1.00 0.50 4/300 1234",
    f"{_CLOCK}/current_clocksource": "hpet",
    "etc/os-release": 'NAME="D"\nPRETTY_NAME="Debian GNU/Linux 12"\nID=debian',
}


def _tree(root: Path, files: dict[str, str]) -> dict[str, Any]:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return environment(root)


def test_intel_on_bare_metal(tmp_path: Path) -> None:
    facts = _tree(tmp_path, _INTEL_METAL)
    assert facts["cpu"] == {
        "model": "Intel(R) Xeon(R) CPU E5-1650 v4 @ 3.60GHz",
        "vendor": "GenuineIntel",
        "family": 6,
        "model_number": 79,
        "stepping": 1,
        "microcode": "0xb000040",
        "online": "0-5,8",
        "logical": 7,
        "allowed": 2,
        "flags_of_interest": ["avx2", "constant_tsc", "erms", "nonstop_tsc"],
    }
    assert facts["clock"] == {
        "tsc_khz": 3_600_000,
        "base_mhz": None,
        "max_mhz": 4000.0,
        "now_mhz": 1199.87,
        "measured_ghz": None,
    }
    assert facts["smt"] == {"active": True, "control": "on"}
    assert facts["governor"] == ["powersave"]
    assert facts["turbo"] == {"on": True, "control": f"/{_CPU}/intel_pstate/no_turbo"}
    assert facts["mitigations"] == {
        "spectre_v2": "Mitigation: Retpolines; IBPB: conditional",
        "srbds": "Not affected",
    }
    assert facts["jit"] == {"enable": 1, "harden": 2}
    assert facts["bpf_stats_enabled"] is True
    assert facts["kernel"]["release"] == "6.12.1"
    assert facts["kernel"]["machine"] == "x86_64"
    assert facts["kernel"]["cmdline_of_interest"] == [
        "mitigations=auto",
        "nosmt",
        "isolcpus=2-3",
        "idle=poll",
    ]
    assert facts["clocksource"] == "hpet"
    assert facts["virtualisation"] == {"active": False, "hypervisor": None}
    assert facts["load"] == {"avg1": 3.5, "runnable": 4}
    assert facts["distribution"] == "Debian GNU/Linux 12"


def test_amd_boost_and_mixed_governors(tmp_path: Path) -> None:
    facts = _tree(
        tmp_path,
        {
            "proc/cpuinfo": _INTEL.replace("GenuineIntel", "AuthenticAMD"),
            f"{_CPU}/cpufreq/boost": "0",
            f"{_CPU}/cpufreq/policy0/scaling_governor": "schedutil",
            f"{_CPU}/cpufreq/policy1/scaling_governor": "performance",
            f"{_CPU}/smt/active": "0",
        },
    )
    assert facts["cpu"]["vendor"] == "AuthenticAMD"
    assert facts["turbo"] == {"on": False, "control": f"/{_CPU}/cpufreq/boost"}
    assert facts["governor"] == ["performance", "schedutil"]
    assert facts["smt"]["active"] is False


def test_arm_has_a_model_made_of_its_part(tmp_path: Path) -> None:
    facts = _tree(tmp_path, {"proc/cpuinfo": _ARM})
    cpu = facts["cpu"]
    assert (cpu["vendor"], cpu["model"]) == ("Arm", "Arm part 0xd0c")
    assert (cpu["family"], cpu["model_number"], cpu["stepping"]) == (8, 0xD0C, 1)
    assert cpu["flags_of_interest"] == ["asimd", "atomics", "sve"]
    assert facts["clock"]["tsc_khz"] is None
    assert facts["virtualisation"] == {"active": None, "hypervisor": None}


@pytest.mark.parametrize(
    ("files", "hypervisor"),
    [
        ({"sys/hypervisor/type": "xen"}, "xen"),
        ({"sys/class/dmi/id/sys_vendor": "QEMU"}, "KVM"),
        ({"sys/class/dmi/id/product_name": "Apple Virtualization Generic Platform"}, "Apple"),
        (
            {
                "proc/cpuinfo": "flags: fpu hypervisor",
                f"{_CLOCK}/available_clocksource": "tsc kvm-clock acpi_pm",
            },
            "KVM",
        ),
        (
            {
                "proc/cpuinfo": "flags: hypervisor",
                f"{_CLOCK}/available_clocksource": "hyperv_clocksource_tsc_page acpi_pm",
            },
            "Hyper-V",
        ),
        ({"proc/cpuinfo": "flags: hypervisor"}, None),
    ],
)
def test_virtual_machines(tmp_path: Path, files: dict[str, str], hypervisor: str | None) -> None:
    assert _tree(tmp_path, files)["virtualisation"] == {"active": True, "hypervisor": hypervisor}


def test_a_cloud_vendor_alone_is_no_virtual_machine(tmp_path: Path) -> None:
    files = {"sys/class/dmi/id/sys_vendor": "Amazon EC2", "proc/cpuinfo": _INTEL}
    assert _tree(tmp_path, files)["virtualisation"]["active"] is False


def test_an_empty_tree_has_every_key_and_knows_nothing(tmp_path: Path) -> None:
    empty = environment(tmp_path)
    known = _tree(tmp_path, _INTEL_METAL)
    assert empty.keys() == known.keys()
    for name, part in known.items():
        if isinstance(part, dict) and not name.endswith("mitigations"):
            assert empty[name].keys() == part.keys()
    assert empty["mitigations"] is None
    assert empty["call_mitigations"] is None
    assert known["call_mitigations"]["retpolines"]
    assert known["call_mitigations"]["ibpb"] == "conditional"
    assert empty["governor"] is None
    assert empty["turbo"] == {"on": None, "control": None}
    assert empty["bpf_stats_enabled"] is None
    assert empty["load"] == {"avg1": None, "runnable": None}


@pytest.mark.parametrize("text", ["", "rubbish", "0-", "-1", "\0"])
def test_rubbish_in_files_is_unknown(tmp_path: Path, text: str) -> None:
    files = dict.fromkeys(_INTEL_METAL, text)
    facts = _tree(tmp_path, files)
    assert facts["cpu"]["logical"] is None or facts["cpu"]["logical"] >= 1
    assert facts["clock"]["tsc_khz"] is None


def test_this_machine_is_ready_for_json() -> None:
    facts = environment()
    assert json.loads(json.dumps(facts, allow_nan=False)) == facts
