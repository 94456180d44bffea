"""Questions about a real git repository, and commits in it."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from shoal.errors import AnswerError, PromotionError
from shoal.repository import Repository, hash_as

FILE = "environments/dev.yaml"


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=folder, check=True, capture_output=True, text=True
    ).stdout.strip()


def made(root: Path, checkout: str = ".", *options: str) -> Repository:
    """Make a repository at `root`, with a checkout of ours in a folder, and one commit."""
    root.mkdir(exist_ok=True)
    git(root, "init", "--quiet", "--initial-branch=main", *options)
    for setting in ("user.name=Ada", "user.email=ada@example.com", "commit.gpgsign=false"):
        git(root, "config", *setting.split("="))
    for name in (FILE, "code/train.py", "code/sub/data.py"):
        (root / checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (root / checkout / name).write_text(f"{name}\n")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "Begin")
    return Repository((root / checkout).resolve(), os.environ)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return made(tmp_path / "repository")


def test_a_description_names_commit_and_state(repository: Repository, tmp_path: Path) -> None:
    commit = git(repository.root, "rev-parse", "--short", "HEAD")
    clean = repository.description()
    (repository.root / FILE).write_text("changed")
    assert (clean, repository.description()) == (commit, f"{commit}-dirty")
    assert Repository(tmp_path, os.environ).description() == ""


@pytest.mark.parametrize("checkout", [".", "deploy/shoal"])
def test_a_commit_changes_the_checkout_wherever_it_lies(tmp_path: Path, checkout: str) -> None:
    repository = made(tmp_path / "repository", checkout)
    commit = repository.commit("promote/dev", FILE, "name: dev\n", "Promote")
    assert repository.text(commit, FILE) == "name: dev\n"
    changed = git(repository.root, "show", "--name-only", "--format=", commit)
    assert changed == str(Path(checkout, FILE))


@pytest.mark.parametrize("options", [(), ("--object-format=sha256",)])
def test_the_hash_of_a_file_is_gits(tmp_path: Path, options: tuple[str, ...]) -> None:
    repository = made(tmp_path / "repository", "deploy", *options)
    files = repository.files("HEAD", "code")
    assert set(files) == {"train.py", "sub/data.py"}
    assert hash_as(files["train.py"], b"code/train.py\n") == files["train.py"]


def test_only_commits_that_changed_the_folder_are_listed(repository: Repository) -> None:
    first = repository.head()
    (repository.root / FILE).write_text("changed\n")
    git(repository.root, "commit", "--quiet", "--all", "--message", "Change")
    assert repository.commits_of(["code"], 10) == [first]
    assert len(repository.commits_of(["environments"], 10)) == 2


def test_a_folder_that_was_not_there_yet_has_no_files(repository: Repository) -> None:
    assert repository.files("HEAD", "nowhere") == {}


@pytest.mark.parametrize("shown", ["no", "normal"])
@pytest.mark.parametrize("file", ["new.txt", "code/new.py"])
def test_an_unknown_file_makes_it_dirty(repository: Repository, file: str, shown: str) -> None:
    """Although the user's git shows none."""
    repository.require_clean()
    git(repository.root, "config", "status.showUntrackedFiles", shown)
    (repository.root / file).write_text("new\n")
    says = f"changes that are in no commit: {re.escape(file)}; commit them"
    with pytest.raises(PromotionError, match=says):
        repository.require_clean()


def test_a_commit_that_fails_leaves_the_branch_as_it_was(repository: Repository) -> None:
    before = repository.commit("promote/dev", FILE, "name: dev\n", "Promote")
    with pytest.raises(FileNotFoundError):
        repository.commit("promote/dev", "nowhere/dev.yaml", "name: dev\n", "Promote")
    assert repository.commit_of("promote/dev") == before


def test_a_branch_is_merged_once_it_is_in_the_checkout(repository: Repository) -> None:
    repository.commit("promote/dev", FILE, "name: dev\n", "Promote")
    assert not repository.has_merged("promote/dev")
    git(repository.root, "merge", "--quiet", "--no-ff", "promote/dev")
    assert repository.has_merged("promote/dev")
    assert not repository.has_merged("promote/staging")


def test_a_folder_without_repository_is_refused(tmp_path: Path) -> None:
    environment = os.environ | {"GIT_CEILING_DIRECTORIES": str(tmp_path)}
    with pytest.raises(PromotionError, match="is no git repository with a commit"):
        Repository(tmp_path, environment).require_clean()


def test_a_remote_that_is_not_there_is_gits_own_message(repository: Repository) -> None:
    repository.commit("promote/dev", FILE, "name: dev\n", "Promote")
    with pytest.raises(AnswerError, match=r"git push failed with exit code 128: .*nowhere"):
        repository.push("nowhere", "promote/dev")


def test_a_hook_leads_to_no_other_repository(tmp_path: Path, repository: Repository) -> None:
    other = made(tmp_path / "other")
    (other.root / FILE).write_text("other\n")
    git(other.root, "commit", "--quiet", "--all", "--message", "Other")
    inside_a_hook = Repository(repository.root, os.environ | {"GIT_DIR": str(other.root / ".git")})
    assert inside_a_hook.head() == repository.head() != other.head()
