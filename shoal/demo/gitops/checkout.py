"""A user's repository for a demonstration: the project's own folders in a git repository of their
own, with a bare remote beside it.

Three environments in three accounts, small enough for a laptop and free to be torn down; everything
else is as in the project.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from config.settings import SharedVersions
from config.yaml_lines import parse
from shoal.verbs.processes import output_of

ENVIRONMENTS = ("dev", "staging", "prod")
_COPIED = (
    "app.py",
    "cdk.json",
    "config",
    "images",
    "package.json",
    "pipelines",
    "stacks",
    "training_code",
)
_SHARED = (".venv", "node_modules")
_TIMEOUT_S = 60.0
_GIT = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.com",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.com",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
"""Nothing of the user's git: no hooks, no signatures, no helpers."""

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
"""What the environments of the demonstration have instead of what the project's files say."""


@dataclass(frozen=True)
class GitCheckout:
    """`root` is the checkout, `remote` the bare repository that is its origin."""

    root: Path
    remote: Path
    environ: Mapping[str, str]

    @classmethod
    def new(
        cls,
        folder: Path,
        project: Path,
        environ: Mapping[str, str],
        server_state: Path,
        shared: SharedVersions = SharedVersions.PINNED,
    ) -> GitCheckout:
        """In the empty `folder`; `emulator` is the state directory that `--local` will find,
        `shared` what dev lets the others read.
        """
        made = cls(folder / "checkout", folder / "origin.git", environ)
        made.root.mkdir(parents=True)
        for name in _COPIED:
            _copy(project / name, made.root / name)
        (made.root / "environments").mkdir()
        for name in ENVIRONMENTS:
            made._write_environment(
                project, name, {"shared_versions": shared.value} if name == "dev" else {}
            )
        (made.root / ".shoal").mkdir()
        (made.root / ".shoal" / "local").symlink_to(server_state)
        cache = project / ".shoal" / "jsii"
        cache.mkdir(
            parents=True, exist_ok=True
        )  # the first synth of a checkout makes it, and this may be the first
        (made.root / ".shoal" / "jsii").symlink_to(cache)
        for name in _SHARED:
            (made.root / name).symlink_to(project / name)
        (made.root / ".gitignore").write_text(
            "".join(f"/{name}\n" for name in (".shoal", "cdk.out", *_SHARED)) + "__pycache__/\n"
        )
        made._begin()
        return made

    def git(self, *arguments: str) -> str:
        """What git answers, stripped. Raises AnswerError with its complaint."""
        return output_of(("git", *arguments), self.root, self.environment, _TIMEOUT_S).strip()

    @property
    def environment(self) -> dict[str, str]:
        """For git, and for `shoal`, which calls it."""
        kept = {name: value for name, value in self.environ.items() if not name.startswith("GIT_")}
        return kept | _GIT

    def head(self) -> str:
        return self.git("rev-parse", "HEAD")

    def merge(self, branch: str) -> str:
        """What a pull request's merge does: a merge commit on main, in the remote too.

        Returns its id.
        """
        self.git("fetch", "--quiet", "origin")
        self.git("merge", "--quiet", "--no-ff", "--message", f"Merge {branch}", f"origin/{branch}")
        self.git("push", "--quiet", "origin", "main")
        return self.head()

    def change(self, file: str, edit: Callable[[bytes], bytes], message: str) -> str:
        """A commit that changes one file, in the remote too. Returns its id."""
        path = self.root / file
        path.write_bytes(edit(path.read_bytes()))
        self.git("commit", "--quiet", "--all", "--message", message)
        self.git("push", "--quiet", "origin", "main")
        return self.head()

    def revert(self, merge: str) -> str:
        """Takes a merge back, in the remote too."""
        self.git("revert", "--no-edit", "--mainline", "1", merge)
        self.git("push", "--quiet", "origin", "main")
        return self.head()

    def _write_environment(self, project: Path, name: str, more: dict[str, Any]) -> None:
        written = parse(
            (project / "environments" / f"{name}.yaml").read_text(encoding="utf-8")
        ).data
        written.pop("release", None)
        text = "".join(
            f"{key}: {json.dumps(value)}\n"
            for key, value in (written | CHANGES[name] | more).items()
        )  # JSON is YAML
        (self.root / "environments" / f"{name}.yaml").write_text(text, encoding="utf-8")

    def _begin(self) -> None:
        output_of(
            ("git", "init", "--quiet", "--bare", "--initial-branch=main", str(self.remote)),
            self.root,
            self.environment,
            _TIMEOUT_S,
        )
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "Begin")
        self.git("remote", "add", "origin", str(self.remote))
        self.git("push", "--quiet", "origin", "main")


def _copy(source: Path, destination: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, destination, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
    else:
        shutil.copy(source, destination)
