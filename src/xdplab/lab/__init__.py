"""The laboratory for Python programs: run packets, count instructions, measure; docs/python.md.

from xdplab import lab

with lab.load("filter.bpf.c") as drop:
    print(drop.run(packet).action)
"""

from xdplab.lab.columns import figures, samples
from xdplab.lab.measuring import Interrupted, Measured, measure
from xdplab.lab.running import ENGINES, Entries, Loaded, Packet, Ran, load, why_not
from xdplab.program.chosen import Chosen, program_of

__all__ = [
    "ENGINES",
    "Chosen",
    "Entries",
    "Interrupted",
    "Loaded",
    "Measured",
    "Packet",
    "Ran",
    "figures",
    "load",
    "measure",
    "program_of",
    "samples",
    "why_not",
]
