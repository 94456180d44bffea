"""The wheel alone, away from the checkout: a team's top level is synthesised with it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.repository import CHECKOUT

PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
TEAM = ("app.py", "cdk.json", "environments", "images", "pipelines", "stacks", "training_code")

# Building fetches hatchling.
pytestmark = [pytest.mark.registry, pytest.mark.nightly]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel into an empty folder; its dependencies are those of the tests."""
    folder = tmp_path_factory.mktemp("wheel")
    build = (*PIP, "wheel", "--no-deps", "--wheel-dir", str(folder))
    subprocess.run((*build, str(CHECKOUT / "packages/shoal")), check=True, timeout=300)
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
