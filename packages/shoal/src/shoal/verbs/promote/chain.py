"""The chain of environments as their files have it: what workflows deploy, and in which order."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from shoal.errors import PromotionError, UsageError
from shoal.settings.loading.loader import environment_file, environment_names, load_workloads
from shoal.settings.names import Names
from shoal.settings.settings import Environment

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
            f"\n    - .venv/bin/shoal image build {each.title}"
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
    releases, or else all. Raises ConfigError, and PromotionError for a chain without a beginning.
    """
    views = {name: load_workloads(name, root) for name in environment_names(root)}
    files = {name: each[0] for name, each in views.items()}
    ways = {name: _way(name, files) for name in files}
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
            f" {link.environment}; type `shoal chain --gitlab`, or name delivery.repository"
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


def _way(name: str, files: dict[str, Environment]) -> list[str]:
    """Return the environment and those that it takes releases from, down to the one that trains."""
    way = [name]
    while (source := files[way[-1]].promoted_from) is not None:
        if source in way:
            place = f"{environment_file(way[-1])}: promoted_from = {source}"
            raise PromotionError(f"{place}: goes in a circle; the one that trains must have none")
        way.append(source)
    return way
