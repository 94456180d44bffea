"""The tutorial, typed as it is written: daily up to the check, nightly to its end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import scripts, text_of
from tests.repository import CHECKOUT, link_checkout
from tests.training_code.table_job import prepare

PAGE = "docs/guides/your-own-model.md"
EDITS, _, RUN = text_of(PAGE).partition("## Run\n")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout to write into, whose `.venv` has the commands that the page types."""
    link_checkout(tmp_path)
    for name in ("training_code", ".venv"):
        (tmp_path / name).unlink()
        (tmp_path / name).mkdir()
    for entry in (CHECKOUT / "training_code").iterdir():
        (tmp_path / "training_code" / entry.name).symlink_to(entry)
    (tmp_path / ".venv" / "bin").mkdir()
    for name, arguments in (("python", ""), ("shoal", f" -m shoal.cli --root '{tmp_path}'")):
        program = tmp_path / ".venv" / "bin" / name
        program.write_text(f"#!/bin/sh\nexec '{sys.executable}'{arguments} \"$@\"\n")
        program.chmod(0o755)
    return tmp_path


def typed(checkout: Path, text: str, timeout_s: float = 120) -> str:
    """Run the blocks of a text in one shell, up to the first command that fails."""
    result = subprocess.run(
        ["bash", "-e"],
        input="".join(scripts(text)),
        cwd=checkout,
        env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "PYTHONPATH": str(CHECKOUT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=timeout_s,
    )
    assert result.returncode == 0, result.stdout
    return result.stdout


def test_its_edits_make_a_workload_that_is_checked(checkout: Path) -> None:
    output = typed(checkout, EDITS)
    assert "\n  shoal demo heat  " in output
    assert "training_code/heat/workload.yaml: ok (2 requests)" in output
    assert "environments/heat.yaml: ok (torchrun on 2 x ml.m5.xlarge)" in output
    assert "may fail (" not in output
    assert "601 mine/channels/test/heat.csv" in output
    model = (checkout / "training_code" / "heat" / "pytorch" / "model.py").read_text()
    assert "self.layers = Net(len(FEATURES))\n" in model
    assert "from net import Net\n" in model
    assert prepare(checkout, "heat", checkout / "again").is_dir()


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_all_of_it_works(checkout: Path) -> None:
    typed(checkout, EDITS)
    output = typed(checkout, RUN, timeout_s=800)
    assert "endpoint        answered cold-morning.json" in output
