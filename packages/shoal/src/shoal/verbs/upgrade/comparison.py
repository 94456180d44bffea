"""What would a deployment of one cloud assembly instead of another change? In Markdown, by stack.

`python -m shoal.verbs.upgrade.comparison BASE/cdk.out HEAD/cdk.out` prints it. The comparison is
`cdk diff` against a template: it asks no account and needs no credentials.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from shoal.aws.cdk import FLAGS, cli
from shoal.aws.target import offline_environment
from shoal.node_packages import node
from shoal.processes import output_of

NOTHING = "Nothing: every template is the same."
MAX_CHARACTERS = 60_000
"""A comment on GitHub may have 65536."""


def compare(base: Path, head: Path, root: Path, max_characters: int = MAX_CHARACTERS) -> str:
    """Return the whole comparison by the CDK CLI of `root`, cut after `max_characters`.

    Resources whose logical id is gone come first, since CloudFormation deletes them.
    """
    before, after = dict(templates(base)), dict(templates(head))
    names = sorted(before.keys() | after.keys())
    parts = [part for name in names if (part := _stack_changes(name, before, after, head, root))]
    gone = [f"- {each}" for name in names for each in _gone(name, before, after)]
    loud = "**LOGICAL IDS CHANGED: CloudFormation deletes these, with what is in them**"
    warning = ["\n".join([loud, "", *gone])] if gone else []
    text = "\n\n".join(["### What a deployment would change", *warning, *(parts or [NOTHING])])
    if len(text) <= max_characters:
        return text
    cut = text[:max_characters].rpartition("\n")[0]
    return (
        cut
        + ("\n```" if cut.count("```") % 2 else "")
        + "\n\nCut here: compare the folders that `shoal plan --templates` writes."
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


def _gone(name: str, before: dict[str, Path], after: dict[str, Path]) -> Iterator[str]:
    """Yield the resources of a stack that is still there that are not; deploying deletes them."""
    if name in before and name in after:
        was, now = _resources(before[name]), _resources(after[name])
        yield from (f"{name}: {each} ({was[each]['Type']})" for each in was if each not in now)


def _resources(template: Path) -> dict[str, Any]:
    return dict(json.loads(template.read_text()).get("Resources", {}))


def _stack_changes(
    name: str, before: dict[str, Path], after: dict[str, Path], head: Path, root: Path
) -> str:
    if name not in after:
        return f"**{name}** is gone from the app; deploying does not delete it."
    if name not in before:
        return f"**{name}** is new, with {len(_resources(after[name]))} resources."
    if before[name].read_bytes() == after[name].read_bytes():
        return ""
    command = (str(node()), str(cli(root)), "diff", name.split(" ")[0], "--app", str(head))
    options = ("--exclusively", "--template", str(before[name]), *FLAGS)
    said = output_of((*command, *options), head, offline_environment(os.environ), 300.0)
    return f"**{name}**\n\n```\n{said.strip()}\n```"


if __name__ == "__main__":
    before, after = (Path(each).resolve() for each in sys.argv[1:])
    print(compare(before, after, after.parent))
