"""The chain of environments as their files have it: what workflows deploy, and in which order."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from shoal.errors import PromotionError, UsageError
from shoal.settings.loading.loader import environment_file, environment_names, load_workloads
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


def chain(root: Path) -> list[Link]:
    """Return the links, each after the one that it takes releases from.

    They are the environments with a section `delivery`; where none has one, those that take or give
    releases, or else all. Raises ConfigError, and PromotionError for a chain without a beginning.
    """
    files = {name: load_workloads(name, root)[0] for name in environment_names(root)}
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
        )
        for name in order
    ]


def workflow(links: list[Link], host: str) -> str:
    """Return the text of what deploys the links: .github/workflows/deploy.yml, or a child pipeline
    of GitLab's. Raises UsageError where there is nothing to deploy.
    """
    if not links:
        raise UsageError("there is no environment, so there is nothing to deploy")
    head, _, job = (_TEMPLATES / f"{host}.yml").read_text(encoding="utf-8").partition("# each:\n")
    begin, _, follow = job.partition("# each after another:\n")
    jobs = ((follow if each.after else begin).format(**vars(each)) for each in links)
    return head + "\n".join(jobs)


def _way(name: str, files: dict[str, Environment]) -> list[str]:
    """Return the environment and those that it takes releases from, down to the one that trains."""
    way = [name]
    while (source := files[way[-1]].promoted_from) is not None:
        if source in way:
            place = f"{environment_file(way[-1])}: promoted_from = {source}"
            raise PromotionError(f"{place}: goes in a circle; the one that trains must have none")
        way.append(source)
    return way
