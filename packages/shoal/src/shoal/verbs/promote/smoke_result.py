"""What the smoke test said of a version of the registry, before somebody approves it."""

from __future__ import annotations

from botocore.exceptions import ClientError

from shoal.aws.registry import Package
from shoal.errors import refusal
from shoal.pipelines.step_names import SMOKE_TEST
from shoal.settings.parsing.errors import one_line
from shoal.verbs.workspace import Session


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
