"""A Debian kernel to try things on: apt-get downloads it into the cache; nothing is installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from xdplab.errors import NotPossibleError, UsageError

DEFAULT_PACKAGE = "linux-image-cloud-amd64"
_NAME = re.compile(r"linux-image-[a-z0-9.+~-]+")
_TIMEOUT_S = 600


def cache_folder() -> Path:
    """Where kernels are kept."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("xdplab")) / "kernels"


def fetch(package: str = DEFAULT_PACKAGE, folder: Path | None = None) -> Path:
    """The kernel file of a Debian package, downloaded where it is not in the cache yet.

    A package without a kernel of its own (linux-image-cloud-amd64) stands for the one that it
    depends on. UsageError for a name that is no kernel's. NotPossibleError where there is no apt,
    no such package or no network. Nothing half done stays in the cache.
    """
    if not _NAME.fullmatch(package):
        raise UsageError(
            f"{package!r} is no name of a kernel package. Give one such as {DEFAULT_PACKAGE}, or "
            "look for one: apt-cache search linux-image"
        )
    for tool in ("apt-get", "apt-cache", "dpkg"):
        if shutil.which(tool) is None:
            raise NotPossibleError(
                f"fetching a Debian kernel needs {tool}, which is not here: this works on Debian "
                "and Ubuntu. Give a kernel of your own (--a BZIMAGE)"
            )
    named = _unsigned(_real_package(package))
    folder = folder or cache_folder()
    kept = folder / named
    found = sorted(kept.glob("vmlinuz-*"))
    if found:
        return found[0]
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetching-", dir=folder) as scratch:
        # apt drops its rights for downloading, and then must be able to write here.
        os.chmod(scratch, 0o755)  # noqa: PTH101 - scratch is a name
        _run(["apt-get", "download", "-q", named], f"downloading {named}", Path(scratch))
        files = list(Path(scratch).glob("*.deb"))
        if len(files) != 1:
            raise NotPossibleError(f"downloading {named} gave {len(files)} packages. Try again")
        unpacked = Path(scratch, "unpacked")
        _run(["dpkg", "-x", str(files[0]), str(unpacked)], f"unpacking {named}", Path(scratch))
        kernels = sorted(unpacked.glob("boot/vmlinuz-*"))
        if not kernels:
            raise NotPossibleError(
                f"{named} has no kernel in boot/. Name a package that has one: "
                "apt-cache search linux-image"
            )
        whole = Path(scratch, "whole")
        whole.mkdir()
        for file in unpacked.glob("boot/*"):
            if file.is_file() and file.name.startswith(("vmlinuz-", "System.map-", "config-")):
                shutil.move(file, whole / file.name)
        # A name appears when all that belongs to it is there.
        try:
            whole.rename(kept)
        except OSError:
            if not list(kept.glob("vmlinuz-*")):
                raise
        return sorted(kept.glob("vmlinuz-*"))[0]


def _real_package(package: str) -> str:
    text = _run(["apt-cache", "depends", package], f"looking up {package}", Path.cwd())
    depends = re.findall(r"Depends: (linux-image-\S+)", text)
    return str(depends[0]) if depends else package


def _unsigned(package: str) -> str:
    """The package as it is, or its twin without a signature where only that is to be had."""
    if _has_candidate(package):
        return package
    if _has_candidate(f"{package}-unsigned"):
        return f"{package}-unsigned"
    raise NotPossibleError(
        f"apt knows no package {package} that can be downloaded. Run apt-get update, or look for "
        "one: apt-cache search linux-image"
    )


def _has_candidate(package: str) -> bool:
    text = _run(["apt-cache", "policy", package], f"looking up {package}", Path.cwd())
    return "Candidate: " in text and "Candidate: (none)" not in text


def _run(argv: list[str], tried: str, directory: Path) -> str:
    try:
        result = subprocess.run(
            argv,
            cwd=directory,
            env=os.environ | {"LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NotPossibleError(f"{tried} took longer than {_TIMEOUT_S} s. Try again") from None
    if result.returncode != 0:
        lines = [line for line in (result.stderr + result.stdout).splitlines() if line.strip()]
        said = lines[-1].strip() if lines else f"exit status {result.returncode}"
        raise NotPossibleError(
            f"{tried} failed: {said}. Is there a network, and has apt-get update been run?"
        )
    return result.stdout
