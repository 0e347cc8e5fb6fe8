# Sourced by the commands beside it, which set `self` to their own place (not a link to them):
# sets `root` and `venv`, and gives `set_up`.
# Plain POSIX sh, for it runs before anything is known of the machine.

root=$(CDPATH='' cd -- "$(dirname -- "$self")/.." && pwd -P) || exit 3
venv=$root/.venv
# A folder's name may hold letters that the locale's encoding has not.
export PYTHONUTF8=1

# Prints a Python that is new enough and can make environments; explains why there is none.
find_python() {
    seen=
    for name in python3 python3.14 python3.13 python3.12 python3.11; do
        # A name on PATH may be a version manager's shim that cannot run: ask it.
        found=$("$name" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) ||
            continue
        case $found in 3.[0-9] | 3.10) seen="${seen:+$seen, }$name is $found" && continue ;; esac
        if "$name" -c 'import ensurepip, venv' 2>/dev/null; then
            echo "$name"
            return 0
        fi
        seen="${seen:+$seen, }$name lacks venv or ensurepip (on Debian and Ubuntu:"
        seen="$seen apt install python$found-venv)"
    done
    echo "xdplab needs Python 3.11 or newer with venv; found: ${seen:-no python3 on PATH}." \
        "Install one and run this again." >&2
    return 3
}

# set_up run|dev: makes .venv, or brings it up to date; quick where there is nothing to do.
set_up() {
    if [ -x "$venv/bin/python" ] && "$venv/bin/python" -I "$root/scripts/environment.py" --current "$1"
    then
        return 0
    fi
    python=$(find_python) || exit 3
    "$python" -I -X utf8 "$root/scripts/environment.py" "$1" || exit $?
}
