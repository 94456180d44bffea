"""The wheels alone, away from the checkout: a team's top level is synthesised with them, and a team
starts from nothing else.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

import pytest

from shoal_local.runtimes import packages
from tests.repository import CHECKOUT

PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
TEAM = ("app.py", "cdk.json", "environments", "images", "pipelines", "stacks", "training_code")

# Building fetches hatchling.
pytestmark = [pytest.mark.registry, pytest.mark.nightly]


def build_wheels(folder: Path, *packages: str) -> None:
    sources = [str(CHECKOUT / "packages" / name) for name in packages]
    build = (*PIP, "wheel", "--no-deps", "--wheel-dir", str(folder), *sources)
    subprocess.run(build, check=True, timeout=300)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel into an empty folder; its dependencies are those of the tests."""
    folder = tmp_path_factory.mktemp("wheel")
    build_wheels(folder, "shoal")
    (wheel,) = folder.glob("shoal-*.whl")
    target = folder / "installed"
    install = (*PIP, "install", "--no-deps", "--target", str(target), str(wheel))
    subprocess.run(install, check=True, timeout=300)
    return target


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with what a team owns and `npm ci` installs, and no packages/."""
    folder = tmp_path_factory.mktemp("team")
    files = subprocess.run(
        ["git", "ls-files", *TEAM], cwd=CHECKOUT, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    for name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(CHECKOUT / name, folder / name)
    (folder / "node_modules").symlink_to(CHECKOUT / "node_modules")
    return folder


def run(installed: Path, folder: Path, *arguments: str, **variables: str) -> str:
    """Run Python in `folder` with the wheel before what is installed; return what it printed."""
    with tempfile.TemporaryDirectory() as home:  # the CDK's library keeps a cache there
        environment = {"PATH": os.environ["PATH"], "HOME": home, "PYTHONPATH": str(installed)}
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=folder,
            env=environment | variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_file_of_the_package_is_inside(installed: Path) -> None:
    names = subprocess.run(
        ["git", "ls-files", "."],
        cwd=CHECKOUT / "packages/shoal/src/shoal",
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    assert [name for name in names if not (installed / "shoal" / name).is_file()] == []


def test_its_command_checks_a_repository_of_a_team(installed: Path, team: Path) -> None:
    printed = run(installed, team, str(installed / "bin" / "shoal"), "check")
    assert "environments/dev.yaml: ok" in printed


def test_it_synthesises_the_templates_of_the_checkout(
    installed: Path, team: Path, tmp_path: Path
) -> None:
    start = "import shoal, runpy; print(shoal.__path__)"
    program = f"{start}; runpy.run_path('app.py', run_name='__main__')"
    printed = run(installed, team, "-c", program, CDK_OUTDIR=str(tmp_path / "wheel"))
    assert str(installed) in printed
    sources = CHECKOUT / "packages/shoal/src"
    run(sources, CHECKOUT, "app.py", CDK_OUTDIR=str(tmp_path / "checkout"))
    templates = {
        place: {
            file.relative_to(tmp_path / place).as_posix(): file.read_bytes()
            for file in (tmp_path / place).rglob("*.template.json")
        }
        for place in ("wheel", "checkout")
    }
    assert len(templates["wheel"]) > 5
    assert templates["wheel"] == templates["checkout"]


@pytest.mark.timeout(2400)
def test_a_team_starts_with_nothing_but_the_wheels(tmp_path: Path) -> None:
    """What an engineer types first, in an empty environment and an empty folder."""
    build_wheels(tmp_path / "wheels", "shoal", "shoal-local")
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv" / "bin" / "python"
    from_wheels = ["--find-links", str(tmp_path / "wheels"), "shoal[init]", "shoal-local"]
    packages.install(python, from_wheels, print, sys.executable)
    type_(tmp_path, str(python.with_name("shoal")), "init", "team", "--wheels", "wheels")
    team = tmp_path / "team"
    locked = (team / "requirements.txt").read_text(encoding="utf-8")
    assert {"shoal", "shoal-local"} <= set(re.findall(r"^(\S+)==.*\n +--hash", locked, re.M))
    for target in ("install", "check", "demo", "test"):
        type_(team, "make", target)
    summary = json.loads((team / "demo-out" / "summary.json").read_text(encoding="utf-8"))
    assert (summary["status"], summary["left_behind"]) == ("Succeeded", [])


def type_(folder: Path, *command: str) -> None:
    """Run a command as a user does, with no more than pip's configuration; print what it took."""
    kept = {name: value for name, value in os.environ.items() if "PYTHON" not in name}
    started_at = time.monotonic()
    environment = kept | {"PATH": f"{Path(sys.base_prefix, 'bin')}:/usr/bin:/bin"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    print(f"{' '.join(command[-2:])}: {time.monotonic() - started_at:.0f} s")
    assert done.returncode == 0, done.stdout + done.stderr
