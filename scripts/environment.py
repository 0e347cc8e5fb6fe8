"""Makes the repository's .venv, or brings it up to date. Called by scripts/lib.sh.

    environment.py PROFILE              make it so; progress and errors on stderr
    environment.py --current PROFILE    exit 0 if there is nothing to do, 1 if there is

PROFILE is `run` (what a user needs) or `dev` (tests and checks as well). Standard library
only: this runs under whatever Python the machine has.

.venv/xdplab-stamp.json is the last thing written. Without it the environment is taken for
half made and is made anew; with another one in it, it is brought up to date.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import signal
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / "xdplab-stamp.json"
LOG = VENV / "xdplab-setup.log"


def main(arguments: list[str]) -> int:
    """Exit code: 0 current, 1 not current (with --current), 3 not possible, 130 interrupted."""
    profile = arguments[-1]
    # As an exception, so that what runs for us (pip) is ended and not left behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if arguments[0] == "--current":
        return 0 if _is_current(profile) else 1
    try:
        # Two set-ups at once: the second one waits, then finds the work done. The lock is
        # on a file that always exists and that making the environment does not replace.
        with (ROOT / "pyproject.toml").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not _is_current(profile):
                _set_up(profile)
    except subprocess.CalledProcessError as error:
        lines = LOG.read_text(errors="replace").splitlines() if LOG.exists() else []
        print("\n".join(lines[-15:]), file=sys.stderr)
        print(
            f"Setting up .venv failed: `python {' '.join(error.cmd[1:])}` exited with "
            f"{error.returncode}; its last lines are above, all of them in {LOG}. "
            "Remove the cause and run this again.",
            file=sys.stderr,
        )
        return 3
    except KeyboardInterrupt:
        print("Setting up .venv was interrupted; the next run starts it anew.", file=sys.stderr)
        return 130
    except OSError as error:
        print(
            f"Setting up {VENV} failed: {error}. It must be writable by this user.",
            file=sys.stderr,
        )
        return 3
    return 0


def _set_up(profile: str) -> None:
    stamp = _read_stamp()
    # Bringing up to date must not take development tools away that are there already.
    if stamp.get("profile") == "dev":
        profile = "dev"
    make = stamp.get("python") != _venv_python()
    action = "setting up .venv (once; needs the package index)" if make else "updating .venv"
    print(f"xdplab: {action} ...", file=sys.stderr, flush=True)
    STAMP.unlink(missing_ok=True)
    if make:
        venv.create(VENV, clear=True, with_pip=True, symlinks=True)
    LOG.unlink(missing_ok=True)
    if profile == "dev":
        # With the build's own requirements installed, a rebuild after a change of a BPF
        # program needs no isolated environment: 2 s instead of 10.
        requires = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
        _pip("install", *requires)
        _pip("install", "--no-build-isolation", "--editable", f"{ROOT}[dev]")
    else:
        _pip("install", "--editable", str(ROOT))
    content = {"profile": profile, "python": _venv_python(), "key": _key()}
    STAMP.write_text(json.dumps(content) + "\n")


def _pip(*arguments: str) -> None:
    argv = [str(VENV / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", *arguments]
    with LOG.open("ab") as log:
        subprocess.run(argv, stdout=log, stderr=subprocess.STDOUT, check=True)


def _is_current(profile: str) -> bool:
    stamp = _read_stamp()
    return (
        stamp.get("profile") in {profile, "dev"}
        and stamp.get("key") == _key()
        and stamp.get("python") == _venv_python()
    )


def _key() -> str:
    # Everything that an editable install compiles or records; Python sources are read in
    # place and need no entry.
    paths = [ROOT / "pyproject.toml", ROOT / "hatch_build.py"]
    paths.append(ROOT / "src" / "xdplab" / "program" / "compile.py")
    for directory in ("bpf", "user/runtime", "native", "guests/runner"):
        paths += sorted((ROOT / "src" / "xdplab" / directory).glob("*.[ch]"))
    digest = hashlib.sha256(str(ROOT).encode())
    for path in paths:
        digest.update(f"\0{path.name}\0".encode())
        digest.update(path.read_bytes())
        # Objects that someone removed are a reason to build them again.
        compiled = [*(path.parent / "objects").glob(f"{path.stem}.*")]
        digest.update(f"\0{len(compiled)}".encode())
    return digest.hexdigest()


def _venv_python() -> str:
    """`sys.version` of .venv's Python; "" where it does not run."""
    if Path(sys.prefix) == VENV:
        return sys.version
    argv = [str(VENV / "bin" / "python"), "-c", "import sys; print(end=sys.version)"]
    try:
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""


def _read_stamp() -> dict[str, str]:
    try:
        content = json.loads(STAMP.read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
