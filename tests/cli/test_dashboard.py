"""Where `shoal dashboard` puts its pictures."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from shoal.cli import dashboard
from shoal.cli.main import main
from shoal.verbs.target import Target
from tests.repository import CHECKOUT, link_checkout


def test_pictures_go_where_git_does_not_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout = link_checkout(tmp_path)
    subprocess.run(["git", "init", "--quiet"], cwd=checkout, check=True)
    (checkout / ".gitignore").unlink()  # a link, which git does not read
    shutil.copy(CHECKOUT / ".gitignore", checkout)
    folders: list[Path] = []

    def draw(_: Target, __: str, ___: float, folder: Path) -> list[Path]:
        folders.append(folder)
        return []

    monkeypatch.setattr(Target, "check_account", lambda _: None)
    monkeypatch.setattr(dashboard, "write_images", draw)
    assert main(["--root", str(checkout), "dashboard", "dev"]) == 0
    (folder,) = folders
    ignored = subprocess.run(
        ["git", "check-ignore", "--quiet", str(folder / "01-a.png")], cwd=checkout, check=False
    )
    assert ignored.returncode == 0
