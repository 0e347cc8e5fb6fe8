"""AF_XDP: sockets that receive and send the packets of an interface's queue; see docs/af-xdp.md."""

from xdplab.net.xsk.abi import DESCRIPTOR, XskStatistics
from xdplab.net.xsk.batch import Batch
from xdplab.net.xsk.loops import Tally, drop_loop, send_back_loop
from xdplab.net.xsk.metadata import SEALED
from xdplab.net.xsk.program import XskProgram
from xdplab.net.xsk.socket import Xsk
from xdplab.net.xsk.umem import Umem

__all__ = [
    "DESCRIPTOR",
    "SEALED",
    "Batch",
    "Tally",
    "Umem",
    "Xsk",
    "XskProgram",
    "XskStatistics",
    "drop_loop",
    "send_back_loop",
]
