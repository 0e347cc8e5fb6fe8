"""Builds of a tree that looks like a kernel's and takes no time: what is kept, what is touched."""

from __future__ import annotations

import hashlib
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from xdplab.errors import NotPossibleError, UsageError, XdplabError
from xdplab.guests import build as builds
from xdplab.guests.build import Request, build

MAKEFILE = """
tinyconfig:
\t@echo CONFIG_TINY=y > $(O)/.config
olddefconfig:
\t@true
mrproper:
\t@rm -f .config
bzImage:
\t@echo "  CC code.o"
\t@! grep -q broken code || { echo "code:1: error: it is broken"; exit 1; }
\t@mkdir -p $(O)/arch/x86/boot
\t@cat code > $(O)/arch/x86/boot/bzImage
\t@touch $(O)/System.map
"""
MERGE = 'shift 2; out=$1; shift 2; cat "$@" >> "$out/.config"\n'


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree whose kernel is the text of its file `code`."""
    for tool in ("make", "patch", "gcc", "ld", "tar"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    monkeypatch.setattr(builds, "TOOLS", ("make", "patch"))
    where = tmp_path / "tree"
    (where / "arch").mkdir(parents=True)
    (where / "scripts" / "kconfig").mkdir(parents=True)
    (where / "Kbuild").touch()
    (where / "Makefile").write_text(MAKEFILE)
    (where / "scripts" / "kconfig" / "merge_config.sh").write_text(MERGE)
    (where / "code").write_text("old\n")
    # As it is where somebody built in the tree itself.
    (where / ".config").write_text("CONFIG_HUGE=y\n")
    return where


def patch_to(tmp_path: Path, word: str, old: str = "old") -> Path:
    """A patch that makes the kernel's text that word."""
    path = tmp_path / f"{word}.patch"
    path.write_text(f"--- a/code\n+++ b/code\n@@ -1 +1 @@\n-{old}\n+{word}\n")
    return path


def state(tree: Path) -> str:
    """All names, times and contents of a tree."""
    whole = hashlib.sha256()
    for path in sorted(tree.rglob("*")):
        whole.update(f"{path} {path.stat().st_mtime_ns}".encode())
        whole.update(path.read_bytes() if path.is_file() else b"")
    return whole.hexdigest()


def built(
    tree: Path, cache: Path, *patches: Path, stop: Callable[[], bool] = lambda: False
) -> list[str]:
    """The texts of the kernels that come of it."""
    request = Request(tree, patches)
    return [path.read_text() for path in build(request, stop, lambda _label, _share: None, cache)]


def test_a_tree_and_a_patch_give_two_kernels_and_the_tree_is_untouched(
    tree: Path, tmp_path: Path
) -> None:
    before, cache = state(tree), tmp_path / "cache"
    assert built(tree, cache, patch_to(tmp_path, "new")) == ["old\n", "new\n"]
    # The next patch begins with the tree as it is, not as the last one left it.
    assert built(tree, cache, patch_to(tmp_path, "other")) == ["old\n", "other\n"]
    assert state(tree) == before
    config = next(cache.glob("built-*/config")).read_text()
    assert "CONFIG_TINY=y" in config
    assert "CONFIG_BPF_SYSCALL=y" in config
    assert "CONFIG_HUGE=y" not in config


def test_what_was_built_is_not_built_again_and_another_source_is(
    tree: Path, tmp_path: Path
) -> None:
    cache, patch = tmp_path / "cache", patch_to(tmp_path, "new")
    built(tree, cache, patch)
    for work in cache.glob("work-*"):
        shutil.rmtree(work)
    assert built(tree, cache, patch) == ["old\n", "new\n"]
    assert not list(cache.glob("work-*"))
    (tree / "code").write_text("older\n")
    assert built(tree, cache) == ["older\n"]


def test_an_archive_is_a_tree_as_well(tree: Path, tmp_path: Path) -> None:
    (tree / ".config").unlink()
    archive = tmp_path / "linux.tar.xz"
    with tarfile.open(archive, "w:xz") as file:
        file.add(tree, "linux-6")
    assert built(archive, tmp_path / "cache") == ["old\n"]


def test_a_patch_that_does_not_apply_is_named_and_leaves_the_copy_clean(
    tree: Path, tmp_path: Path
) -> None:
    cache, wrong = tmp_path / "cache", patch_to(tmp_path, "new", old="absent")
    with pytest.raises(UsageError, match=r"new\.patch does not apply.*FAILED"):
        built(tree, cache, patch_to(tmp_path, "middle"), wrong)
    assert built(tree, cache, patch_to(tmp_path, "good")) == ["old\n", "good\n"]


def test_a_build_that_fails_shows_its_first_error_and_keeps_nothing(
    tree: Path, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    with pytest.raises(XdplabError, match=r"kernel B failed: code:1: error: it is broken.*log: "):
        built(tree, cache, patch_to(tmp_path, "broken"))
    assert len(list(cache.glob("built-*"))) == 1
    assert not list(cache.glob(".keeping-*"))
    assert built(tree, cache, patch_to(tmp_path, "good")) == ["old\n", "good\n"]


def test_a_killed_build_does_not_leave_its_patch_behind(tree: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    built(tree, cache, patch_to(tmp_path, "new"))
    (work,) = cache.glob("work-*")
    # As SIGKILL leaves it between patching and taking the patch back.
    (work / "clean").unlink()
    (work / "source" / "code").write_text("half\n")
    assert built(tree, cache, patch_to(tmp_path, "good")) == ["old\n", "good\n"]


def test_asked_to_stop_it_keeps_nothing(tree: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with pytest.raises(KeyboardInterrupt):
        built(tree, cache, stop=lambda: True)
    assert not list(cache.glob("built-*"))
    assert built(tree, cache) == ["old\n"]


def test_what_is_missing_is_said_before_anything_is_done(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="no kernel source tree"):
        built(tmp_path, tmp_path / "cache")
    (tmp_path / "x.tar").write_text("none")
    with pytest.raises(UsageError, match="nor a tar archive"):
        built(tmp_path / "x.tar", tmp_path / "cache")
    with pytest.raises(UsageError, match="there is no"):
        built(tree, tmp_path / "cache", tmp_path / "absent.patch")
    monkeypatch.setattr(builds, "TOOLS", ("make", "flex-that-nobody-has"))
    with pytest.raises(NotPossibleError, match="flex-that-nobody-has.*apt-get install"):
        built(tree, tmp_path / "cache")
