"""A fork whose people edited `environments/` and added a workload, with and without those that
Shoal brings: its checks and tests pass.
"""

import os
import re
import shutil
import subprocess
import venv
from pathlib import Path

import pytest

from dev.tools.gates import SHIPPED
from shoal.verbs.new_workload import write_workload
from tests.repository import CHECKOUT

FAST = ("-p", "no:cacheprovider", "-m", "not nightly and not registry")


@pytest.fixture(scope="module")
def fork(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with the files of this one, where dev is elsewhere, qa is new, prod is not
    there, and a workload is their own.
    """
    folder = tmp_path_factory.mktemp("fork")
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.check_output(listing, cwd=CHECKOUT, text=True).splitlines():
        if (CHECKOUT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(CHECKOUT / name, folder / name)
    for name in ("node_modules", ".shoal"):
        (folder / name).symlink_to(CHECKOUT / name)
    install(folder)
    files = folder / "environments"
    elsewhere = {"111122223333": "999988887777", "us-east-1": "eu-west-1", "use1": "euw1"}
    rewrite(files / "dev.yaml", files / "dev.yaml", elsewhere)
    rewrite(files / "staging.yaml", files / "qa.yaml", {"name: staging": "name: qa"} | elsewhere)
    (files / "prod.yaml").unlink()
    write_workload(folder, "own", "regression")
    script = folder / "training_code" / "own" / "pytorch" / "table.py"
    imports = "from __future__ import annotations\n"
    theirs = f"{imports}\nimport a_package_of_theirs  # noqa: F401\n"
    script.write_text(script.read_text().replace(imports, theirs, 1))
    for words in ("init --quiet", "add --all"):
        subprocess.run(["git", *words.split()], cwd=folder, check=True)
    return folder


@pytest.fixture(scope="module")
def own_only(fork: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same without Shoal's workloads and their environments: theirs runs in dev."""
    folder = tmp_path_factory.mktemp("own") / "fork"
    shutil.copytree(fork, folder, symlinks=True, ignore=shutil.ignore_patterns(".venv"))
    install(folder)
    for name in SHIPPED:
        shutil.rmtree(folder / "training_code" / name)
    files = folder / "environments"
    rewrite(files / "own.yaml", files / "dev.yaml", {"name: own": "name: dev"})
    shutil.rmtree(files / "strategies")
    for name in ("own", "language", "staging", "qa"):
        (files / f"{name}.yaml").unlink()
    shutil.rmtree(folder / "tests" / "snapshots")
    return folder


def rewrite(source: Path, destination: Path, words: dict[str, str]) -> None:
    text = source.read_text(encoding="utf-8")
    for old, new in words.items():
        text = text.replace(old, new)
    destination.write_text(text, encoding="utf-8")


def install(folder: Path) -> None:
    """Make `.venv` as `make install` does: what is installed here, and the code of `folder`."""
    environment, installed = folder / ".venv", CHECKOUT / ".venv"
    venv.create(environment, symlinks=True)
    for program in (installed / "bin").iterdir():
        if not (environment / "bin" / program.name).exists():
            (environment / "bin" / program.name).symlink_to(program)
    (packages,) = installed.glob("lib/python*/site-packages")
    sources = (str(folder / "packages" / name / "src") for name in ("shoal", "shoal-local"))
    lines = [*sources, f"import site; site.addsitedir({str(packages)!r})"]
    own = environment / packages.relative_to(installed)
    (own / "fork.pth").write_text("\n".join(lines))


def run(command: list[str], folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a module in `folder` by its own Python."""
    return subprocess.run(
        [str(folder / ".venv" / "bin" / "python"), "-m", *command],
        cwd=folder,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"} | variables,
        capture_output=True,
        text=True,
        check=False,
    )


def test_its_environments_are_checked(fork: Path) -> None:
    result = run(["shoal.cli", "check"], fork)
    assert (result.returncode, result.stderr) == (0, "")
    checked = re.findall(r"^environments/(\w+)\.yaml: ok", result.stdout, re.MULTILINE)
    assert {"dev", "own", "qa", "staging"} <= set(checked)
    assert "prod" not in checked


@pytest.mark.timeout(1800)
@pytest.mark.nightly
def test_the_gate_passes_without_shoals_workloads(own_only: Path) -> None:
    """What a team owns is tested, by snapshots that it wrote itself."""
    write = ["pytest", *FAST, "-k", "not local_run", "tests"]
    written = run(write, own_only, SNAPSHOTS="write")
    assert written.returncode == 0, written.stdout
    result = run(["dev.tools.gates", "check"], own_only)
    assert result.returncode == 0, result.stdout
    assert "not tested here: packages/" in result.stdout


@pytest.mark.timeout(1800)
@pytest.mark.nightly
@pytest.mark.parametrize(
    "command",
    [
        ("dev.tools.gates", "check", "--deselect", "packages/shoal/tests/test_fork.py"),
        ("pytest", *FAST, "packages/shoal/tests/stacks"),
    ],
    ids=["make check", "tests of stacks"],
)
def test_its_tests_pass(fork: Path, command: tuple[str, ...]) -> None:
    result = run([*command], fork)
    assert result.returncode == 0, result.stdout
