"""A team's git repository: questions about it, commits in it, and what an upgrade does to it."""

import os
import re
from pathlib import Path
from typing import Any

import pytest

from local_kit.tables import rows
from shoal.errors import AnswerError, PromotionError, UsageError
from shoal.repository import Repository, hash_as
from shoal.settings.parsing.errors import ConfigError
from shoal.verbs.init import FILE as ANSWERS
from shoal.verbs.init import answers_of, text_of
from shoal.verbs.upgrade.begin import Workplace, upgrade
from shoal.verbs.upgrade.finish import (
    ENVIRONMENTS,
    WORKLOADS,
    _leave,
    merge,
    migrate,
    rename,
    trees,
)
from tests.repository import begin_git, git

FILE = "environments/dev.yaml"


def made(root: Path, checkout: str = ".", *options: str) -> Repository:
    """Make a repository at `root`, with a checkout of ours in a folder, and one commit."""
    for name in (FILE, "code/train.py", "code/sub/data.py"):
        (root / checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (root / checkout / name).write_text(f"{name}\n")
    begin_git(root, *options)
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


TEXT = """\
# old: not this
network: # kept
  old: [a, b]   # kept, too
  other: {old: 1, "old": 2}
jobs:
- old: x
- {old: y, other: old}
"""


@pytest.mark.parametrize(("path", "before", "after"), rows(__file__, "cases.yaml", "renamed"))
def test_a_key_is_renamed_where_it_stands(path: list[str], before: str, after: str) -> None:
    assert rename(*path, to="newer")(TEXT) == TEXT.replace(before, after, 1 if before else 0)


@pytest.mark.parametrize("text", ["", "# nothing\n", "- a\n", "word\n", "a: é # ü\r\nold: 1\r\n"])
def test_any_file_can_be_looked_at(text: str) -> None:
    assert rename("old", to="newer")(text) == text.replace("old", "newer")


@pytest.mark.parametrize(("since", "content"), rows(__file__, "cases.yaml", "applied"))
def test_all_that_is_newer_is_applied_in_order(tmp_path: Path, since: str, content: str) -> None:
    table = [
        ("0.2.0", ENVIRONMENTS, rename("a", to="b")),
        ("0.3.0", ENVIRONMENTS, rename("b", to="c")),
        ("0.3.0", WORKLOADS, rename("*", to="wrong")),
    ]
    for name in ("dev.yaml", "strategies/none.yaml"):
        file = tmp_path / "environments" / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"a: 1\r\n")
    changed = migrate(tmp_path, since, table)
    texts = {file.read_bytes().decode() for file in tmp_path.rglob("*.yaml")}
    assert texts == {content}
    assert len(changed) == (2 if content != "a: 1\r\n" else 0)


Files = dict[str, str]
LINES = "".join(f"line {number}\n" for number in range(20))
FIRST, LAST, LAST_TOO = (
    LINES.replace(f"line {number}\n", f"{text}\n")
    for number, text in ((1, "theirs"), (19, "ours"), (19, "theirs"))
)
BOTH = FIRST.replace("line 19\n", "ours\n")
TEXTS = {"lines": LINES, "first": FIRST, "ours": LAST, "theirs": LAST_TOO, "both": BOTH}


def texts(files: dict[str, Any]) -> dict[str, Any]:
    """Return files of a table, whose texts it gives by their names."""
    return {name: TEXTS.get(text, text) for name, text in files.items()}


@pytest.mark.parametrize(("old", "new", "ours", "expected"), rows(__file__, "cases.yaml", "merged"))
@pytest.mark.parametrize("prefix", ["", "models/"])
def test_three_renderings_become_one(
    tmp_path: Path,
    prefix: str,
    old: dict[str, Any],
    new: dict[str, Any],
    ours: dict[str, Any],
    expected: dict[str, Any],
) -> None:
    old, new, ours, expected = map(texts, (old, new, ours, expected))
    write(tmp_path / prefix, {**ours, ".gitignore": ".shoal\n"})
    begin_git(tmp_path)
    place = Workplace(tmp_path / prefix, os.environ, lambda _: None)
    with place.opened():
        for folder, files in ((place.was, old), (place.now, new)):
            write(folder, {**files, ".gitignore": ".shoal\n"})
        mine, theirs = trees(place, "Theirs")
        conflicts, _ = merge(place.work, mine, theirs)
        merged = {
            file.relative_to(place.team).as_posix(): file.read_text()
            for file in place.team.rglob("*")
            if file.is_file() and not file.name.startswith(".git")
        }
    assert conflicts == [f"{prefix}{name}" for name, text in expected.items() if text is None]
    assert merged.keys() == expected.keys()
    assert {
        name: text for name, text in expected.items() if text is not None
    }.items() <= merged.items()
    assert git(tmp_path, "status", "--porcelain") == ""
    assert len(git(tmp_path, "worktree", "list").splitlines()) == 1


@pytest.mark.parametrize(("kept", "given", "told"), rows(__file__, "cases.yaml", "wheels"))
def test_a_place_of_wheels_is_safe_and_has_a_version(
    tmp_path: Path, kept: str, given: str | None, told: str
) -> None:
    """A stranger's package of Shoal's name on an index would be the newest."""
    dev = {"account": "111122223333", "region": "us-east-1"}
    said = {"project": "acme", "workload": "churn", "kind": "regression", "wheels": kept}
    text = text_of(answers_of({**said, "environments": {"dev": dev}}))
    write(tmp_path, {ANSWERS: text, ".gitignore": ".shoal\n"})
    begin_git(tmp_path)
    with pytest.raises((ConfigError, UsageError), match=told):
        upgrade(Workplace(tmp_path, os.environ, lambda _: None), None, given)


@pytest.mark.parametrize(
    ("edits", "is_committed"),
    [({}, False), ({"a": "mine"}, False), ({"b": "mine"}, False), ({"own": "mine"}, True)],
)
def test_what_was_done_meanwhile_stays(tmp_path: Path, edits: Files, is_committed: bool) -> None:
    write(tmp_path, {"a": LAST, ".gitignore": ".shoal\n"})
    begin_git(tmp_path)
    place = Workplace(tmp_path, os.environ, lambda _: None)
    with place.opened():
        for folder, text in ((place.was, LINES), (place.now, LAST_TOO)):
            write(folder, {"a": text, ".gitignore": ".shoal\n"})
        write(place.now, {"b": LINES})
        mine, theirs = trees(place, "Theirs")
        write(tmp_path, edits)
        if is_committed:
            git(tmp_path, "add", "--all")
            git(tmp_path, "commit", "--quiet", "--message", "Ours")
        if edits and not is_committed:
            with pytest.raises(PromotionError, match="in no commit"):
                _leave(place, mine, theirs, ["Theirs"], "")
        else:
            _leave(place, mine, theirs, ["Theirs"], "")
            assert git(tmp_path, "status", "--porcelain") == "UU a\nA  b"
            git(tmp_path, "reset", "--quiet", "--hard")
            git(tmp_path, "switch", "--quiet", "main")
    assert {name: (tmp_path / name).read_text() for name in edits} == edits


def write(folder: Path, files: Files) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
