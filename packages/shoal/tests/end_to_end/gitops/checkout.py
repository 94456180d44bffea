"""A user's repository for a story of releases: the project's folders in a new git repository with a
bare remote.

Its three environments have three accounts, are small enough for a laptop, and may be torn down;
everything else is as in the project.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shoal.processes import output_of
from shoal.settings.parsing.yaml_file import parse
from tests.repository import begin_git, link_checkout

ENVIRONMENTS = ("dev", "staging", "prod")
_TIMEOUT_S = 60.0
GIT = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.com",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.com",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
"""Settings that keep the user's git out: no hooks, no signatures, no helpers."""

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
class GitCheckout:
    """A checkout at `root`, with the bare repository `remote` as its origin."""

    root: Path
    remote: Path
    environ: Mapping[str, str]

    @classmethod
    def new(cls, folder: Path, environ: Mapping[str, str], server_state: Path) -> GitCheckout:
        """Make the checkout in the empty `folder`.

        `server_state` is the state directory that `--local` will find.
        """
        checkout = cls(folder / "checkout", folder / "origin.git", environ)
        checkout.root.mkdir(parents=True)
        link_checkout(checkout.root)
        for name in ENVIRONMENTS:
            checkout._write_environment(name)
        (checkout.root / ".shoal" / "local").symlink_to(server_state)
        (checkout.root / ".gitignore").unlink()
        (checkout.root / ".gitignore").write_text("/.shoal\n/cdk.out\n__pycache__/\n")
        begin_git(checkout.root)
        remote = str(checkout.remote)
        checkout.git("init", "--quiet", "--bare", "--initial-branch=main", remote)
        checkout.git("remote", "add", "origin", remote)
        checkout.git("push", "--quiet", "origin", "main")
        return checkout

    def git(self, *arguments: str) -> str:
        """Return git's answer, stripped; raise AnswerError with its complaint."""
        return output_of(("git", *arguments), self.root, self.environment, _TIMEOUT_S).strip()

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment variables for git, and for `shoal`, which calls it."""
        rest = {name: value for name, value in self.environ.items() if not name.startswith("GIT_")}
        return rest | GIT

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

    def _write_environment(self, name: str) -> None:
        file = self.root / "environments" / f"{name}.yaml"
        settings = parse(file.read_text(encoding="utf-8")).data | CHANGES[name]
        lines = (f"{key}: {json.dumps(value)}\n" for key, value in settings.items())  # JSON is YAML
        file.write_text("".join(lines), encoding="utf-8")
