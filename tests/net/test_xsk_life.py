"""How sockets are refused, closed and killed: one sentence, and nothing left."""

from __future__ import annotations

import errno
import gc
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.command import WITHOUT_CAPABILITIES
from tests.net.sockets import all_of, line, packet
from xdplab.errors import MissingFeatureError, NotPossibleError, UsageError
from xdplab.kernel import bpf
from xdplab.net import Umem, Xsk, XskProgram
from xdplab.net.ethtool import queue_count

pytestmark = pytest.mark.needs_kernel

SETTLE_S = 10.0
"""What the kernel frees in its own time is gone by then, also where it is busy."""


def descriptors() -> list[str]:
    """What this process has open, as /proc names it, without numbers that change."""
    names = []
    for entry in Path("/proc/self/fd").iterdir():
        try:
            names.append(re.sub(r"\d+", "N", str(entry.readlink())))
        except OSError:
            continue
    return sorted(names)


# --- closing


def test_opening_and_closing_leaves_no_descriptor() -> None:
    with line() as pairs:
        pairs.attach("v0").close()
        gc.collect()
        before = descriptors()
        for turn in range(10):
            receiver = pairs.attach("v0", tx_ring=64 if turn % 2 else 0)
            pairs.sender().close()
            receiver.close()
            assert descriptors() == before


def test_a_queue_can_be_opened_again_at_once() -> None:
    with line() as pairs:
        sender = pairs.sender()
        for number in range(10):
            with pairs.attach("v0") as receiver:
                sender.send([packet(number)])
                assert all_of(receiver, 1) == [packet(number)]


def test_closing_twice_is_closing_once() -> None:
    with line() as pairs:
        receiver = pairs.attach("v0")
        receiver.close()
        receiver.close()


def test_packets_outlive_their_socket_as_memory() -> None:
    with line() as pairs:
        receiver = pairs.attach("v0")
        pairs.sender().send([packet(1)])
        (view,) = receiver.receive(timeout_s=5)
        receiver.close()
        gc.collect()
        assert bytes(view) == packet(1)


def test_a_held_ring_holds_the_queue_and_says_so() -> None:
    with line() as pairs, pairs.inside("v0"):
        receiver = Xsk("v0")
        held = receiver.rx.array
        with pytest.raises(UsageError, match="socket of v0 .* array of one of its rings"):
            receiver.close()
        with pytest.raises(NotPossibleError, match="another AF_XDP socket has that queue"):
            Xsk("v0", patience_s=0.05)
        del held
        Xsk("v0").close()


def test_a_refused_socket_leaves_nothing() -> None:
    with line() as pairs, pairs.inside("v0"):
        gc.collect()
        before = descriptors()
        for wrong in ({"queue": 5}, {"mode": "zero-copy"}, {"rx_ring": 3}, {"rx_ring": 0}):
            with pytest.raises((UsageError, NotPossibleError)):
                Xsk.attach("v0", **wrong)
            assert descriptors() == before


def test_an_attached_program_goes_with_its_socket() -> None:
    before = bpf.live_ids()["prog"]
    with line() as pairs:
        receiver = pairs.attach("v0")
        ours = bpf.live_ids()["prog"] - before
        assert "redirecting" in {bpf.prog_name_by_id(number) for number in ours}
        receiver.close()
        until = time.monotonic() + SETTLE_S
        while bpf.live_ids()["prog"] & ours and time.monotonic() < until:
            time.sleep(0.01)
        assert not bpf.live_ids()["prog"] & ours


CHILD = """
import time
from tests.net.sockets import line, packet
from xdplab.kernel import bpf
before = bpf.live_ids()
with line() as pairs:
    receiver = pairs.attach("v0", tx_ring=64)
    pairs.sender().send([packet(1)])
    assert len(receiver.receive(timeout_s=5)) == 1
    after = bpf.live_ids()
    ours = [number for number in after["prog"] - before["prog"]]
    print([bpf.prog_name_by_id(number) for number in ours], flush=True)
    print(ours, flush=True)
    time.sleep(60)
"""


def test_kill_9_leaves_nothing() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert child.stdout is not None
    assert "redirecting" in child.stdout.readline()
    programs = {int(number) for number in child.stdout.readline().strip("[]\n").split(",")}
    child.send_signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    child.stdout.close()
    until = time.monotonic() + SETTLE_S
    while bpf.live_ids()["prog"] & programs and time.monotonic() < until:
        time.sleep(0.02)
    left = {bpf.prog_name_by_id(number) for number in bpf.live_ids()["prog"] & programs}
    assert "redirecting" not in left


# --- refusals


def refused(error: type[Exception], pattern: str, **options: object) -> None:
    with line() as pairs, pairs.inside("v0"), pytest.raises(error, match=pattern) as got:
        Xsk("v0", **options)  # type: ignore[arg-type]
    assert "\n" not in str(got.value)


def test_an_interface_that_is_not_there() -> None:
    with line() as pairs, pairs.inside("v0"):
        for wrong in ("v7", ""):
            with pytest.raises(UsageError, match=rf"'{wrong}' failed: .* It has: lo, v0, v2"):
                Xsk(wrong)
            with pytest.raises(UsageError, match=rf"'{wrong}' failed"):
                XskProgram(wrong)


def test_a_queue_that_is_not_there() -> None:
    refused(UsageError, r"queue 1 of v0 failed \(EINVAL\): the interface has only queue 0", queue=1)
    refused(UsageError, "queue -1 was asked for", queue=-1)
    with line(queues=4) as pairs, pairs.inside("v0"):
        assert queue_count("v0") == 4
        Xsk("v0", queue=3).close()
        with pytest.raises(UsageError, match="queues 0 to 3"):
            Xsk("v0", queue=4)


def test_a_queue_that_is_taken() -> None:
    with line() as pairs, pairs.inside("v0"), Xsk("v0"):
        started = time.monotonic()
        with pytest.raises(NotPossibleError, match=r"queue 0 of v0 failed \(EBUSY\)"):
            Xsk("v0", patience_s=0.1)
        assert time.monotonic() - started >= 0.1


def test_an_interface_with_a_program() -> None:
    with line() as pairs:
        pairs.attach("v0")
        with (
            pairs.inside("v0"),
            pytest.raises(NotPossibleError, match="already, and none .* ip link set dev v0"),
        ):
            XskProgram("v0")


def test_a_driver_without_zero_copy() -> None:
    refused(NotPossibleError, "no zero-copy mode for AF_XDP. Use copy mode", mode="zero-copy")


def test_wrong_sizes_and_modes() -> None:
    refused(UsageError, r"1000 entries .*\(rx_ring\)", rx_ring=1000)
    refused(UsageError, r"7 entries .*\(tx_ring\)", tx_ring=7)
    refused(UsageError, "without rings", rx_ring=0)
    refused(UsageError, "'fast' was asked for; there are copy and zero-copy", mode="fast")
    refused(UsageError, "metadata=3 was asked for", metadata=3)
    with (
        line() as pairs,
        pairs.inside("v0"),
        pytest.raises(UsageError, match="there are native and generic"),
    ):
        XskProgram("v0", mode="offload")  # type: ignore[arg-type]


def test_receiving_where_only_sending_was_set_up_and_the_other_way_round() -> None:
    with line() as pairs:
        with pytest.raises(UsageError, match="receiving on v1 failed: the socket has no rx ring"):
            pairs.sender().receive()
        with pytest.raises(UsageError, match="sending on v0 failed: the socket has no tx ring"):
            pairs.attach("v0").send([packet(1)])


def test_sockets_on_one_umem_agree_on_frags() -> None:
    with line() as pairs, Umem(256) as umem, pairs.inside("v0"):
        with (
            Xsk("v0", umem=umem, rx_ring=16, frags=True),
            pytest.raises(UsageError, match="its frags or mode are not those of the first"),
        ):
            Xsk("v2", umem=umem, rx_ring=16)
        Xsk("v2", umem=umem, rx_ring=16).close()


def test_a_large_mtu_without_frags() -> None:
    with line(mtu=9000) as pairs, pairs.inside("v0"):
        with pytest.raises(NotPossibleError, match="frags=True is needed"):
            Xsk.attach("v0")
        Xsk.attach("v0", frags=True).close()


def test_an_interface_that_goes_away() -> None:
    with line() as pairs:
        receiver = pairs.attach("v0", tx_ring=64)
        pairs.change("del", "v0")
        with pytest.raises(NotPossibleError, match="v0 failed: the interface has gone"):
            receiver.wait(0.5)
        with pytest.raises(NotPossibleError, match="v0 failed: the interface has gone"):
            receiver.receive(timeout_s=0.01)
        with pytest.raises(NotPossibleError, match="sending on v0 failed"):
            receiver.send([packet(1)])


def test_an_interface_that_is_down() -> None:
    with line() as pairs:
        sender = pairs.sender()
        pairs.change("set", "v1", state="down")
        with pytest.raises(NotPossibleError, match=r"sending on v1 failed \(ENETDOWN\)"):
            sender.send([packet(1)])


# --- rights and kernels


def python(code: str, *prefix: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*prefix, sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


OPEN_LO = """
from xdplab.errors import XdplabError
from xdplab.net import Umem, Xsk
try:
    Xsk("lo", umem=Umem(4096))
except XdplabError as error:
    print(type(error).__name__, error)
"""


def test_without_the_right_to_open_one() -> None:
    result = python(OPEN_LO, *WITHOUT_CAPABILITIES)
    assert result.stdout.startswith("NotPossibleError opening an AF_XDP socket was refused (EPERM)")
    assert "CAP_NET_RAW" in result.stdout
    assert result.stdout.count("\n") == 1


def test_without_the_right_to_lock_so_much_memory() -> None:
    limit_bytes = 64 * 1024
    code = (
        f"import resource; resource.setrlimit(resource.RLIMIT_MEMLOCK, ({limit_bytes},) * 2)\n"
        + OPEN_LO
    )
    result = python(
        code, "setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock", "--no-new-privs"
    )
    assert result.stdout.startswith("NotPossibleError making 8388608 bytes the umem"), result
    assert f"may lock {limit_bytes} bytes" in result.stdout
    assert "ulimit -l 8192" in result.stdout


def test_a_kernel_without_af_xdp(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_arguments: object, **_options: object) -> socket.socket:
        raise OSError(errno.EAFNOSUPPORT, os.strerror(errno.EAFNOSUPPORT))

    monkeypatch.setattr("xdplab.net.xsk.opening.socket.socket", unknown)
    with pytest.raises(MissingFeatureError, match="CONFIG_XDP_SOCKETS"):
        Xsk("lo")


def test_a_kernel_whose_rings_have_no_flags() -> None:
    from xdplab.net.xsk.opening import read_offsets

    class Old:
        def getsockopt(self, *_arguments: int) -> bytes:
            return bytes(96)

    with pytest.raises(MissingFeatureError, match="Linux 5.4"):
        read_offsets(Old())  # type: ignore[arg-type]
