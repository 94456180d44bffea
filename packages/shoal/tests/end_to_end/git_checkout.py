"""A user's repository for a story of releases: the project's folders in a new git repository with a
bare remote.

Its three environments have three accounts, are small enough for a laptop, and may be torn down;
everything else is as in the project.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from shoal.settings.parsing.yaml_file import parse
from tests.end_to_end.conftest import Checkout
from tests.repository import begin_git, git

ENVIRONMENTS = ("dev", "staging", "prod")

_SERVING: dict[str, Any] = {
    "instance_count": 1,
    "traffic": {"type": "canary", "percent": 50, "wait_s": 300},
    "bake_s": 300,
    "alarms": {
        "p99_latency_ms": 5000,
        "error_rate_percent": 1,
        "model_error_rate_percent": 5,
        "minutes": 1,
    },
}
CHANGES: Mapping[str, dict[str, Any]] = {
    "dev": {"protect": False},
    "staging": {
        "protect": False,
        "serving": {**_SERVING, "traffic": {"type": "all_at_once"}, "bake_s": 120},
    },
    "prod": {"protect": False, "serving": {**_SERVING, "instance_count": 2}},
}
"""What the story's environments have instead of the project's settings."""


@dataclass(frozen=True)
class GitCheckout(Checkout):
    """A checkout that is a git repository, with a bare one beside it as its origin."""

    @classmethod
    def begun(cls, folder: Path, server_state: Path) -> Self:
        """Make the checkout in the empty `folder`.

        `server_state` is the state directory that `--local` will find.
        """
        (folder / "checkout").mkdir(parents=True)
        checkout = cls.new(folder / "checkout")
        root, remote = checkout.root, str(folder / "origin.git")
        for name in ENVIRONMENTS:
            file = root / "environments" / f"{name}.yaml"
            settings = parse(file.read_text(encoding="utf-8")).data | CHANGES[name]
            lines = (f"{key}: {json.dumps(value)}\n" for key, value in settings.items())
            file.write_text("".join(lines), encoding="utf-8")  # JSON is YAML
        (root / ".shoal" / "local").symlink_to(server_state)
        (root / ".gitignore").unlink()
        ignored = ("/.shoal", "/cdk.out", "/home", "/tmp", "__pycache__/")
        (root / ".gitignore").write_text("\n".join(ignored) + "\n")
        begin_git(root)
        checkout.git("init", "--quiet", "--bare", "--initial-branch=main", remote)
        checkout.git("remote", "add", "origin", remote)
        checkout.git("push", "--quiet", "origin", "main")
        return checkout

    def git(self, *arguments: str) -> str:
        return git(self.root, *arguments)

    def head(self) -> str:
        return self.git("rev-parse", "HEAD")

    def merge(self, branch: str) -> str:
        """Merge a branch into main as a pull request does, in the remote too.

        Returns the merge commit's id.
        """
        self.git("fetch", "--quiet", "origin")
        self.git("merge", "--quiet", "--no-ff", "--message", f"Merge {branch}", f"origin/{branch}")
        self.git("push", "--quiet", "origin", "main")
        return self.head()

    def change(self, file: str, edit: Callable[[bytes], bytes], message: str) -> str:
        """Commit a change of one file, in the remote too; return the commit's id."""
        path = self.root / file
        path.write_bytes(edit(path.read_bytes()))
        self.git("commit", "--quiet", "--all", "--message", message)
        self.git("push", "--quiet", "origin", "main")
        return self.head()

    def revert(self, merge: str) -> str:
        """Revert a merge, in the remote too; return the commit's id."""
        self.git("revert", "--no-edit", "--mainline", "1", merge)
        self.git("push", "--quiet", "origin", "main")
        return self.head()
