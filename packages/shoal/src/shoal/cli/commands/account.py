"""`shoal doctor` and `shoal prove`: what an account lets an environment do, asked and tried."""

import re
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

import click

from shoal.cli.answers import answers, exit_as, tell
from shoal.cli.main import ENDS, interrupted_once
from shoal.cli.options import Selection, excluding, flag, local_option, selection_command
from shoal.cli.view import open_view
from shoal.pipelines.checks.check import check
from shoal.repository import Repository
from shoal.settings.loading.consumers import consumers_of
from shoal.settings.loading.loader import load_environment, load_workloads
from shoal.settings.parsing.errors import one_line
from shoal.verbs.demo import exclusive
from shoal.verbs.doctor import Finding, State
from shoal.verbs.doctor.doctor import Doctor
from shoal.verbs.flow import Outcome
from shoal.verbs.image import built_images
from shoal.verbs.prove.proof import (
    PAGE,
    REGIONS,
    REPORT,
    Proof,
    new_name,
    open_session,
    proven,
    report_of,
    stamped,
)
from shoal.verbs.workspace import Workspace


@click.command()
@excluding("--clean-up", "--tag --write")
@click.argument("account")
@click.option("--region", type=click.Choice(REGIONS), default=REGIONS[0], show_default=True)
@local_option
@flag("--clean-up", help="Only take away what earlier ones left.")
@click.option(
    "--tag", "tags", multiple=True, metavar="KEY=VALUE", help="A tag for all that is made."
)
@flag("--write", help=f"Write what was run on AWS into {PAGE}.")
@click.pass_obj
@answers(
    report=str | None,
    seen=dict[str, str],
    kept=list[str],
    left_behind=list[str] | None,
    cleaned_up=list[str],
    failures=list[dict[str, str]],
)
def prove(
    workspace: Workspace,
    account: str,
    region: str,
    local: bool,
    clean_up: bool,
    tags: tuple[str, ...],
    write: bool,
) -> None:
    """Type the first run on AWS in ACCOUNT, and take it all away.

    ACCOUNT is disposable: refused where the region has other stacks. Types what
    docs/first-aws-run.md says in an environment of its own, and stops at the first answer that is
    not as expected. Report and recordings go below prove-out.
    """
    if not re.fullmatch("[0-9]{12}", account):
        raise click.UsageError(f"{account!r} is not an account id, which has twelve digits")
    if without := [each for each in tags if "=" not in each]:
        raise click.UsageError(f"--tag {without[0]}: write it as KEY=VALUE")
    pairs = dict(each.split("=", 1) for each in tags)
    with exclusive(workspace.root / ".shoal" / "prove") as folder, open_view() as view:

        def opened(name: str) -> Proof:
            session = open_session(workspace, folder, name, account, region, local, pairs)
            return Proof(session, workspace.root / "prove-out" / name, view)

        proof = opened(new_name())
        try:
            earlier = proof.earlier()
            if not clean_up:
                proof.require_alone(earlier)
        except Exception:  # nothing was made, and so nothing is to be kept
            shutil.rmtree(proof.output)
            raise
        if clean_up:
            for name in earlier:
                proof = opened(name)
                proof.clean_up()
            tell(f"cleaned up: {', '.join(earlier) or 'nothing'}", cleaned_up=earlier)
            return
        with interrupted_once(ENDS) as shield:
            outcome = proof.run(shield)
    _print(proof, outcome, workspace, write=write)


def _print(proof: Proof, outcome: Outcome, workspace: Workspace, *, write: bool) -> None:
    """Write the report, print the result, and exit as the outcome was."""
    day, target = datetime.now(UTC).date(), proof.session.target
    version = Repository(workspace.root, workspace.environ).description()
    report, page = proof.output / REPORT, workspace.root / PAGE
    report.write_text(report_of(proof, outcome, day, version), encoding="utf-8")
    if write and target.is_local:
        click.echo(f"{PAGE} is as it was: this ran against shoal-local", err=True)
    elif write:
        text = stamped(page.read_text(encoding="utf-8"), proven(outcome), day, target.region)
        page.write_text(text, encoding="utf-8")
    lines = proof.seen | {"kept": "; ".join(proof.kept) or "nothing"}
    lines["left behind"] = "not known" if proof.left is None else ", ".join(proof.left) or "nothing"
    for name, text in (lines | {"report": str(report)}).items():
        tell(f"{name:12} {one_line(text)}")
    tell(report=report, seen=proof.seen, kept=proof.kept, left_behind=proof.left)
    exit_as(outcome)


@dataclass(frozen=True)
class _Found(Finding):
    """A finding, and the workloads that it is about."""

    workloads: Sequence[str] = ()


@click.command()
@selection_command
@answers(target=str, findings=list[_Found])
def doctor(selection: Selection) -> None:
    """Ask AWS what decides whether ENV can be deployed and train.

    Changes nothing; exit code 1 if something would fail.
    """
    environment, workload, root = (
        selection.environment,
        selection.workload,
        selection.workspace.root,
    )
    if workload is None:
        views = load_workloads(environment, root)
    else:
        views = (load_environment(environment, root, workload=workload),)
    launches = [check(view, root=root).launch for view in views]
    target = selection.workspace.target_of(views[0], selection.local)
    findings: dict[Finding, list[str]] = {}
    for view, launch in zip(views, launches, strict=True):
        built, consumers = built_images(view, target, root), consumers_of(view, root)
        for finding in Doctor(target, view, launch, built, consumers).findings():
            findings.setdefault(finding, []).append(view.workload)
    for finding, workloads in findings.items():
        line = _line(finding, workloads if len(workloads) < len(views) else ())
        tell(line, findings=[_Found(**asdict(finding), workloads=workloads)])
    counts = Counter(finding.state for finding in findings)
    tell(
        f"{views[0].title if workload else environment} at {target.description}:"
        f" {', '.join(f'{counts[state]} {state}' for state in State if counts[state])}",
        target=target.description,
    )
    if any(finding.state is State.FAILED for finding in findings):
        raise click.exceptions.Exit(1)


def _line(finding: Finding, workloads: Sequence[str]) -> str:
    whose = f"{', '.join(workloads)}: " if workloads else ""
    mark = "FAILED" if finding.state is State.FAILED else finding.state
    text = f"{mark:8}{whose}{finding.question}: {finding.message}"
    return f"{text}; {finding.advice}" if finding.advice else text
