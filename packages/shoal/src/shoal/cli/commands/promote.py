"""`shoal promote` and `shoal release`: a version of the registry becomes a commit."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click

from shoal.aws import registry
from shoal.aws.registry import APPROVED, REJECTED
from shoal.aws.target import Target
from shoal.cli.answers import answers, tell
from shoal.cli.main import require_own_code
from shoal.cli.options import excluding, flag, local_option, session_command
from shoal.errors import DisagreementError, NotFoundError, PromotionError, UsageError
from shoal.settings.loading.loader import environment_names, load_workloads
from shoal.settings.loading.workload import load_workload, workload_folder
from shoal.settings.parsing.errors import one_line
from shoal.settings.sections.release import Release
from shoal.settings.sections.smoke_test import Accept
from shoal.settings.settings import Environment
from shoal.verbs import inference
from shoal.verbs.promote.promotion import Verification
from shoal.verbs.promote.promotion_path import (
    PromotionStep,
    package_arn,
    release_answers,
    smoke_result,
    workflow,
)
from shoal.verbs.promote.promotion_path import chain as links_of
from shoal.verbs.promote.release_status import Answer
from shoal.verbs.workspace import Session, Workspace

_MARKS = {True: "ok      ", False: "DIFFERS ", None: "unknown "}


@dataclass(frozen=True)
class _Answer(Answer):
    environment: str = ""
    workload: str = ""


@click.command()
@click.option(
    "--from",
    "source",
    required=True,
    metavar="ENV",
    help="The environment that has the model: its registry, or its release.",
)
@click.option(
    "--to", "destination", required=True, metavar="ENV", help="The environment that gets it."
)
@click.option(
    "--workload", metavar="NAME", help="Which one, where the environment that gets it has several."
)
@click.option(
    "--package",
    metavar="PACKAGE",
    help="An ARN, or a version's number; by default the newest version that is approved.",
)
@click.option("--push", "remote", metavar="REMOTE", help="Push the branch to REMOTE.")
@local_option
@click.pass_obj
@answers(package=str, branch=str | None, commit=str | None, message=str | None)
def promote(
    workspace: Workspace,
    source: str,
    destination: str,
    workload: str | None,
    package: str | None,
    remote: str | None,
    local: bool,
) -> None:
    """Pin a model of one environment in the file of the next.

    That is a commit on a branch of its own. Exit code 3 where nothing is approved that could be
    promoted.
    """
    step = PromotionStep.of(workspace, source, destination, workload)
    step.repository.require_clean()
    session = Session(workspace, step.trainer, workspace.reach(step.trainer, local))
    version = step.package(session, package)
    if step.is_pinned(version):
        already = f"{destination} pins {version.arn} already; no commit was made"
        tell(already, package=version.arn)
        return
    verification = Verification(session.target, session.names, version, step.repository)
    pinned = verification.release(step.source.release if step.is_later else None)
    if step.destination.serving:
        verification.require_scan(step.destination.serving.refuse_findings, pinned.image_digest)
    message, branch = message_of(pinned, source, destination), step.branch(pinned)
    commit = step.commit(pinned, message)
    if remote:
        step.repository.push(remote, branch)
    package = pinned.model_package_arn
    tell(f"promoted: {package} from {source} to {destination}", package=package, message=message)
    tell(f"branch {branch}, commit {commit}", branch=branch, commit=commit)
    push = "" if remote else f"git push origin {branch}, "
    tell(f"next: {push}merge it, and deploy {destination}")


@click.group()
def release() -> None:
    """The models that environments pin."""


@release.command()
@session_command
@click.argument("package", metavar="[PACKAGE]", required=False)
@click.option("--comment", help="Why, in your words; the registry keeps it.")
@answers(
    package=str,
    changed_by=str,
    comment=str | None,
    was_approved=bool,
    smoke_test=str | None,
    warning=str | None,
)
def approve(session: Session, package: str | None, comment: str | None) -> None:
    """Approve a version of ENV's registry, as yourself.

    PACKAGE is an ARN or a version's number; by default it is the newest. Warns where its smoke test
    did not pass.
    """
    require_own_code(session.workspace.root)
    arn = package_arn(session, package) if package else _newest(session)
    before = registry.describe(session.target, arn)
    if before.approval == REJECTED and not package:
        raise PromotionError(
            f"the newest version, {before.version}, was rejected by {before.changed_by}; nothing"
            " was approved; to approve it all the same, name it: `shoal release approve"
            f" {session.arguments} {before.version}`"
        )
    smoke_test, doubt = smoke_result(session, before)
    if doubt:
        warning = f"version {before.version} {doubt}"
        tell(f"warning: {warning}", err=True, warning=warning)
    if before.approval == APPROVED:
        unkept = "; the comment is not kept" if comment else ""
        tell(f"approved already: {arn}, by {before.changed_by}{unkept}")
        after = before
    else:
        after = registry.approve(session.target, arn, comment)
        tell(f"approved: {after.arn}, by {after.changed_by}")
    tell(package=arn, changed_by=after.changed_by, was_approved=before.approval == APPROVED)
    tell(smoke_test=smoke_test, comment=after.comment)


@release.command()
@click.argument("environments", metavar="[ENV]...", nargs=-1)
@flag("--invoke", "asks", help="Ask the endpoint, too, which model it has loaded.")
@local_option
@click.pass_obj
@answers(answers=list[_Answer])
def status(workspace: Workspace, environments: tuple[str, ...], asks: bool, local: bool) -> None:
    """Show what each environment pins, what is deployed and what serves; exit code 1 where they do
    not agree or nobody could be asked. `shoal diff` and `cdk drift` compare everything else.
    """
    disagreeing = []
    for name in environments or environment_names(workspace.root):
        for view in load_workloads(name, workspace.root):
            ask = partial(_ask, view, workspace.root) if asks else None
            pinned, found = view.release, list(release_answers(workspace, view, local, ask))
            pin = f"pins {pinned.model_package_arn}" if pinned else "pins no release"
            tell(f"{view.title}: {pin}")
            for each in found:
                told = _Answer(**asdict(each), environment=view.name, workload=view.workload)
                line = f"  {_MARKS[each.agrees]}{each.question}: {each.message}"
                tell(line, answers=[told])
            if not all(answer.agrees for answer in found):
                disagreeing.append(view.title)
    if disagreeing:
        raise DisagreementError(f"not in agreement with what they pin: {', '.join(disagreeing)}")


@release.command()
@excluding("--github", "--gitlab")
@flag("--github", help="Print .github/workflows/deploy.yml.")
@flag("--gitlab", help="Print a child pipeline of GitLab's.")
@click.pass_obj
@answers(environments=list[dict[str, str]], workflow=str | None)
def chain(workspace: Workspace, github: bool, gitlab: bool) -> None:
    """Print the environments, each after the one that it takes releases from."""
    links = links_of(workspace.root)
    tell(environments=[link.facts for link in links])
    if github or gitlab:
        text = workflow(links, "github" if github else "gitlab")
        tell(text.rstrip(), workflow=text)
        return
    for link in links:
        after = f"after {link.after}" if link.after else "first"
        tell(f"{link.environment:16} account {link.account}, {link.region}, {after}")


def _newest(session: Session) -> str:
    for arn, _ in registry.versions(session.target, session.names.model_package_group):
        return arn
    train = f"train one: `shoal run {session.arguments}`"
    raise NotFoundError(f"the registry of {session.title} has no version; {train}")


def _ask(environment: Environment, root: Path, target: Target, endpoint: str) -> Mapping[str, Any]:
    """Return what the answer to a request of the smoke test says of the endpoint's model."""
    workload = environment.workload
    test = load_workload(workload, root).smoke_test
    requests = (each for each in (test.requests if test else ()) if each.accept is Accept.JSON)
    if (request := next(requests, None)) is None:
        raise UsageError(f"the smoke test of {workload} asks for no JSON, so nothing is asked")
    return inference.model_of(target, endpoint, request, workload_folder(workload, root))


def message_of(release: Release, source: str, destination: str) -> str:
    """Return the message of the commit that pins a release, which is also the text of its pull
    request: a title, an empty line, and Markdown.
    """
    group, _, version = release.version.rpartition("/")
    version_id = release.model_data_version_id
    metrics = ", ".join(f"{name} {value:g}" for name, value in release.metrics.items()) or "none"
    rows = {
        "model package": release.model_package_arn,
        "evaluation": metrics,
        "approved by": f"{release.approved_by} at {release.approved_at}",
        "model data": release.model_data_url + (f" (version {version_id})" if version_id else ""),
        "sha256 of the model data": release.model_data_sha256,
        "image": f"{release.image_uri}@{release.image_digest}",
        "sha256 of the pipeline definition": release.definition_sha256,
        "code": release.code_commit,
    }
    read = (
        f"A deployment of {destination} brings the archive into its own bucket, if it has these"
        " bytes; `git revert` takes the release back."
    )
    table = "\n".join(f"| {what} | {_cell(value)} |" for what, value in rows.items())
    return f"""Promote {group} version {version} from {source} to {destination}

| | |
| --- | --- |
{table}

`shoal promote` looked at each of these when it made this commit. {read}"""


def _cell(value: str) -> str:
    """Return text from outside as one cell: no line, column, mention or tag of its own."""
    text = one_line(value).replace("|", "\\|").replace("<", "&lt;")
    return re.sub(r"@(?=[A-Za-z])", "@\u200b", text)
