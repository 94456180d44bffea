"""The wheels alone, away from the checkout: a team starts from nothing else."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
import venv
from importlib.metadata import version
from pathlib import Path

import pytest

from shoal_local.runtimes import packages
from tests.repository import CHECKOUT

# Building fetches hatchling.
pytestmark = [pytest.mark.registry, pytest.mark.nightly, pytest.mark.timeout(2400)]


def test_a_team_starts_with_nothing_but_the_wheels(tmp_path: Path) -> None:
    """What an engineer types first, in an empty environment and an empty folder."""
    sources = [str(CHECKOUT / "packages" / name) for name in ("shoal", "shoal-local")]
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
    build = (*pip, "wheel", "--no-deps", "--wheel-dir", str(tmp_path / "wheels"), *sources)
    subprocess.run(build, check=True, timeout=300)
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv" / "bin" / "python"
    from_wheels = ["--find-links", str(tmp_path / "wheels"), "shoal[init]", "shoal-local"]
    packages.install(python, from_wheels, print, sys.executable)
    type_(tmp_path, str(python.with_name("shoal")), "init", "team", "--wheels", "wheels")
    team = tmp_path / "team"
    assert type_(team, str(python.with_name("shoal")), "--version") == f"shoal {version('shoal')}\n"
    locked = (team / "requirements.txt").read_text(encoding="utf-8")
    assert {"shoal", "shoal-local"} <= set(re.findall(r"^(\S+)==.*\n +--hash", locked, re.M))
    other = elsewhere(tmp_path, team, tmp_path / "wheels")
    for target in ("install", "check", "demo", "test"):
        type_(other, "make", target)
    summary = json.loads((other / "demo-out" / "summary.json").read_text(encoding="utf-8"))
    assert (summary["status"], summary["left_behind"]) == ("Succeeded", [])


def elsewhere(folder: Path, team: Path, wheels: Path) -> Path:
    """Clone a team's repository as another machine has it: without the folder of the wheels, and
    without the first checkout.
    """
    commit = ("-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "--quiet", "-mStart")
    for words in (("init", "--quiet"), ("add", "--all"), commit):
        subprocess.run(["git", *words], cwd=team, check=True)
    subprocess.run(["git", "clone", "--quiet", team, folder / "elsewhere"], check=True)
    for each in (team, wheels):
        shutil.rmtree(each)
    return folder / "elsewhere"


def type_(folder: Path, *command: str) -> str:
    """Run a command as a user does, with no more than pip's configuration; print what it took."""
    kept = {name: value for name, value in os.environ.items() if "PYTHON" not in name}
    started_at = time.monotonic()
    environment = kept | {"PATH": f"{Path(sys.base_prefix, 'bin')}:/usr/bin:/bin"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    print(f"{' '.join(command[-2:])}: {time.monotonic() - started_at:.0f} s")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
