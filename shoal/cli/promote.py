"""`shoal approve`, `shoal promote`, `shoal release`: a version of the registry becomes a commit
that an environment is deployed from.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from config.loader import environment_file, environment_names, load_environment
from config.names import Names
from config.release import Release
from config.release_text import release_in, with_release
from config.settings import Environment, SharedVersions
from shoal.cli.options import environment_argument, local_option
from shoal.cli.release_message import message_of
from shoal.verbs import registry
from shoal.verbs.errors import (
    DisagreementError,
    NotFoundError,
    NothingToPromoteError,
    PromotionError,
    WrongAccountError,
)
from shoal.verbs.promotion import Verification
from shoal.verbs.registry import APPROVED, REJECTED, Package
from shoal.verbs.release_copy import ReleaseCopy
from shoal.verbs.release_status import ReleaseTargets, compare
from shoal.verbs.repository import Repository
from shoal.verbs.target import Target
from shoal.verbs.workspace import Session, Workspace

_MARKS = {True: "ok      ", False: "DIFFERS ", None: "unknown "}


@click.command()
@environment_argument
@click.argument("package", metavar="[PACKAGE]", required=False)
@click.option("--comment", help="Why, in your words; the registry keeps it.")
@local_option
@click.pass_obj
def approve(
    workspace: Workspace, environment: str, package: str | None, comment: str | None, local: bool
) -> None:
    """Approve a version of ENV's registry, as yourself: PACKAGE (an ARN, or a version's number),
    by default the newest.
    """
    session = workspace.open(environment, local)
    arn = _arn(session, package) if package else _newest(session)
    before = registry.describe(session.target, arn)
    if before.approval == REJECTED and not package:
        message = (
            f"the newest version, {before.version}, was rejected by {before.changed_by}; nothing"
            " was approved"
        )
        raise PromotionError(
            f"{message}; to approve it all the same, name it: `shoal approve {session.arguments}"
            f" {before.version}`"
        )
    if before.approval == APPROVED:
        click.echo(f"approved already: {arn}, by {before.changed_by}")
        return
    after = registry.approve(session.target, arn, comment)
    click.echo(f"approved: {after.arn}, by {after.changed_by}")


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
    "--package",
    metavar="PACKAGE",
    help="An ARN, or a version's number; by default the newest version that is approved.",
)
@click.option(
    "--copy",
    is_flag=True,
    help="Copy the model, and an image of your own, to the environment's account, and pin that.",
)
@click.option(
    "--to-profile",
    metavar="PROFILE",
    help="With --copy: the AWS profile that writes there; without, the credentials in use.",
)
@click.option(
    "--pr",
    "as_pull_request",
    is_flag=True,
    help="Print the text of the pull request, its title first, and nothing else.",
)
@click.option("--push", "remote", metavar="REMOTE", help="Push the branch to REMOTE.")
@local_option
@click.pass_obj
def promote(
    workspace: Workspace,
    source: str,
    destination: str,
    package: str | None,
    copy: bool,
    to_profile: str | None,
    as_pull_request: bool,
    remote: str | None,
    local: bool,
) -> None:
    """Pin a model that passed in one environment in the file of the next, in a commit on a branch
    of its own.

    Exit code 3 where nothing is approved that could be promoted.
    """
    step = Step.of(workspace, source, destination)
    step.repository.require_clean()
    session = workspace.open(step.holder.name, local)
    found = step.package(session, package)
    if already := step.already(found, copy):
        click.echo(f"{destination} pins {already} already; no commit was made", err=as_pull_request)
        return
    copying = _copying(session, destination, local, to_profile, as_pull_request) if copy else None
    key = copying.require_deployed() if copying else ""
    pinned = Verification(session.target, session.names, found, step.repository).release(
        step.source.release if step.is_later else None
    )
    if copying:
        pinned = copying.copy(pinned, found, key)
    pinned = pinned.replacing(step.destination.release)
    first = step.first(pinned)
    message, branch = message_of(pinned, source, destination, first), step.branch(pinned)
    commit = step.commit(pinned, message)
    if remote:
        step.repository.push(remote, branch)
    if as_pull_request:
        click.echo(message)
    else:
        click.echo(f"promoted: {pinned.model_package_arn} from {source} to {destination}")
    click.echo(f"branch {branch}, commit {commit}", err=as_pull_request)
    if as_pull_request:
        return
    merge = "merge it" if remote else f"git push origin {branch}, merge it"
    deploy = (
        f"deploy {first} first, so that {destination} may read it: `shoal deploy"
        f" {session.arguments} --data`; then {destination}"
    )
    click.echo(f"next: {merge}, and {deploy if first else 'deploy'}")


@click.group()
def release() -> None:
    """The models that environments pin."""


@release.command()
@click.argument("environments", metavar="[ENV]...", nargs=-1)
@local_option
@click.pass_obj
def status(workspace: Workspace, environments: tuple[str, ...], local: bool) -> None:
    """Show what each environment pins, what is there, and whether they agree; exit code 1 where
    they do not or nobody could be asked.
    """
    names = environments or tuple(environment_names(workspace.root))
    disagreeing = [
        name
        for name in names
        if not _agrees(workspace, load_environment(name, workspace.root), local)
    ]
    if disagreeing:
        raise DisagreementError(f"not in agreement with what they pin: {', '.join(disagreeing)}")


@dataclass(frozen=True)
class Step:
    """From one environment to the next."""

    root: Path
    repository: Repository
    source: Environment
    destination: Environment
    holder: Environment
    """Whose registry has the model: the source, or, when that is itself promoted to, the one whose
    version it pins.
    """

    @classmethod
    def of(cls, workspace: Workspace, source: str, destination: str) -> Step:
        """Raises PromotionError unless `destination` takes its releases from `source`, ConfigError
        when there is no such environment.
        """
        first, then = (
            load_environment(source, workspace.root),
            load_environment(destination, workspace.root),
        )
        if then.promoted_from is None:
            message = (
                f"environment {destination} takes no releases: {environment_file(destination)} has"
                " no `promoted_from`"
            )
            raise PromotionError(f"{message}; nothing was promoted")
        if then.promoted_from != source:
            message = (
                f"{destination} takes releases from {then.promoted_from}, not from {source}; no"
                " environment may be skipped"
            )
            raise PromotionError(
                f"{message}: promote to {then.promoted_from} first, then `--from"
                f" {then.promoted_from} --to {destination}`"
            )
        repository = Repository(workspace.root, workspace.environ)
        return cls(workspace.root, repository, first, then, holder_of(workspace, first))

    @property
    def is_later(self) -> bool:
        """Whether the source was itself promoted to."""
        return self.source.promoted_from is not None

    def package(self, session: Session, asked: str | None) -> Package:
        """The version to promote, as the registry has it now.

        Raises PromotionError, NotFoundError.
        """
        if not self.is_later:
            if asked is None:
                return registry.newest_approved(
                    session.target, session.names.model_package_group, session.arguments
                )
            return registry.describe(session.target, _arn(session, asked))
        pinned = self.source.release
        if pinned is None:
            raise NothingToPromoteError(
                f"{self.source.name} pins no release that could be promoted; promote to"
                f" {self.source.name} first"
            )
        if asked is not None and _arn(session, asked) != pinned.model_package_arn:
            message = (
                f"{self.source.name} pins {pinned.model_package_arn}, not {_arn(session, asked)};"
                " no environment may be skipped"
            )
            raise PromotionError(f"{message}: promote that to {self.source.name} first")
        return registry.describe(session.target, pinned.model_package_arn)

    def already(self, found: Package, copy: bool) -> str | None:
        """ARN of what the destination pins, where that is `found` or a copy of it; with `copy`,
        only where it is a copy of its own.
        """
        pinned = self.destination.release
        if pinned is None:
            return None
        if copy:
            is_same = (
                pinned.copied_from == found.origin
                and _group(self.destination) == pinned.model_package_arn.rpartition("/")[0]
            )
        else:
            is_same = found.origin == pinned.origin
        return pinned.model_package_arn if is_same else None

    def first(self, pinned: Release) -> str | None:
        """The environment that has to be deployed before the destination, because its policies name
        the versions that others read.
        """
        reads_elsewhere = pinned.account != self.destination.account
        return (
            self.holder.name
            if reads_elsewhere and self.holder.shared_versions is SharedVersions.PINNED
            else None
        )

    def branch(self, pinned: Release) -> str:
        return f"promote/{self.destination.name}/{pinned.model_package_arn.partition('model-package/')[2].replace('/', '-')}"  # noqa: E501

    def commit(self, pinned: Release, message: str) -> str:
        """The commit that pins the release, made now or by an earlier call.

        Raises PromotionError when its branch is something else's.

        One that was merged is made anew: the file pins something else now, so it was reverted, and
        git would merge the old one no more. Of one that was not, only what it pins has to be the
        same: the rest of the file may have changed since, which git merges.
        """
        file, branch = environment_file(self.destination.name), self.branch(pinned)
        written = with_release((self.root / file).read_bytes().decode(), pinned, file)
        existing = self.repository.commit_of(branch)
        if existing is None or self.repository.has_merged(branch):
            return self.repository.commit(branch, file, written, message)
        before, now = release_in(self.repository.text(existing, file)), release_in(written)
        if before == now:
            return existing
        if _but_replaced(before) != _but_replaced(now):
            raise PromotionError(
                f"branch {branch} is there and pins something else; delete it (git branch -D"
                f" {branch}), or merge it"
            )
        what = (
            f"branch {branch} was made when {self.destination.name} pinned something else, and git"
            " merges it no more"
        )
        raise PromotionError(
            f"{what}; delete it (git branch -D {branch}), also where it was pushed, and promote"
            " again"
        )


def _way(workspace: Workspace, environment: Environment) -> list[Environment]:
    """The environment, the one that it takes releases from, and so on to the one that trains.

    Raises PromotionError when it is a circle.
    """
    way = [environment]
    while environment.promoted_from is not None:
        environment = load_environment(environment.promoted_from, workspace.root)
        names = [each.name for each in way]
        if environment.name in names:
            raise PromotionError(
                f"`promoted_from` goes in a circle: {' <- '.join([*names, environment.name])}; one"
                " must have none"
            )
        way.append(environment)
    return way


def holder_of(workspace: Workspace, environment: Environment) -> Environment:
    """Whose registry has what the environment pins: its own, of a copy, or that of one on the way
    to it; else the one that trains.
    """
    way = _way(workspace, environment)
    pinned = (
        environment.release.model_package_arn.rpartition("/")[0] if environment.release else None
    )
    return next((each for each in way if _group(each) == pinned), way[-1])


def _but_replaced(release: object) -> object:
    """What a file says of its release, without those that were pinned before."""
    return (
        {key: value for key, value in release.items() if key != "replaces"}
        if isinstance(release, dict)
        else release
    )


def _group(environment: Environment) -> str:
    """ARN of the versions of the environment's own registry, without their numbers."""
    names = Names(environment)
    return names.arn("sagemaker", f"model-package/{names.model_package_group}")


def _copying(
    session: Session, destination: str, local: bool, profile: str | None, quiet: bool
) -> ReleaseCopy:
    """From the session's account to that of the environment `destination`.

    Raises WrongAccountError without credentials for it.
    """
    try:
        own = session.workspace.open(destination, local, profile)
    except WrongAccountError as error:
        advice = (
            ""
            if session.target.is_local
            else (
                f"; --copy writes in {destination}: name a profile of that account with"
                " --to-profile"
            )
        )
        raise WrongAccountError(f"{error}{advice}") from error
    return ReleaseCopy(
        session.target, own.target, own.names, lambda line: click.echo(line, err=quiet)
    )


def _arn(session: Session, package: str) -> str:
    """The ARN of a version of the session's registry, given by it or by its number.

    Raises NotFoundError for one of another registry.
    """
    group = _group(session.environment)
    if package.isdigit():
        return f"{group}/{package}"
    if package.rpartition("/")[0] != group or not package.rpartition("/")[2].isdigit():
        message = f"{package} is no version in the registry of {session.environment.name}"
        raise NotFoundError(f"{message}; give its number, or its ARN: {group}/NUMBER")
    return package


def _newest(session: Session) -> str:
    versions = registry.versions(session.target, session.names.model_package_group)
    if not versions:
        raise NotFoundError(
            f"the registry of {session.environment.name} has no version; train one: `shoal run"
            f" {session.arguments}`"
        )
    return versions[0][0]


def _agrees(workspace: Workspace, environment: Environment, local: bool) -> bool:
    """Prints the answers for one environment; True when every one of them agrees."""
    pinned = environment.release
    copied = f", a copy of {pinned.copied_from}" if pinned and pinned.copied_from else ""
    click.echo(
        f"{environment.name}:"
        f" {f'pins {pinned.model_package_arn}{copied}' if pinned else 'pins no release'}"
    )
    places = release_targets(workspace, environment, local)
    answers = list(compare(pinned, places, Names(environment).serving_endpoint))
    for answer in answers:
        click.echo(f"  {_MARKS[answer.agrees]}{answer.question}: {answer.says}")
    return all(answer.agrees for answer in answers)


def release_targets(workspace: Workspace, environment: Environment, local: bool) -> ReleaseTargets:
    """Where what an environment pins is asked for, and where what it serves."""
    holder = holder_of(workspace, environment)
    return ReleaseTargets(
        registry=lambda: _reader(workspace, holder, environment, local),
        serving=lambda: workspace.open(environment.name, local).target,
        pipeline_arn=Names(holder).pipeline_arn,
        environment=environment.name,
        serving_stack=Names(environment).stack("serving"),
        serves=environment.serves,
    )


def _reader(
    workspace: Workspace, holder: Environment, environment: Environment, local: bool
) -> Target:
    """Where the registry is asked: with the credentials of its account, or with the environment's
    own, if its policies let it read.
    """
    try:
        return workspace.open(holder.name, local).target
    except WrongAccountError:
        own = workspace.open(environment.name, local).target
        return Target(own.account, holder.region, own.endpoint_url)
