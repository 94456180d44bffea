"""The git repository that a checkout lies in: questions about its commits, and a branch with one
commit that changes one file.

Everything goes through the git command, so hooks, identity and signing are the user's. A commit is
made in a worktree of its own: the user's branch and files stay as they are, whatever fails on the
way.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from shoal.verbs.errors import AnswerError, PromotionError
from shoal.verbs.processes import output_of

_TIMEOUT_S = 120.0
_SHOWN = 3
# A hook that calls us sets these, and git would then take the hook's repository and index for those
# of the checkout.
_OF_A_HOOK = frozenset(
    {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY"}
)


@dataclass(frozen=True)
class Repository:
    """The repository of the checkout at `root`, which may be a folder inside it."""

    root: Path
    environ: Mapping[str, str]

    def require_clean(self) -> None:
        """Raises PromotionError when there is no repository, no commit, or a file that differs from
        the last commit.
        """
        try:
            changed = [
                line[3:]
                for line in self._git("status", "--porcelain", "--untracked-files=all").splitlines()
            ]
            self.head()
        except AnswerError as error:
            raise PromotionError(
                f"{self.root} is no git repository with a commit, so nothing can be promoted in it"
                f" ({error})"
            ) from error
        if changed:
            more = f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
            message = (
                "the working tree has changes that are in no commit:"
                f" {', '.join(changed[:_SHOWN])}{more}"
            )
            raise PromotionError(f"{message}; commit them or put them away")

    def head(self) -> str:
        """Id of the commit that is checked out."""
        return self._git("rev-parse", "--verify", "HEAD^{commit}").strip()

    def commit_of(self, branch: str) -> str | None:
        """Id of the commit that a local branch points at, or None when there is no such branch."""
        return (
            self._git("for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}").strip()
            or None
        )

    def has_merged(self, branch: str) -> bool:
        """Whether the commit checked out has all of a local branch's commits."""
        return bool(self._git("for-each-ref", "--merged=HEAD", f"refs/heads/{branch}").strip())

    def commits_of(self, folder: str, limit: int) -> list[str]:
        """Ids of the newest commits up to the one checked out that changed something in `folder`,
        newest first.
        """
        return self._git("log", f"--max-count={limit}", "--format=%H", "--", folder).split()

    def files(self, commit: str, folder: str) -> dict[str, str]:
        """Path below `folder` -> git's hash of its content, as of `commit`."""
        inside = f"{self._prefix()}{folder.rstrip('/')}/"
        listing = self._git("ls-tree", "-r", "-z", "--full-tree", commit, "--", inside)
        rows = (row.partition("\t") for row in listing.split("\0") if row)
        return {
            path.removeprefix(inside): about.split()[2]
            for about, _, path in rows
            if about.split()[1] == "blob"
        }

    def text(self, commit: str, file: str) -> str:
        """Content of a file in `commit`."""
        return self._git("show", f"{commit}:{self._prefix()}{file}")

    def commit(self, branch: str, file: str, content: str, message: str) -> str:
        """Points `branch`, new or moved, at one commit on the one checked out, in which `file` has
        `content`; returns the commit's id.
        """
        before = self.commit_of(branch)
        with tempfile.TemporaryDirectory(prefix="shoal-promote-") as folder:
            tree = Path(folder, "tree")
            try:
                self._git("worktree", "add", "--quiet", "-B", branch, str(tree), "HEAD")
                path = tree / self._prefix() / file
                path.write_bytes(content.encode())
                self._git("add", "--", str(path), cwd=tree)
                self._git("commit", "--quiet", "--message", message, cwd=tree)
                commit = self._git("rev-parse", "HEAD", cwd=tree).strip()
            except BaseException:
                self._git("worktree", "remove", "--force", str(tree), may_fail=True)
                back = ("--force", branch, before) if before else ("-D", branch)
                self._git("branch", "--quiet", *back, may_fail=True)
                raise
            self._git("worktree", "remove", "--force", str(tree))
        return commit

    def push(self, remote: str, branch: str) -> None:
        """Pushes the branch to the branch of the same name."""
        self._git("push", "--quiet", remote, f"refs/heads/{branch}:refs/heads/{branch}")

    def _prefix(self) -> str:
        """Where the checkout lies in the repository: empty, or a path that ends in a slash."""
        return self._git("rev-parse", "--show-prefix").strip()

    def _git(self, *arguments: str, cwd: Path | None = None, may_fail: bool = False) -> str:
        kept = {name: value for name, value in self.environ.items() if name not in _OF_A_HOOK}
        try:
            return output_of(
                ("git", *arguments),
                cwd or self.root,
                kept | {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"},
                _TIMEOUT_S,
            )
        except AnswerError:
            if may_fail:
                return ""
            raise


def hash_as(known: str, content: bytes) -> str:
    """Git's hash of a file's content, by the algorithm that made `known`: SHA-1, or SHA-256 in
    repositories of that format.
    """
    header = b"blob %d\0" % len(content)
    if len(known) == hashlib.sha256().digest_size * 2:
        return hashlib.sha256(header + content).hexdigest()
    return hashlib.sha1(header + content, usedforsecurity=False).hexdigest()
