"""Print what one run of promote.yml is about, as a JSON array: from, to, trainer and workload of
each promotion.

`python -m dev.tools.promotable [--from ENV] [--to ENV] [--workload NAME] [--package PACKAGE]`, in a
checkout. That is the workload that is named, or the one whose registry has the version PACKAGE
(none, if only the source has it), or every one of the environment that can serve a release. An
empty value is as if it were not given: without environments it is every step of the chain from one
that trains, without one of them every step that has the other.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from shoal.cli.main import OK, USAGE
from shoal.errors import PromotionError
from shoal.settings.loading.loader import load_environment, load_workloads, workloads_of
from shoal.settings.names import Names
from shoal.settings.parsing.errors import ConfigError, shorten
from shoal.verbs.promote.promotion_path import Link, PromotionStep, chain
from shoal.verbs.workspace import Workspace


def main(arguments: Sequence[str], root: Path) -> int:
    """Return 0, or 2 for a workload, version or environment that there is not."""
    parser = argparse.ArgumentParser(prog="promotable", description=__doc__)
    for option, name in {"--from": "source", "--to": "destination"}.items():
        parser.add_argument(option, dest=name, default="")
    parser.add_argument("--workload", default="")
    parser.add_argument("--package", default="")
    given = parser.parse_args(arguments)
    try:
        links = {link.environment: link for link in chain(root)}
        rows = [
            {"from": source, "to": to, "trainer": links[to].trainer, "workload": workload}
            for source, to in _steps(root, links, given)
            for workload in promotable(root, source, to, given.workload, given.package)
        ]
    except (ConfigError, PromotionError) as error:
        print(error, file=sys.stderr)
        return USAGE
    print(json.dumps(rows))
    return OK


def _steps(root: Path, links: dict[str, Link], given: argparse.Namespace) -> list[tuple[str, str]]:
    """Return source and destination of each step; a version is of one account and region."""
    source, to, package = given.source, given.destination, given.package
    if source and to:
        load_workloads(to, root)  # which says what is wrong, and what there is
        if to in links:
            return [(source, to)]
        raise PromotionError(f"workflows deploy no {to}: it has no section `delivery`")
    steps = [
        link
        for link in links.values()
        if link.after and source in ("", link.after) and to in ("", link.environment)
        if source or to or link.after == link.trainer
    ]
    if not steps:
        raise PromotionError(f"no environment takes releases: {source or 'any'} to {to or 'any'}")
    if len(steps) > 1 and given.workload:
        steps = [each for each in steps if given.workload in workloads_of(each.environment, root)]
    if len(steps) > 1 and ":model-package/" in package:
        trainers = {each: links[each.trainer] for each in steps}
        steps = [each for each, of in trainers.items() if f":{of.region}:{of.account}:" in package]
    return [(each.after, each.environment) for each in steps]


def promotable(root: Path, source: str, destination: str, workload: str, package: str) -> list[str]:
    """Return the names in the order of the destination's file.

    Raises PromotionError for a version of none of them, ConfigError for what is in no file.
    """
    if workload:
        return [load_environment(destination, root, workload=workload).workload]
    views = load_workloads(destination, root)
    names = [view.workload for view in views if view.endpoint is not None]
    if not package:
        return names
    others = (each for each in load_workloads(source, root) if each.workload not in names)
    if any(f":model-package/{Names(each).model_package_group}/" in package for each in others):
        # It is in a registry of a workload that only the source has, or that serves nothing here.
        return []
    if len(views) == 1:
        return names
    steps = (PromotionStep.of(Workspace(root, {}), source, destination, name) for name in names)
    groups = {step.source.workload: Names(step.trainer).model_package_group for step in steps}
    for name, group in groups.items():
        if f":model-package/{group}/" in package:
            return [name]
    raise PromotionError(
        f"{shorten(package)} is no ARN of a version in one of these registries:"
        f" {', '.join(groups.values())}; nothing was promoted; name the workload"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Path.cwd()))
