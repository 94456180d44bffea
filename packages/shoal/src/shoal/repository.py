"""The git repository of a checkout: read its commits, and make a branch with one commit.

Everything goes through the git command, so hooks, identity and signing are the user's. A commit is
made in a worktree of its own, so a failure leaves the user's branch and files alone.
"""

import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from shoal.errors import AnswerError, PromotionError
from shoal.processes import output_of

_TIMEOUT_S = 120.0
_MAX_SHOWN = 3
_LINK = "120000"
"""The mode of a symbolic link (git, "git-fast-import", Filemodify)."""
# A hook that calls us sets these, and git would then take the hook's repository and index for those
# of the checkout.
_HOOK_VARIABLES = frozenset(
    {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY"}
)


@dataclass(frozen=True)
class Repository:
    """The repository of the checkout at `root`, which may be a folder inside it."""

    root: Path
    environ: Mapping[str, str] = field(hash=False)

    def require_clean(self) -> None:
        """Raise PromotionError without a repository or a commit, or with uncommitted changes."""
        try:
            status = self.git("status", "--porcelain", "--untracked-files=all")
            self.head()
        except AnswerError as error:
            raise PromotionError(
                f"{self.root} is no git repository with a commit, so nothing can be committed in it"
                f" ({error})"
            ) from error
        if changed_files := [line[3:] for line in status.splitlines()]:
            rest = len(changed_files) - _MAX_SHOWN
            more = f" and {rest} more" if rest > 0 else ""
            raise PromotionError(
                "the working tree has changes that are in no commit:"
                f" {', '.join(changed_files[:_MAX_SHOWN])}{more};"
                " commit them or put them away"
            )

    def head(self) -> str:
        """Return the id of the checked-out commit."""
        return self.git("rev-parse", "--verify", "HEAD^{commit}").strip()

    def description(self) -> str:
        """Return the newest tag and the commit; `-dirty` follows where files differ from it.

        Empty without a repository or a commit.
        """
        return self.git("describe", "--always", "--tags", "--dirty", may_fail=True).strip()

    def commit_of(self, branch: str) -> str | None:
        """Return the id of a local branch's newest commit, or None without such a branch."""
        ids = self.git("for-each-ref", "--format=%(objectname)", f"refs/heads/{branch}")
        return ids.strip() or None

    def has_merged(self, branch: str) -> bool:
        """Return whether the checked-out commit has all of a local branch's commits."""
        return bool(self.git("for-each-ref", "--merged=HEAD", f"refs/heads/{branch}").strip())

    def commits_of(self, folders: Sequence[str], limit: int) -> list[str]:
        """Return the ids of the newest commits that changed one of `folders`, newest first."""
        return self.git("log", f"--max-count={limit}", "--format=%H", "--", *folders).split()

    def files(self, commit: str, folder: str) -> dict[str, str]:
        """Return git's hash of each file below `folder`, by path, as of `commit`."""
        rows = self._rows(commit, folder)
        return {path: sha for path, (mode, kind, sha) in rows if kind == "blob" and mode != _LINK}

    def links(self, commit: str, folder: str) -> list[str]:
        """Return the paths of the links below `folder`, as of `commit`."""
        return [path for path, (mode, _, _) in self._rows(commit, folder) if mode == _LINK]

    def _rows(self, commit: str, folder: str) -> list[tuple[str, list[str]]]:
        """Return path, and mode, kind and hash, of all that is below `folder`."""
        prefix = f"{self.prefix()}{folder.rstrip('/')}/"
        listing = self.git("ls-tree", "-r", "-z", "--full-tree", commit, "--", prefix)
        rows = (row.partition("\t") for row in listing.split("\0") if row)
        return [(path.removeprefix(prefix), details.split()) for details, _, path in rows]

    def text(self, commit: str, file: str) -> str | None:
        """Return the content of a file in `commit`; None where it is not there."""
        path = f"{self.prefix()}{file}"
        if not self.git("ls-tree", "--full-tree", commit, "--", path):
            return None
        return self.git("show", f"{commit}:{path}")

    def commit(self, branch: str, file: str, content: str, message: str) -> str:
        """Point `branch`, new or moved, at one commit on HEAD in which `file` has `content`.

        Returns the commit's id.
        """
        previous = self.commit_of(branch)
        with tempfile.TemporaryDirectory(prefix="shoal-promote-") as folder:
            tree = Path(folder, "tree")
            try:
                self.git("worktree", "add", "--quiet", "-B", branch, str(tree), "HEAD")
                path = tree / self.prefix() / file
                path.write_bytes(content.encode())
                self.git("add", "--", str(path), cwd=tree)
                self.git("commit", "--quiet", "--message", message, cwd=tree)
                commit = self.git("rev-parse", "HEAD", cwd=tree).strip()
            except BaseException:
                self.git("worktree", "remove", "--force", str(tree), may_fail=True)
                restore = ("--force", branch, previous) if previous else ("-D", branch)
                self.git("branch", "--quiet", *restore, may_fail=True)
                raise
            self.git("worktree", "remove", "--force", str(tree))
        return commit

    def push(self, remote: str, branch: str) -> None:
        """Push the branch to the branch of the same name, which it may have replaced."""
        reference = f"refs/heads/{branch}:refs/heads/{branch}"
        self.git("push", "--quiet", "--force-with-lease", "--", remote, reference)

    def prefix(self) -> str:
        """Return the checkout's path in the repository: empty, or with a slash at its end."""
        return self.git("rev-parse", "--show-prefix").strip()

    def git(self, *arguments: str, cwd: Path | None = None, may_fail: bool = False) -> str:
        """Return what git prints; raise AnswerError if it fails, or return nothing if it may."""
        environ = {
            name: value for name, value in self.environ.items() if name not in _HOOK_VARIABLES
        }
        try:
            return output_of(
                ("git", *arguments),
                cwd or self.root,
                environ | {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"},
                _TIMEOUT_S,
            )
        except AnswerError:
            if may_fail:
                return ""
            raise


def hash_as(like: str, content: bytes) -> str:
    """Return git's hash of a content, with the algorithm of the hash `like`: SHA-1 or SHA-256."""
    algorithm = "sha256" if len(like) == hashlib.sha256().digest_size * 2 else "sha1"
    header = b"blob %d\0" % len(content)
    return hashlib.new(algorithm, header + content, usedforsecurity=False).hexdigest()
