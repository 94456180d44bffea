"""The part of an upgrade that the new version does: render, migrate, merge, compare, commit.

The old version starts it as `python -m shoal.verbs.upgrade.finish ROOT`. A migration gives keys of
environments' and workloads' files the names that a later version has: it edits the text, so
comments and order stay. It stays in the table: a team may upgrade over many versions at once.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

import yaml

from shoal.aws.events import Event, Note
from shoal.errors import AnswerError, CommandError, ShoalError
from shoal.repository import Repository
from shoal.verbs.init import SOURCE, lock, read_answers, render
from shoal.verbs.upgrade.begin import LEFT, LINKS, Workplace, order
from shoal.verbs.upgrade.comparison import NOTHING, compare

_MAX_CHARACTERS = 10_000
"""Of a commit's message."""
_SNAPSHOTS = ("pytest", "-q", "tests/test_synth.py")


def go_on(place: Workplace) -> bool:
    """Make the commit on the new branch; return whether there is one.

    If not, the branch is checked out with conflicts, or with what does not synthesise.
    """
    answers, new = read_answers(place.team), version("shoal")
    wanted = (place.team / SOURCE).read_text()
    title = f"Upgrade Shoal from {answers.shoal} to {new}"
    wheels = "".join(LINKS.findall(wanted))
    render(answers.model_copy(update={"wheels": wheels}), place.now)
    migrate(place.was, answers.shoal)
    notes = [f"{path}: keys renamed" for path in migrate(place.team, answers.shoal)]
    ours, theirs = trees(place, title)
    conflicts, decided = merge(place.work, ours, theirs)
    message = [title, "", *notes, *decided]
    why = "".join(f"\n  conflict: {each}" for each in conflicts)
    try:
        if not conflicts and (place.team / SOURCE).read_text() != wanted:
            lock(place.team)
        if not conflicts:
            place.synth(place.python, "after")
    except (AnswerError, CommandError) as error:
        why = f"\n{error}"
    if why:
        _leave(place, ours, theirs, message, why)
        return False
    text = compare(place.folder / "before", place.folder / "after", place.root, _MAX_CHARACTERS)
    if NOTHING not in text and (place.team / "tests" / "snapshots").is_dir():
        try:
            place.run((place.python, "-m", *_SNAPSHOTS), {"SNAPSHOTS": "write"})
        except CommandError:
            message.append("tests/snapshots are as they were: `make test` says why")
    place.work.git("add", "--all", ":/")
    place.work.git("commit", "--quiet", "--message", "\n".join([*message, "", text]))
    place.checkout.git("branch", f"shoal-{new}", place.work.head())
    todo = f"next: `git show shoal-{new}`, and `git switch shoal-{new} && make install test`"
    place.report(Note("\n".join([*message[2:], text, todo])))
    return True


def trees(place: Workplace, title: str) -> tuple[str, str]:
    """Return git's tree of the worktree, and a commit that changes the old rendering to the new."""
    work, commits = place.work, list[str]()
    own = work.git("rev-parse", "--absolute-git-dir").strip()
    for folder in (place.folder / "old", place.folder / "new"):
        at = ("--git-dir", own, "--work-tree", str(folder))
        work.git(*at, "add", "--all", "--force", ".", cwd=folder)
        parents = [word for commit in commits for word in ("-p", commit)]
        commit = ("commit-tree", work.git("write-tree").strip(), *parents, "-m", title)
        commits.append(work.git(*commit).strip())
    work.git("read-tree", "HEAD")
    work.git("add", "--all", ":/")
    return work.git("write-tree").strip(), commits[1]


def merge(repository: Repository, ours: str, theirs: str) -> tuple[list[str], list[str]]:
    """Pick `theirs` onto `ours`, without a commit; return the conflicts, and what was decided.

    What the team deleted stays so, and a workload that it edited is its own.
    """
    repository.git("read-tree", "--reset", "-u", ours)
    conflicts, decided, failure = [], [], None
    try:
        plain = ("-c", "merge.directoryRenames=false")
        repository.git(*plain, "cherry-pick", "--no-commit", theirs)
    except AnswerError as error:
        failure = error
    for row in repository.git("status", "--porcelain", "-z", "--untracked-files=no").split("\0"):
        state, path = row[:2], row[3:]
        if state == "DU":
            repository.git("rm", "--quiet", "--", f":/{path}")
            decided.append(f"{path}: you deleted it, so it stays deleted; the template's changed")
        elif state == "UU" and "training_code/" in path:
            repository.git("checkout", "--ours", "--", f":/{path}")
            repository.git("add", "--", f":/{path}")
            decided.append(f"{path}: stays as you edited it; the template's changed")
        elif "U" in state or state in {"AA", "DD"}:
            conflicts.append(path)
    if failure and not (conflicts or decided):
        raise failure
    return conflicts, decided


def _leave(place: Workplace, ours: str, theirs: str, message: list[str], why: str) -> None:
    """Check the branch out with what is merged, and say what people have to do."""
    checkout, branch = place.checkout, f"shoal-{version('shoal')}"
    checkout.require_clean()  # somebody may have gone on working meanwhile
    checkout.git("switch", "--quiet", "--create", branch, place.work.head())
    merge(checkout, ours, theirs)
    prepared = place.root / Path(checkout.git("rev-parse", "--git-path", "MERGE_MSG").strip())
    prepared.write_text("\n".join(message))
    todo = (
        f"You are on its branch {branch}. Edit, `make lock install test`, `git add`, `git commit`."
    )
    undo = f"To take it back: `git reset --hard && git switch - && git branch -D {branch}`"
    place.report(Note("\n".join([*message[2:], f"not committed:{why}", todo, undo])))


def _print(event: Event) -> None:
    """Write down what the version before shows with the time of day."""
    if isinstance(event, Note):
        print(event.text, flush=True)


ENVIRONMENTS, WORKLOADS = "environments/**/*.yaml", "training_code/*/workload.yaml"
Migration = tuple[str, str, Callable[[str], str]]
"""The first version that has it, which files, and what makes a file's new text of its old one."""


def migrate(root: Path, since: str, migrations: Sequence[Migration] | None = None) -> list[str]:
    """Apply what is newer than the version `since` at `root`; return the paths that changed."""
    changed, table = set(), MIGRATIONS if migrations is None else migrations
    for _, files, change in (each for each in table if order(each[0]) > order(since)):
        for file in root.glob(files):
            text = file.read_bytes().decode()  # line endings stay
            if (new := change(text)) != text:
                file.write_bytes(new.encode())
                changed.add(file.relative_to(root).as_posix())
    return sorted(changed)


def rename(*path: str, to: str) -> Callable[[str], str]:
    """Return a change that gives the key at `path` the name `to`; `*` is any key or item."""

    def change(text: str) -> str:
        for key in reversed([*_keys(yaml.compose(text, yaml.SafeLoader), path)]):
            text = text[: key.start_mark.index] + to + text[key.end_mark.index :]
        return text

    return change


def _keys(node: yaml.Node | None, path: Sequence[str]) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.SequenceNode) and path[0] == "*":
        for item in node.value:
            yield from _keys(item, path[1:])
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        if path[0] in {"*", key.value}:
            yield from [key] if len(path) == 1 else _keys(value, path[1:])


MIGRATIONS: tuple[Migration, ...] = ()
"""In the order in which they are applied."""


if __name__ == "__main__":
    try:
        is_done = go_on(Workplace(Path(sys.argv[1]), os.environ, _print))
        sys.exit(0 if is_done else LEFT)
    except ShoalError as error:
        sys.exit(f"shoal: {error}")
