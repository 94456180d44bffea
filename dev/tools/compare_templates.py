"""What would a deployment of one cloud assembly instead of another change? Prints Markdown, stack
by stack.

.venv/bin/python dev/tools/compare_templates.py BASE/cdk.out HEAD/cdk.out

The comparison is `cdk diff` against a template: it asks no account and needs no credentials.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

CDK = Path(__file__).resolve().parents[2] / ".venv" / "bin" / "cdk"
"""`make install` writes it; it needs no Node.js on the PATH."""
MAX_CHARACTERS = 60_000
"""A comment on GitHub may have 65536."""


def main(arguments: list[str]) -> int:
    """Print the comparison; return 2 for wrong usage."""
    if len(arguments) != 2 or not all(
        Path(folder, "manifest.json").is_file() for folder in arguments
    ):
        print(
            "usage: compare_templates.py BASE HEAD, two folders that `cdk synth` wrote",
            file=sys.stderr,
        )
        return 2
    print(compare(Path(arguments[0]).resolve(), Path(arguments[1]).resolve()))
    return 0


def compare(base: Path, head: Path, max_characters: int = MAX_CHARACTERS) -> str:
    """Return the whole comparison, cut after `max_characters`: GitHub refuses a longer comment."""
    before, after = dict(templates(base)), dict(templates(head))
    parts = [
        part
        for name in sorted(before.keys() | after.keys())
        if (part := _stack_changes(name, before, after, head))
    ]
    text = "\n\n".join(
        ["### What a deployment would change", *(parts or ["Nothing: every template is the same."])]
    )
    if len(text) <= max_characters:
        return text
    cut = text[:max_characters].rpartition("\n")[0]
    return (
        cut
        + ("\n```" if cut.count("```") % 2 else "")
        + "\n\nCut here: compare the folders that `make synth` writes."
    )


def templates(assembly: Path) -> Iterator[tuple[str, Path]]:
    """Yield the name and the template of every stack of an assembly and its stages.

    The name is the one that `cdk` knows it by.
    """
    for artifact in json.loads((assembly / "manifest.json").read_text())["artifacts"].values():
        if artifact["type"] == "cdk:cloud-assembly":
            yield from templates(assembly / artifact["properties"]["directoryName"])
        elif artifact["type"] == "aws:cloudformation:stack":
            yield artifact["displayName"], assembly / artifact["properties"]["templateFile"]


def _stack_changes(name: str, before: dict[str, Path], after: dict[str, Path], head: Path) -> str:
    if name not in after:
        return f"**{name}** is gone from the app; deploying does not delete it."
    if name not in before:
        return (
            f"**{name}** is new, with {len(json.loads(after[name].read_text())['Resources'])}"
            " resources."
        )
    if before[name].read_bytes() == after[name].read_bytes():
        return ""
    return f"**{name}**\n\n```\n{_diff(name, before[name], head)}\n```"


def _diff(name: str, template: Path, head: Path) -> str:
    command: list[str | Path] = [CDK, "diff", name.split(" ")[0], "--app", head]
    variables = {"PATH": os.environ.get("PATH", os.defpath), "AWS_EC2_METADATA_DISABLED": "true"}
    home = {name: os.environ[name] for name in ("HOME", "TMPDIR") if name in os.environ}
    result = subprocess.run(
        [*command, "--template", template, "--no-color", "--no-notices"],
        env=variables | home,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if result.returncode:
        raise SystemExit(f"cdk diff of {name} failed: {result.stderr.strip()}")
    return (result.stdout or result.stderr).strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
