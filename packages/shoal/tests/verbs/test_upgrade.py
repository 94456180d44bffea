"""What an upgrade does to a team's repository: keys, and three renderings that become one."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from shoal.errors import PromotionError, UsageError
from shoal.settings.parsing.errors import ConfigError
from shoal.verbs.init import answers
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

TEXT = """\
# old: not this
network: # kept
  old: [a, b]   # kept, too
  other: {old: 1, "old": 2}
jobs:
- old: x
- {old: y, other: old}
"""


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        (("network", "old"), "  old: [a", "  newer: [a"),
        (("network", "other", "old"), '{old: 1, "old": 2}', "{newer: 1, newer: 2}"),
        (("jobs", "*", "old"), "- old: x\n- {old: y,", "- newer: x\n- {newer: y,"),
        (("*", "old"), "  old: [a", "  newer: [a"),
        (("jobs",), "\njobs:", "\nnewer:"),
        (("old",), "", ""),
        (("network", "old", "a"), "", ""),
        (("network", "absent", "old"), "", ""),
    ],
    ids=" ".join,
)
def test_a_key_is_renamed_where_it_stands(path: tuple[str, ...], before: str, after: str) -> None:
    assert rename(*path, to="newer")(TEXT) == TEXT.replace(before, after, 1 if before else 0)


@pytest.mark.parametrize("text", ["", "# nothing\n", "- a\n", "word\n", "a: é # ü\r\nold: 1\r\n"])
def test_any_file_can_be_looked_at(text: str) -> None:
    assert rename("old", to="newer")(text) == text.replace("old", "newer")


@pytest.mark.parametrize(
    ("since", "content"),
    [
        ("0.1.0", "c: 1\r\n"),
        ("0.2.0rc1", "a: 1\r\n"),
        ("0.2.0", "a: 1\r\n"),
        ("0.10.0", "a: 1\r\n"),
    ],
)
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
TRAIN = "training_code/churn/train.py"
BOTH = FIRST.replace("line 19\n", "ours\n")


@pytest.mark.parametrize(
    ("old", "new", "ours", "expected"),
    [
        ({"a": LINES}, {"a": LINES}, {"a": LAST}, {"a": LAST}),
        ({"a": LINES}, {"a": FIRST}, {"a": LINES}, {"a": FIRST}),
        ({"a": LINES}, {"a": FIRST}, {"a": LAST}, {"a": BOTH}),
        ({"a": LINES}, {"a": LAST_TOO}, {"a": LAST}, {"a": None}),
        ({}, {"b": LINES}, {"own": "x"}, {"b": LINES, "own": "x"}),
        ({}, {"b": LINES}, {"b": LAST}, {"b": None}),
        ({"a": LINES}, {}, {"a": LINES}, {}),
        ({"a": LINES}, {}, {"a": LAST}, {"a": None}),
        ({"a": LINES}, {"a": FIRST}, {}, {}),
        ({"a": LINES}, {"b": LINES}, {"a": LAST}, {"b": LAST}),
        ({"a": LINES}, {"a": FIRST}, {"b": LINES}, {"b": FIRST}),
        ({"d/a": LINES}, {"d/a": LINES, "d/b": "b"}, {"e/a": LINES}, {"e/a": LINES, "d/b": "b"}),
        ({"a": "1\0"}, {"a": "1\0"}, {"a": "2\0"}, {"a": "2\0"}),
        ({"a": "1\0"}, {"a": "3\0"}, {"a": "2\0"}, {"a": None}),
        ({TRAIN: LINES}, {TRAIN: LAST_TOO}, {TRAIN: LAST}, {TRAIN: LAST}),
        ({TRAIN: LINES}, {TRAIN: FIRST}, {TRAIN: LAST}, {TRAIN: BOTH}),
        ({TRAIN: LINES}, {TRAIN: FIRST}, {}, {}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("prefix", ["", "models/"])
def test_three_renderings_become_one(
    tmp_path: Path,
    prefix: str,
    old: Files,
    new: Files,
    ours: Files,
    expected: dict[str, str | None],
) -> None:
    """None stands for a conflict."""
    git(tmp_path, "init", "--quiet")
    write(tmp_path / prefix, {**ours, ".gitignore": ".shoal\n"})
    git(tmp_path, "add", "--all")
    git(tmp_path, *PERSON, "commit", "--quiet", "--message", "Theirs")
    place = Workplace(tmp_path / prefix, os.environ | VARIABLES, lambda _: None)
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
    assert git(tmp_path, "worktree", "list").count("\n") == 1


@pytest.mark.parametrize(
    ("kept", "given", "told"),
    [
        ("dist", None, r"with --to: Shoal comes from dist"),
        ("", "dist", r"with --to: Shoal comes from dist"),
        ("", "https://u:secret@host/", "has white space, or a password"),
        ("", "dist\n--index-url x", "has white space, or a password"),
    ],
)
def test_a_place_of_wheels_is_safe_and_has_a_version(
    tmp_path: Path, kept: str, given: str | None, told: str
) -> None:
    """A stranger's package of Shoal's name on an index would be the newest."""
    dev = {"account": "111122223333", "region": "us-east-1"}
    said = {"project": "acme", "workload": "churn", "kind": "regression", "wheels": kept}
    text = answers.text_of(answers.answers_of({**said, "environments": {"dev": dev}}))
    write(tmp_path, {answers.FILE: text, ".gitignore": ".shoal\n"})
    for command in (("init", "--quiet"), ("add", "."), (*PERSON, "commit", "--quiet", "-m", "x")):
        git(tmp_path, *command)
    with pytest.raises((ConfigError, UsageError), match=told):
        upgrade(Workplace(tmp_path, os.environ, lambda _: None), None, given)


@pytest.mark.parametrize(
    ("edits", "is_committed"),
    [({}, False), ({"a": "mine"}, False), ({"b": "mine"}, False), ({"own": "mine"}, True)],
)
def test_what_was_done_meanwhile_stays(tmp_path: Path, edits: Files, is_committed: bool) -> None:
    git(tmp_path, "init", "--quiet", "--initial-branch", "main")
    write(tmp_path, {"a": LAST, ".gitignore": ".shoal\n"})
    commit = (*PERSON, "commit", "--quiet", "--message", "Ours")
    for words in (("add", "--all"), commit):
        git(tmp_path, *words)
    place = Workplace(tmp_path, os.environ | VARIABLES, lambda _: None)
    with place.opened():
        for folder, text in ((place.was, LINES), (place.now, LAST_TOO)):
            write(folder, {"a": text, ".gitignore": ".shoal\n"})
        write(place.now, {"b": LINES})
        mine, theirs = trees(place, "Theirs")
        write(tmp_path, edits)
        for words in (("add", "--all"), commit) if is_committed else ():
            git(tmp_path, *words)
        if edits and not is_committed:
            with pytest.raises(PromotionError, match="in no commit"):
                _leave(place, mine, theirs, ["Theirs"], "")
        else:
            _leave(place, mine, theirs, ["Theirs"], "")
            assert git(tmp_path, "status", "--porcelain") == "UU a\nA  b\n"
            git(tmp_path, "reset", "--quiet", "--hard")
            git(tmp_path, "switch", "--quiet", "main")
    assert {name: (tmp_path / name).read_text() for name in edits} == edits


PERSON = ("-c", "user.name=A", "-c", "user.email=a@example.com")
VARIABLES = {
    f"GIT_{role}_{what}": f"a@{what}"
    for role in ("AUTHOR", "COMMITTER")
    for what in ("NAME", "EMAIL")
}


def write(folder: Path, files: Files) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def git(folder: Path, *arguments: str) -> str:
    return subprocess.check_output(["git", *arguments], cwd=folder, text=True)
