"""The package's own compiled objects: src/xdplab/bpf/NAME.bpf.c as built with the package."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from importlib import resources

from xdplab.errors import ObjectError, XdplabError
from xdplab.program.reader import read_object
from xdplab.program.spec import ObjectSpec


@cache
def shipped_object(name: str) -> ObjectSpec:
    """Read one of the package's own objects.

    XdplabError where it is missing, or not what the build wrote: figures of an altered program
    would be figures of something else.
    """
    objects = resources.files("xdplab").joinpath("bpf", "objects")
    file_name = f"{name}.bpf.o"
    try:
        data = objects.joinpath(file_name).read_bytes()
        built = json.loads(objects.joinpath("BUILD.json").read_text())
        known = built["objects"][file_name]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise _damaged(file_name, getattr(error, "strerror", None) or str(error)) from None
    if hashlib.sha256(data).hexdigest() != known:
        raise _damaged(file_name, "it is not the file that the build wrote")
    try:
        return read_object(data, name)
    except ObjectError as error:
        raise _damaged(file_name, str(error)) from None


def _damaged(file_name: str, why: str) -> XdplabError:
    return XdplabError(
        f"reading xdplab's own object {file_name} failed: {why}. It is compiled when the "
        "package is built: install xdplab again (pip install . in its folder)"
    )
