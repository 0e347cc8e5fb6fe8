"""The package's own compiled objects: src/xdplab/bpf/NAME.bpf.c as built with the package."""

from __future__ import annotations

from functools import cache
from importlib import resources

from xdplab.errors import XdplabError
from xdplab.program.reader import read_object
from xdplab.program.spec import ObjectSpec


@cache
def shipped_object(name: str) -> ObjectSpec:
    """Read one of the package's own objects; XdplabError where the build left it out."""
    file = resources.files("xdplab").joinpath("bpf", "objects", f"{name}.bpf.o")
    try:
        data = file.read_bytes()
    except OSError as error:
        raise XdplabError(
            f"reading xdplab's own object {name}.bpf.o failed: {error.strerror}. It is compiled "
            "when the package is built: install xdplab again (pip install . in its folder)"
        ) from None
    return read_object(data, name)
