"""`shoal check`: what is wrong with the files that people write, and what soon will be."""

import datetime
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import click

from shoal.cli.answers import answers, is_json, tell
from shoal.cli.main import USAGE
from shoal.cli.options import flag, name_of
from shoal.errors import UsageError
from shoal.launch.case import patch_warnings
from shoal.pipelines.checks.check import check as check_environment
from shoal.pipelines.checks.schedules import outdated
from shoal.settings.loading.consumers import require_own_names
from shoal.settings.loading.loader import (
    FOLDER,
    environment_file,
    environment_names,
    load_environment,
    workloads_of,
)
from shoal.settings.loading.release_file import SUFFIX
from shoal.settings.loading.workload import (
    FILE,
    folders_without_a_file,
    load_workload,
    require_workload,
    workload_file,
    workload_names,
)
from shoal.settings.parsing.errors import ConfigError, Problem, Risk
from shoal.settings.settings import Environment
from shoal.verbs.dataset import upload_notices
from shoal.verbs.workspace import Workspace

_MARKS = ("may fail", "warning", "notice")
"""What a remark begins with, in the order in which they are printed."""


@dataclass
class _Findings:
    """What has been said of the files, and what is left to say when all are read."""

    root: Path
    mistakes: dict[str, None] = field(default_factory=dict)
    """Each once: all environments of a workload have its."""
    remarks: dict[tuple[str, str], list[Environment]] = field(default_factory=dict)
    """Mark and text to the environments, as one workload has them, that it is said of."""
    right: list[Environment] = field(default_factory=list)

    @contextmanager
    def told(self) -> Iterator[None]:
        try:
            yield
        except ConfigError as error:
            self.mistakes |= dict.fromkeys(error.lines)

    def sorted_remarks(self) -> Iterator[tuple[str, dict[str, str]]]:
        """Yield the lines of the remarks and their parts, the gravest first."""
        for folder in folders_without_a_file(self.root):
            text = f"has no {FILE}, so nothing runs it; write one"
            parts = {"mark": _MARKS[-1], "about": f"{folder}/", "text": text}
            yield f"{folder}/: notice: {text}", parts
        remarks = sorted(self.remarks.items(), key=lambda each: _MARKS.index(each[0][0]))
        for (mark, text), environments in remarks:
            about = _titles(environments, self.right)
            yield f"{mark} ({about}): {text}", {"mark": mark, "about": about, "text": text}


@click.command()
@flag("--all", "is_all", help="Show notices also on a terminal.")
@click.argument("environment", metavar="[ENV]", required=False, callback=name_of)
@click.pass_obj
@answers(files=list[dict[str, str]], remarks=list[dict[str, str]], mistakes=list[str])
def check(workspace: Workspace, is_all: bool, environment: str | None) -> None:
    """Validate every environment's and every workload's file. With ENV, only that environment's.

    On a terminal, notices are only counted.
    """
    root, findings = workspace.root, _Findings(workspace.root)
    names = [environment] if environment else environment_names(root)
    if not names:
        raise UsageError(f"there are no environment files in {root / 'environments'}")
    for name in () if environment else workload_names(root):
        with findings.told():
            test = load_workload(name, root).smoke_test
            count = len(test.requests) if test else 0
            asked = f"{count} request{'s' if count > 1 else ''}" if count else "no endpoint"
            _tell_right(workload_file(name), name, asked)
    for name in names:
        with findings.told():
            for workload in workloads_of(name, root):
                with findings.told():
                    _check_view(name, workload, findings)
    with findings.told():
        require_own_names(findings.right)
    pins = {path.name for path in (root / FOLDER).glob(f"*{SUFFIX}")}
    for file in () if environment else sorted(pins - {f"{name}{SUFFIX}" for name in names}):
        problem = Problem("", "there is no environment that it pins for", "rename it, or remove it")
        findings.mistakes[problem.line(f"{FOLDER}/{file}")] = None
    remarks = list(findings.sorted_remarks())
    is_whole = is_all or environment or is_json() or not (sys.stdout and sys.stdout.isatty())
    shown = [each for each in remarks if is_whole or each[1]["mark"] != "notice"]
    for line, parts in shown:
        tell(line, remarks=[parts])
    if more := len(remarks) - len(shown):
        tell(f"{more} notices; `shoal check --all` shows them")
    for mistake in findings.mistakes:  # at the end, where they are seen
        tell(mistake, err=True, mistakes=[mistake])
    if findings.mistakes:
        raise click.exceptions.Exit(USAGE)


def _tell_right(file: str, workload: str, summary: str, start: str = "") -> None:
    told = {"file": file, "workload": workload, "summary": summary}
    tell(f"{file}: {start}ok ({summary})", files=[told])


def _check_view(name: str, workload: str, findings: _Findings) -> None:
    """Check the environment as one workload has it; raise ConfigError."""
    environment = load_environment(name, findings.root, workload=workload)
    checked = check_environment(environment, root=findings.root)
    require_workload(environment.workload, findings.root)
    findings.right.append(environment)
    training, case = environment.training, checked.launch.case
    instances = f"{training.instance_count} x {training.instance_type}"
    start = f"{workload}: " if environment.workloads else ""
    _tell_right(environment_file(name), workload, f"{case.strategy} on {instances}", start)
    today = datetime.datetime.now(tz=datetime.UTC).date()
    endpoint, is_built = environment.endpoint, "endpoint" in environment.built_images
    serves = endpoint is not None and not (endpoint.image_uri or is_built)
    patches = patch_warnings(case, today, serves=serves)
    remarks = [("warning", each) for each in (*patches, *outdated(environment, today))]
    for each in (*checked.notices, *upload_notices(environment, findings.root)):
        remarks.append(("may fail" if isinstance(each, Risk) else "notice", each))
    for remark in remarks:
        findings.remarks.setdefault(remark, []).append(environment)


def _titles(environments: list[Environment], right: list[Environment]) -> str:
    """Return the environments' names, each with its workload unless all its workloads are meant."""
    counts, all_counts = (Counter(each.name for each in some) for some in (environments, right))
    is_whole = {name: count == all_counts[name] for name, count in counts.items()}
    titles = [each.name if is_whole[each.name] else each.title for each in environments]
    return ", ".join(dict.fromkeys(titles))
