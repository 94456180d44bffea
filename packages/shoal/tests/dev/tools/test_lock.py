"""What is installed is what was locked, to the byte."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dev.tools.lock import CHOSEN, SETS

ROOT = Path(__file__).resolve().parents[5]


@pytest.mark.parametrize("name", [*SETS, *CHOSEN])
def test_every_locked_package_has_a_hash(name: str) -> None:
    text = (ROOT / f"{name}.txt").read_text()
    packages = re.findall(r"^[\w.\[\]-]+==\S+(.*(?:\n[ ]+\S.*)*)", text, re.MULTILINE)
    assert packages
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}", package) for package in packages)
    assert "://" not in text
