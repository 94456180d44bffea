"""The comparison that a pull request gets: two small assemblies, and the real `cdk diff`."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from shoal.constructs import use_installed_node

use_installed_node()

import aws_cdk as cdk  # noqa: E402 - starts Node.js
from aws_cdk import aws_sqs as sqs  # noqa: E402

from shoal.verbs.upgrade import comparison  # noqa: E402
from tests.repository import CHECKOUT  # noqa: E402

compare = partial(comparison.compare, root=CHECKOUT)


def assembly(
    folder: Path,
    name: str,
    seconds: int,
    stacks: tuple[str, ...] = ("queue",),
    queue: str = "Queue",
) -> Path:
    app = cdk.App(outdir=str(folder / name), analytics_reporting=False)
    stage = cdk.Stage(app, "dev")
    first = cdk.Stack(stage, "first")
    for each in stacks:
        stack = cdk.Stack(stage, each)
        stack.add_stack_dependency(first)
        sqs.CfnQueue(stack, queue, delay_seconds=seconds)
    return Path(app.synth().directory)


def test_a_change_is_shown_with_both_values(tmp_path: Path) -> None:
    text = compare(assembly(tmp_path, "base", 5), assembly(tmp_path, "head", 7))
    assert "**dev/queue**" in text
    assert "[-] 5" in text.replace("[-] [", "[-] ")
    assert "[+] 7" in text


def test_the_same_is_said_to_be_the_same(tmp_path: Path) -> None:
    assert "every template is the same" in compare(
        assembly(tmp_path, "base", 5), assembly(tmp_path, "head", 5)
    )


def test_a_logical_id_that_is_gone_is_said_first(tmp_path: Path) -> None:
    base, head = assembly(tmp_path, "base", 5), assembly(tmp_path, "head", 5, queue="Line")
    _, loud, ids, *_ = compare(base, head).split("\n\n")
    assert "LOGICAL IDS CHANGED" in loud
    assert ids == "- dev/queue: Queue (AWS::SQS::Queue)"


def test_stacks_come_and_go(tmp_path: Path) -> None:
    text = compare(assembly(tmp_path, "base", 5, ("old",)), assembly(tmp_path, "head", 5, ("new",)))
    assert "**dev/new** is new, with 1 resources." in text
    assert "**dev/old** is gone from the app" in text


def test_what_github_would_not_take_is_cut_and_says_so(tmp_path: Path) -> None:
    many = tuple(f"stack-{number}" for number in range(9))
    text = compare(
        assembly(tmp_path, "base", 5, ()), assembly(tmp_path, "head", 5, many), max_characters=200
    )
    assert text.count("is new") < len(many)
    assert text.endswith("Cut here: compare the folders that `shoal synth` writes.")
