"""A team's repository goes over three made-up versions, with wheels, git and a package index."""

import shutil
import sys
import zipfile
from functools import cache
from pathlib import Path

import pytest

from local_kit.commands import printed
from shoal_local.runtimes.packages import uv_environment
from tests.repository import CHECKOUT

pytestmark = [pytest.mark.registry, pytest.mark.nightly, pytest.mark.timeout(3600)]
UV = (sys.executable, "-m", "uv")
LIBRARY = Path("packages/shoal/src/shoal")
ROW = '("0.1003.0", ENVIRONMENTS, rename("network", "training_az_id", to="training_zone"))'
NO_ROWS = "MIGRATIONS: tuple[Migration, ...] = ()"
ENDING = "return Pipeline(parameters.all(), (train, evaluate, *compare, gate))"
PERSON = {
    f"GIT_{role}_{what}": "a@example.com"
    for role in ("AUTHOR", "COMMITTER")
    for what in ("NAME", "EMAIL")
}


@cache
def variables() -> dict[str, str]:
    """Return the environment of a team's person; pip is a process, which no collection needs."""
    return {**uv_environment(sys.executable), **PERSON, "PYTHONPATH": ""}


def change_template(sources: Path) -> None:
    replace(sources / "pipelines/training.py", ENDING, f"# The order of the page\n    {ENDING}")
    replace(sources / "stacks/data.py", '"""The stack of what', '"""What')
    (sources / LIBRARY / "template/team/NOTES.md").write_text("# New\n")


def rename_a_key(sources: Path) -> None:
    for suffix in (".py", ".jinja", ".json", ".yaml"):
        for file in (sources / LIBRARY).rglob(f"*{suffix}"):
            replace(file, "training_az_id", "training_zone")
    replace(sources / LIBRARY / "verbs/upgrade/finish.py", NO_ROWS, f"MIGRATIONS = ({ROW},)")


def change_nothing(_: Path) -> None:
    pass


FIRST = "0.1001.0"
NAMES, LAST_TWO = ("shoal", "shoal_local"), ("0.1003.0", "0.1004.0")
VERSIONS = {"0.1002.0": change_template, "0.1003.0": rename_a_key, "0.1004.0": change_nothing}


def replace(file: Path, old: str, new: str) -> None:
    file.write_text(file.read_text().replace(old, new))


def run(folder: Path, *command: str | Path) -> str:
    return printed(*command, cwd=folder, env=variables())


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build this version and three made-up ones, each with what the one before changed."""
    sources, wheels = tmp_path_factory.mktemp("sources"), tmp_path_factory.mktemp("wheels")
    names = run(CHECKOUT, "git", "ls-files", "--cached", "--others", "--exclude-standard")
    for name in names.splitlines():
        if (CHECKOUT / name).is_file():
            (sources / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(CHECKOUT / name, sources / name)
    for version, change in {FIRST: change_nothing, **VERSIONS}.items():
        change(sources)
        before = f'"0.{int(version.split(".")[1]) - 1}.0"'
        for package in ("packages/shoal", "packages/shoal-local"):
            replace(sources / package / "pyproject.toml", '"0.1.0"', '"0.1000.0"')
            replace(sources / package / "pyproject.toml", before, f'"{version}"')
            run(sources / package, *UV, "build", "--wheel", "--quiet", "--out-dir", wheels)
    return wheels


@pytest.fixture(scope="module")
def team(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository that the first version wrote, and that its people then edited."""
    root, venv = tmp_path_factory.mktemp("teams") / "team", tmp_path_factory.mktemp("venv") / "venv"
    run(wheels, sys.executable, "-m", "venv", venv)
    install(
        wheels, venv, "--find-links", ".", f"shoal[init]=={FIRST}", f"shoal-local[pytest]=={FIRST}"
    )
    options = ("--project", "acme", "--workload", "churn", "--wheels", wheels)
    run(wheels, venv / "bin/shoal", "init", root, *options)
    key = "KeyArn=storage"
    replace(root / "stacks/data.py", key, f"Ours=storage.data.bucket_arn,\n            {key}")
    replace(root / "pipelines/training.py", "    register = Reg", "    # Ours\n    register = Reg")
    replace(root / "environments/dev.yaml", "protect: false", "protect: false # it may go")
    (root / "AGENTS.md").unlink()
    for command in ("init --quiet --initial-branch main", "add --all", "commit --quiet -m Start"):
        run(root, "git", *command.split())
    (root / ".venv").symlink_to(venv)
    (root / "node_modules").symlink_to(CHECKOUT / "node_modules")
    return root


def install(folder: Path, venv: Path, *what: str) -> None:
    options = ("--python", venv / "bin/python", "--index-strategy", "unsafe-best-match")
    run(folder, *UV, "pip", "install", *options, *what)


def test_every_file_of_the_package_is_in_its_wheel(wheels: Path) -> None:
    names = run(CHECKOUT / LIBRARY.parent, "git", "ls-files", "shoal").splitlines()
    with zipfile.ZipFile(wheels / f"shoal-{FIRST}-py3-none-any.whl") as wheel:
        assert set(names) <= set(wheel.namelist())


def test_three_versions_come_without_a_conflict(team: Path, wheels: Path) -> None:
    for version in VERSIONS:
        command = (".venv/bin/python", "-m", "shoal.cli", "upgrade", "--wheels", wheels)
        run(team, *command, "--to", version)
        assert run(team, "git", "status", "--porcelain", "--branch") == "## main\n"
        run(team, "git", "merge", "--quiet", "--ff-only", f"shoal-{version}")
        message = run(team, "git", "log", "--max-count=1", "--format=%B")
        assert "Nothing: every template is the same." in message
        install(team, team / ".venv", "--require-hashes", "-r", "requirements.txt")
    assert run(team, "git", "rev-list", "--count", "HEAD") == f"{1 + len(VERSIONS)}\n"
    for file, text in {
        "environments/dev.yaml": "training_zone: ",
        "environments/base.yaml": "project: acme",
        "stacks/data.py": "Ours=",
        "pipelines/training.py": "# The order of the page",
        "NOTES.md": "# New",
    }.items():
        assert text in (team / file).read_text()
    assert "# it may go" in (team / "environments/dev.yaml").read_text()
    assert "# Ours" in (team / "pipelines/training.py").read_text()
    assert not (team / "AGENTS.md").exists()
    changed = run(team, "git", "diff", "--name-only", "--no-renames", "HEAD~1").split()
    files = {f"wheels/{name}-{each}-py3-none-any.whl" for name in NAMES for each in LAST_TWO}
    assert {*changed} == {".shoal-answers.yaml", "requirements.in", "requirements.txt", *files}
    assert str(wheels) not in run(team, "git", "grep", "-I", "find-links")
    shutil.rmtree(wheels)  # as on another machine
    run(team.parent, "git", "clone", "--quiet", team, "elsewhere")
    run(team.parent, sys.executable, "-m", "venv", "fresh")
    other = team.parent / "elsewhere"
    install(other, team.parent / "fresh", "--require-hashes", "-r", "requirements.txt")
