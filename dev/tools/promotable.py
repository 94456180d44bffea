"""Print the names of the workloads that one run of promote.yml is about, as a JSON array.

`python -m dev.tools.promotable --from ENV --to ENV [--workload NAME] [--package PACKAGE]`, in a
checkout. That is the workload that is named, or the one whose registry has the version PACKAGE
(none, if only `--from` has it), or every one of the environment that can serve a release. An empty
value is as if it were not given.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from shoal.cli.exit_codes import OK, USAGE
from shoal.errors import PromotionError
from shoal.settings.loading.loader import load_environment, load_workloads
from shoal.settings.names import Names
from shoal.settings.parsing.errors import ConfigError, shorten
from shoal.settings.settings import Environment
from shoal.verbs.promote.promotion_path import PromotionStep
from shoal.verbs.workspace import Workspace


def main(arguments: Sequence[str], root: Path) -> int:
    """Return 0, or 2 for a workload, version or environment that there is not."""
    parser = argparse.ArgumentParser(prog="promotable", description=__doc__)
    parser.add_argument("--from", dest="source", required=True)
    parser.add_argument("--to", dest="destination", required=True)
    parser.add_argument("--workload", default="")
    parser.add_argument("--package", default="")
    given = parser.parse_args(arguments)
    try:
        names = promotable(root, given.source, given.destination, given.workload, given.package)
    except (ConfigError, PromotionError) as error:
        print(error, file=sys.stderr)
        return USAGE
    print(json.dumps(names))
    return OK


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
    if _is_of(package, load_workloads(source, root), names):
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


def _is_of(package: str, views: Sequence[Environment], names: Sequence[str]) -> bool:
    """Whether the version is in a registry of the environment, of a workload not in `names`."""
    others = [Names(view).model_package_group for view in views if view.workload not in names]
    return any(f":model-package/{group}/" in package for group in others)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Path.cwd()))
