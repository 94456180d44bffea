"""The step from one environment to the next: which version, in whose registry, in which commit; and
the chain of all of them, as what deploys them has it.

Environments name the one that they take releases from (`promoted_from`), down to the one that
trains.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from shoal.aws import registry
from shoal.aws.registry import Package
from shoal.aws.target import Target
from shoal.errors import (
    NotFoundError,
    NothingToPromoteError,
    PromotionError,
    UsageError,
    WrongAccountError,
    refusal,
)
from shoal.pipelines.step_names import SMOKE_TEST
from shoal.repository import Repository
from shoal.settings.loading.consumers import path_of
from shoal.settings.loading.loader import (
    environment_file,
    environment_names,
    load_environment,
    load_source,
    load_workloads,
    workloads_of,
)
from shoal.settings.loading.release_file import pins_in, pins_of, text_of
from shoal.settings.names import Names
from shoal.settings.parsing.errors import one_line
from shoal.settings.sections.release import Release
from shoal.settings.settings import Environment
from shoal.verbs.promote.release_status import Answer, Ask, compare
from shoal.verbs.workspace import Session, Workspace


@dataclass(frozen=True)
class PromotionStep:
    """The step from one environment to the next."""

    repository: Repository
    source: Environment
    destination: Environment
    trainer: Environment
    """The environment that trained the model, with the registry that has it."""

    @classmethod
    def of(
        cls, workspace: Workspace, source: str, destination: str, workload: str | None = None
    ) -> "PromotionStep":
        """Return the step of a workload between two environments; it need not be named where
        `destination` has one only.

        Raises PromotionError unless `destination` takes its releases from `source`.
        Raises ConfigError if there is no such environment or workload.
        """
        workloads_of(source, workspace.root)
        workloads = workloads_of(destination, workspace.root)
        if workload is None and len(workloads) > 1:
            raise PromotionError(
                f"{destination} has several workloads ({', '.join(workloads)}); nothing was"
                f" promoted; name one with `--workload {workloads[0]}`"
            )
        end = load_environment(destination, workspace.root, workload=workload)
        before = end.promoted_from
        if before is None:
            raise PromotionError(
                f"environment {destination} takes no releases: {environment_file(destination)} has"
                " no `promoted_from`; nothing was promoted"
            )
        if before != source:
            raise PromotionError(
                f"{destination} takes releases from {before}, not from {source}; no environment may"
                f" be skipped: promote to {before} first, then `--from {before} --to {destination}`"
            )
        if end.endpoint is None:
            raise PromotionError(
                f"{destination} only trains: `endpoint` is none, so it serves no release"
            )
        repository = Repository(workspace.root, workspace.environ)
        begin = load_source(end, workspace.root) or end
        if begin.workload != end.workload:
            raise PromotionError(
                f"{begin.title} trains {begin.workload}, and {end.title} serves {end.workload};"
                " nothing was promoted"
            )
        return cls(repository, begin, end, _promotion_path(workspace.root, begin)[-1])

    @property
    def is_later(self) -> bool:
        """Return whether the source itself takes releases from another environment."""
        return self.source.promoted_from is not None

    def package(self, session: Session, request: str | None) -> Package:
        """Return the version to promote, as the registry has it now.

        Raises PromotionError or NotFoundError.
        """
        target, group = session.target, session.names.model_package_group
        arn = package_arn(session, request) if request is not None else None
        if not self.is_later:
            if arn is None:
                return registry.newest_approved(target, group, session.arguments)
            return registry.describe(target, arn)
        source, pinned = self.source.title, self.source.release
        if pinned is None:
            raise NothingToPromoteError(
                f"{source} pins no release that could be promoted; promote to {source} first"
            )
        if arn not in (None, pinned.model_package_arn):
            raise PromotionError(
                f"{source} pins {pinned.model_package_arn}, not {arn}; no environment may be"
                f" skipped: promote that to {source} first"
            )
        return registry.describe(target, pinned.model_package_arn)

    def is_pinned(self, package: Package) -> bool:
        """Return whether the destination's file pins `package` already."""
        pinned = self.destination.release
        return pinned is not None and pinned.model_package_arn == package.arn

    def branch(self, pinned: Release) -> str:
        """Return the name of the branch that pins the release."""
        version = pinned.model_package_arn.partition("model-package/")[2].replace("/", "-")
        return f"promote/{self.destination.name}/{version}"

    def commit(self, pinned: Release, message: str) -> str:
        """Return the commit that pins the release, made now or by an earlier call.

        A merged commit is replaced: the file pins something else now, so it was reverted, and git
        would not merge the old commit again. So is one that was made when another workload pinned
        something else: the file is written whole. Raises PromotionError if the branch pins
        something else.
        """
        branch, workload = self.branch(pinned), self.destination.workload
        file = pins_of(environment_file(self.destination.name))
        before = self._pins("HEAD", file)
        after = before | {workload: pinned.model_dump(mode="json")}
        commit = self.repository.commit_of(branch)
        if commit is None or self.repository.has_merged(branch):
            return self.repository.commit(branch, file, text_of(after), message)
        if self._pins(commit, file).get(workload) != after[workload]:
            raise PromotionError(
                f"branch {branch} is there and pins something else; delete it (git branch -D"
                f" {branch}), or merge it"
            )
        proposed_on = self._pins(f"{commit}^", file)
        if proposed_on == before:
            return commit
        if proposed_on.get(workload) == before.get(workload):
            return self.repository.commit(branch, file, text_of(after), message)
        raise PromotionError(
            f"branch {branch} was made when {self.destination.title} pinned something else, and git"
            f" merges it no more; delete it (git branch -D {branch}), also where it was pushed, and"
            " promote again"
        )

    def _pins(self, commit: str, file: str) -> dict[str, Any]:
        """Return what a commit's file pins, by workload: nothing where it has no such file."""
        return pins_in(self.repository.text(commit, file) or "")


def release_answers(
    workspace: Workspace, environment: Environment, local: bool, ask: Ask | None
) -> Iterator[Answer]:
    """Return how what an environment pins compares with what exists, as `compare` does."""
    trainer = _promotion_path(workspace.root, environment)[-1]
    registry = partial(_registry_target, workspace, trainer, environment, local)
    serving = partial(workspace.reach, environment, local)
    return compare(environment, trainer, registry, serving, ask)


def package_arn(session: Session, package: str) -> str:
    """Return the ARN of a version of the session's registry, from its ARN or its number.

    Raises NotFoundError for a version of another registry.
    """
    names = Names(session.environment)
    group = names.arn("sagemaker", f"model-package/{names.model_package_group}")
    number = package.removeprefix(f"{group}/")
    if not number.isdigit():
        raise NotFoundError(
            f"{package} is no version in the registry of {session.title}; give its number, or its"
            f" ARN: {group}/NUMBER"
        )
    return f"{group}/{number}"


def _promotion_path(root: Path, environment: Environment) -> list[Environment]:
    """Return the environment and those that it takes releases from, as its workload has them."""
    return path_of(environment, lambda each: load_source(each, root))


def _registry_target(
    workspace: Workspace, trainer: Environment, environment: Environment, local: bool
) -> Target:
    """Return the registry's account, or the environment's own if its policies let it read there."""
    try:
        return workspace.reach(trainer, local)
    except WrongAccountError:
        return workspace.reach(environment, local).in_region(trainer.region)


def smoke_result(session: Session, package: Package) -> tuple[str | None, str]:
    """Return the status of the smoke test of the execution that registered the version, None where
    it has none, and why to doubt the version: "" where it passed, or has no endpoint.
    """
    execution = package.metadata.get("execution_id")
    if session.environment.endpoint is None:
        return None, ""
    if not execution:
        return None, "names no execution, so nobody knows whether a smoke test passed"
    look = f"see `shoal status {session.arguments} {execution}` before you promote it"
    try:
        found = session.pipeline.look(f"{session.names.pipeline_arn}/execution/{execution}")
    except ClientError as error:
        return None, f"may have failed its smoke test, which is unread: {refusal(error)}"
    step = found.step(SMOKE_TEST)
    if step is None:
        never = "never ran" if found.has_ended else "has not run yet"
        return None, f"was asked nothing: its smoke test {never}; {look}"
    reason = one_line(step.failure_reason) or "no reason was given"
    doubt = f"did not pass its smoke test, which is {step.status}: {reason}; {look}"
    return step.status, "" if step.status == "Succeeded" else doubt


_TEMPLATES = Path(__file__).parent


@dataclass(frozen=True)
class Link:
    """An environment of the chain."""

    environment: str
    after: str
    """The environment that is deployed before it, and whose releases it takes; or empty."""
    trainer: str
    """The environment that trains what is served here."""
    account: str
    region: str
    views: tuple[Environment, ...] = field(default=(), repr=False, compare=False)
    """What the environment's workloads have."""

    @property
    def facts(self) -> dict[str, str]:
        """Return what the verb tells of it."""
        return {name: value for name, value in vars(self).items() if name != "views"}

    @property
    def roles(self) -> dict[str, str]:
        """Return the ARNs of the roles that a job assumes, and the calls that build its images."""
        names, place = Names(self.views[0]), f"{self.account}-{self.region}"
        lookup = f"role/cdk-{names.qualifier}-lookup-role-{place}"
        builds = (
            f"\n    - .venv/bin/shoal deploy {each.title} --images"
            for each in self.views
            if each.built_images
        )
        return {
            "deliver": names.shared.role_arn("deliver"),
            "look": names.shared.role_arn("look"),
            "lookup": f"arn:aws:iam::{self.account}:{lookup}",
            "builds": "".join(builds),
        }


def chain(root: Path) -> list[Link]:
    """Return the links, each after the one that it takes releases from.

    They are the environments with a section `delivery`; where none has one, those that take or give
    releases, or else all. Raises ConfigError.
    """
    views = {name: load_workloads(name, root) for name in environment_names(root)}
    files = {name: each[0] for name, each in views.items()}

    def source_of(each: Environment) -> Environment | None:
        return files[each.promoted_from] if each.promoted_from else None

    ways = {name: [each.name for each in path_of(files[name], source_of)] for name in files}
    linked = {each for way in ways.values() if len(way) > 1 for each in way}
    delivered = {name for name, each in files.items() if each.delivery}
    members = delivered or linked or {*files}
    order = sorted(members, key=lambda name: (len(ways[name]), name))
    return [
        Link(
            name,
            next((each for each in ways[name][1:] if each in members), ""),
            ways[name][-1],
            files[name].account,
            files[name].region,
            views[name],
        )
        for name in order
    ]


def workflow(links: list[Link], host: str) -> str:
    """Return the text of what deploys the links: .github/workflows/deploy.yml, or a child pipeline
    of GitLab's. Raises UsageError where there is nothing to deploy, or another host deploys it.
    """
    if not links:
        raise UsageError("there is no environment, so there is nothing to deploy")
    for each in links:
        _require_host(each, host, links[0])
    head, _, job = (_TEMPLATES / f"{host}.yml").read_text(encoding="utf-8").partition("# each:\n")
    begin, _, follow = job.partition("# each after another:\n")
    jobs = ((follow if each.after else begin).format(**each.facts, **each.roles) for each in links)
    return head + "\n".join(jobs)


def _require_host(link: Link, host: str, first: Link) -> None:
    """Raise UsageError unless the host may deploy the environment, with the first one's project."""
    place, delivery = environment_file(link.environment), link.views[0].delivery
    gitlab, before = delivery and delivery.gitlab, first.views[0].delivery
    if host == "github" and gitlab:
        raise UsageError(
            f"{place}: delivery.gitlab.project = {gitlab.project}: GitLab deploys"
            f" {link.environment}; type `shoal release chain --gitlab`, or name delivery.repository"
        )
    if host == "gitlab" and not gitlab:
        raise UsageError(
            f"{place}: delivery.gitlab: is missing, so no role of {link.environment} trusts GitLab;"
            " write `delivery: {gitlab: {project: group/name}}`, and deploy the delivery stack"
        )
    if gitlab and before and gitlab != before.gitlab:
        raise UsageError(
            f"{place}: delivery.gitlab: differs from that of {first.environment}; one pipeline"
            " deploys them all, so name one host, project and branch"
        )
