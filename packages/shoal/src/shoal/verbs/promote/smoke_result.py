"""What the smoke test said of a version of the registry, before somebody approves it."""

from __future__ import annotations

from dataclasses import dataclass

from botocore.exceptions import ClientError

from shoal.aws.registry import Package
from shoal.errors import refusal
from shoal.pipelines.step_names import SMOKE_TEST
from shoal.settings.parsing.errors import one_line
from shoal.verbs.workspace import Session

_PASSED = "Succeeded"


@dataclass(frozen=True)
class SmokeResult:
    """The step's `status`, None where it never ran or nobody can tell; `doubt` is "" if it passed,
    and for a workload that has no endpoint to ask.
    """

    status: str | None = None
    doubt: str = ""


def smoke_result(session: Session, package: Package) -> SmokeResult:
    """Return what the execution that registered the version says of its smoke test."""
    execution = package.metadata.get("execution_id")
    if session.environment.endpoint is None:
        return SmokeResult()
    if not execution:
        return SmokeResult(doubt="names no execution, so nobody knows whether a smoke test passed")
    try:
        found = session.pipeline.look(f"{session.names.pipeline_arn}/execution/{execution}")
    except ClientError as error:
        return SmokeResult(
            doubt=f"may have failed its smoke test, which is unread: {refusal(error)}"
        )
    step = found.step(SMOKE_TEST)
    if step is None:
        never = "never ran" if found.has_ended else "has not run yet"
        return SmokeResult(
            doubt=f"was asked nothing: its smoke test {never}; {_look(session, found.id)}"
        )
    if step.status == _PASSED:
        return SmokeResult(_PASSED)
    reason = f": {one_line(step.failure_reason)}" if step.failure_reason else ""
    doubt = (
        f"did not pass its smoke test, which is {step.status}{reason}; {_look(session, found.id)}"
    )
    return SmokeResult(step.status, doubt)


def _look(session: Session, execution: str) -> str:
    return f"see `shoal status {session.arguments} {execution}` before you promote it"
