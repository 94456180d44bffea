"""Run the lines in order until one fails, take everything away again, and keep what was
seen: report.md, and dates in docs/verification.md.

A proof runs in a disposable environment, in a checkout of its own. Nothing of the user's is read
but the code, and nothing is written.
"""

import math
import re
import secrets
import shutil
import signal
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from pathlib import Path
from types import MappingProxyType

import yaml

from shoal.aws import inventory
from shoal.aws.cdk import TOOLKIT_STACK
from shoal.aws.events import Report
from shoal.aws.stacks import describe_stack
from shoal.aws.target import Target, items
from shoal.costs.plan import plan
from shoal.errors import LeftBehindError, ShoalError, UsageError
from shoal.settings.loading.loader import load_environment
from shoal.settings.names import ENVIRONMENT_TAG
from shoal.settings.parsing.yaml_file import read_table
from shoal.settings.settings import Environment
from shoal.verbs.destroy.teardown import remove_bootstrap
from shoal.verbs.flow import Outcome, Phase, run_phases
from shoal.verbs.new_workload import write_workload
from shoal.verbs.prove.lines import BY_HAND, CLEAN_UP, LINES, Ground, Line, Recorder, Redaction
from shoal.verbs.workspace import Session, Workspace

_PROJECT = "proof"
_NAMES = re.compile(rf"\bshoal-{_PROJECT}-(prove-[0-9a-f]{{4}})\b")
_COPIED, _LINKED = ("app.py", "cdk.json", "pipelines", "stacks"), ("node_modules", ".shoal/jsii")
"""What is linked takes long to make; it is not packed."""
_TABLE = read_table(__file__, "environment.yaml")
REGIONS: tuple[str, ...] = tuple(_TABLE["zones"])


def new_name() -> str:
    """Return a name that no environment had: S3 gives a bucket's name back only after a while."""
    return f"prove-{secrets.token_hex(2)}"


def open_session(
    workspace: Workspace,
    folder: Path,
    name: str,
    account: str,
    region: str,
    local: bool,
    tags: Mapping[str, str] = MappingProxyType({}),
) -> Session:
    """Return a session of the environment `name` in `folder`, which becomes a checkout with the
    user's code and the workload of `shoal new`; what is made there has `tags`.

    Raises NotFoundError (no shoal-local runs), UsageError (it plays another account or region).
    """
    running = workspace.local_server.require() if local else None
    if running and (account not in running.accounts or region != running.region):
        raise UsageError(
            f"the emulator plays {running.description}: type"
            f" `shoal prove {running.account} --region {running.region} --local`"
        )
    shutil.rmtree(folder)
    for each in (*_COPIED, *_LINKED):
        source, place = workspace.root / each, folder / each
        place.parent.mkdir(parents=True, exist_ok=True)
        if each in _LINKED:
            source.mkdir(parents=True, exist_ok=True)
            place.symlink_to(source)
        elif source.is_dir():
            shutil.copytree(source, place, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, place)
    file = folder / write_workload(folder, name, "classification")[1]
    training, *hosting = _TABLE["zones"][region]
    data = yaml.safe_load(file.read_text(encoding="utf-8"))
    data |= {"account": account, "region": region, "project": _PROJECT}
    data |= {"network": {"training_az_id": training, "hosting_az_ids": hosting}}
    data |= _TABLE["sections"] | ({"tags": dict(tags)} if tags else {})
    data["training"]["instance_count"] = _TABLE["instance_count"]
    file.write_text(yaml.safe_dump(data), encoding="utf-8")
    environment = load_environment(name, folder)
    target = workspace.target_of(environment, local)
    return Session(Workspace(folder, workspace.environ), environment, target)


def leftovers(target: Target) -> list[str]:
    """Return the names of the proofs' environments of which something is in the account; last the
    one that made the bootstrap, whose roles delete stacks.
    """
    owner, bootstrapper = inventory.Owner(f"shoal-{_PROJECT}"), bootstrapped_by(target)
    names = [each.name for each in inventory.of_environment(target, owner)]
    matches = map(_NAMES.search, [*names, bootstrapper])
    found = {match[1] for match in matches if match}
    return sorted(found, key=lambda name: (bootstrapper.endswith(name), name))


def bootstrapped_by(target: Target) -> str:
    """Return the prefix of the proof that made the CDK's bootstrap stack; empty where none did."""
    tags = (describe_stack(target, TOOLKIT_STACK) or {}).get("Tags", ())
    values = [str(tag["Value"]) for tag in tags if tag["Key"] == ENVIRONMENT_TAG]
    return next(filter(_NAMES.fullmatch, values), "")


RECORDINGS, LOGS = "recordings.jsonl", "logs"
_SHARED_GROUPS = "log groups /aws/sagemaker/TrainingJobs and ProcessingJobs, which all jobs share"


@dataclass
class Proof:
    """One proof: where, and what was seen so far."""

    session: Session
    output: Path
    report: Report
    seen: dict[str, str] = field(default_factory=dict)
    """What each line that is proven saw."""
    kept: list[str] = field(default_factory=list)
    left: list[str] | None = None
    """What is left at the end; None: it was not possible to look."""

    def __post_init__(self) -> None:
        environment = self.session.environment
        root = self.session.workspace.root
        self.redaction = Redaction(environment.account, environment.name, root)
        (self.output / LOGS).mkdir(parents=True, exist_ok=True)
        self._recorder = Recorder(self.output / RECORDINGS, self.redaction)
        self._recorder.listen(self.session.target)
        self._ground = Ground(self.session, self.report, self.output / LOGS)
        self._has_toolkit = True

    def earlier(self) -> list[str]:
        """Return the environments of proofs of which something is in the account.

        Raises WrongAccountError.
        """
        self.session.target.check_account()
        return leftovers(self.session.target)

    def require_alone(self, earlier: list[str]) -> None:
        """Raise UsageError unless the account is there for nothing else."""
        target = self.session.target
        if earlier:
            names = ", ".join(earlier)
            raise UsageError(f"{names} of an earlier proof, or of one that runs: see --clean-up")
        # The account may have no stack that is neither the CDK's nor a proof's.
        stacks = items(target.client("cloudformation"), "describe_stacks")
        strange = [stack["StackName"] for stack in stacks if not _NAMES.match(stack["StackName"])]
        if others := [each for each in strange if each != TOOLKIT_STACK]:
            raise UsageError(
                f"{target.description} has other stacks ({', '.join(others)}): nothing was made;"
                " prove it in an account that is there for nothing else"
            )
        bootstrap = inventory.of_bootstrap(target)
        self._has_toolkit = describe_stack(target, TOOLKIT_STACK) is not None
        if bootstrap and not self._has_toolkit:
            names = ", ".join(map(str, bootstrap))
            raise UsageError(f"a bootstrap whose stack is gone left {names}: delete them first")

    def run(self, shield: Callable[[], None]) -> Outcome:
        """Prove the lines and clean up, whatever happens; keep the logs, redacted."""
        phases = [Phase("begin", undo=self.clean_up, undo_name=CLEAN_UP.name)]
        phases += [Phase(line.name, partial(self._prove, line)) for line in LINES]
        try:
            return run_phases(phases, self.report, shield)
        finally:
            (self.output / LOGS).mkdir(parents=True, exist_ok=True)
            for folder in (self.session.assembly.parent, self.output / LOGS):
                for log in folder.glob("*.log"):
                    text = self.redaction.text(log.read_text(encoding="utf-8", errors="replace"))
                    (self.output / LOGS / log.name).write_text(text, encoding="utf-8")

    def _prove(self, line: Line) -> None:
        self._recorder.line = line.name
        with limited(line):
            self.seen[line.name] = line.prove(self._ground)

    def clean_up(self) -> None:
        """Destroy the environment, and the bootstrap if this proof made it.

        Raises LeftBehindError.
        """
        self._recorder.line = CLEAN_UP.name
        session, target = self.session, self.session.target
        made_bootstrap = bootstrapped_by(target) == session.names.prefix or not self._has_toolkit
        for _ in range(2):  # a CDK CLI whose parent was killed may go on for a moment
            if self._look():
                cdk = session.cdk(self.report)
                cdk.synth(session.environment.name)
                destroy = partial(cdk.destroy, target, session.environment.name)
                self.kept += [*session.teardown(self.report).destroy(destroy).kept, _SHARED_GROUPS]
        if made_bootstrap:
            session.stacks(self.report).wait_until_settled(TOOLKIT_STACK)
            remove_bootstrap(target, is_ours=True)
            self.kept = [each for each in self.kept if f"stack {TOOLKIT_STACK}," not in each]
            self._look(also=inventory.of_bootstrap(target))
        if self.left:
            again = f"`shoal prove {target.account} --region {target.region} --clean-up`"
            raise LeftBehindError(f"still there: {', '.join(self.left)}; {again} tries again")

    def _look(self, also: tuple[inventory.Resource, ...] = ()) -> list[str]:
        """Return what is there now, and keep it."""
        execution = self._ground.execution
        owner = inventory.Owner.of(self.session.names, (execution.id,) if execution else ())
        found = inventory.of_environment(self.session.target, owner)
        self.left = [str(each) for each in (*found, *also)]
        return self.left


def max_usd(environment: Environment) -> float:
    """Return what an hour costs if everything runs all the time, without what `NOT_COUNTED` names;
    infinity where a price is not known.
    """
    costs = plan(environment)
    lines = (*costs.at_rest.lines, *costs.training.lines, *costs.testing.lines)
    return sum(math.inf if each.each is None else each.usd_per_hour or 0.0 for each in lines)


class _LateError(KeyboardInterrupt):
    """Nothing may take the alarm for a failure of a request, and try that again."""


@contextmanager
def limited(line: Line) -> Iterator[None]:
    """Raise ShoalError in the line if it takes longer than its limit."""

    def ring(*_: object) -> None:
        raise _LateError

    previous = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, line.limit_s)
    try:
        yield
    except _LateError:
        raise ShoalError(f"it did not end within {line.limit_s} s and was stopped") from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


REPORT, PAGE = "report.md", "docs/verification.md"
_STAMP = re.compile(r" \*\*\(run on AWS [^)]*\)\*\*")


def proven(outcome: Outcome) -> list[str]:
    """Return the claims of the lines that ended as expected."""
    lines = [each for each in (*LINES, CLEAN_UP) if each.name in outcome.seconds]
    return [claim for line in lines for claim in line.claims]


def report_of(proof: Proof, outcome: Outcome, day: date, version: str) -> str:
    """Return the report, redacted."""
    target = proof.session.target
    where = "against shoal-local, which proves nothing of AWS" if target.is_local else "on AWS"
    left = ["not known: it could not be read"] if proof.left is None else proof.left
    sections = {
        "Lines": [_row(each.name, each.rows, proof, outcome) for each in (*LINES, CLEAN_UP)],
        "Failed": [f"{each.phase}: {each.message}" for each in outcome.failures],
        "Proven": proven(outcome),
        "Left to a person": [f"line {row}: {why}" for row, why in BY_HAND.items()],
        "Left behind": left,
        "Kept on purpose": proof.kept,
        "What to send": [
            "this file and what lies beside it: ids, keys, tokens, people and addresses are taken"
            " out; look through it before"
        ],
    }
    text = f"# `shoal prove` {version}, {day}, {target.region}, {where}\n\n"
    text += f"{sum(outcome.seconds.values()):.0f} s; at most"
    text += f" {max_usd(proof.session.environment):.2f} USD by list prices.\n"
    for title, rows in sections.items():
        text += f"\n## {title}\n\n" + "\n".join(f"- {each}" for each in rows or ["nothing"]) + "\n"
    return proof.redaction.text(text)


def _row(name: str, rows: list[str], proof: Proof, outcome: Outcome) -> str:
    if name in outcome.seconds:
        state = f"as expected after {outcome.seconds[name]:.0f} s"
    else:
        failed = any(each.phase == name for each in outcome.failures)
        state = "failed" if failed else "not reached"
    return f"{name} ({', '.join(rows)}): {state}; {proof.seen.get(name, '')}".removesuffix("; ")


def stamped(page: str, claims: Collection[str], day: date, region: str) -> str:
    """Return docs/verification.md with date and region behind each of the claims."""
    lines = []
    for line in page.splitlines(keepends=True):
        plain = _STAMP.sub("", line)
        cell = next((f"| {each} |" for each in claims if f"| {each} |" in plain), None)
        new = f"{(cell or '')[:-2]} **(run on AWS {day}, {region})** |"
        lines.append(plain.replace(cell, new) if cell else line)
    return "".join(lines)
