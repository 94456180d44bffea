"""`shoal doctor`: what questions to AWS found of what an account lets an environment do."""

from dataclasses import dataclass
from enum import StrEnum

Mistake = tuple[str, str]
"""What is wrong, and what to do."""


class State(StrEnum):
    """The outcome of a question."""

    OK = "ok"
    WARNING = "warning"
    """It can run, but somebody should know."""
    FAILED = "failed"
    """It would fail, after money or time was spent."""
    UNKNOWN = "unknown"
    """AWS did not say, or the credentials may not ask."""


@dataclass(frozen=True)
class Finding:
    """One answer: the question, its outcome, and advice where it is not well."""

    question: str
    state: State
    message: str
    advice: str = ""


def ok(message: str, question: str = "") -> Finding:
    return Finding(question, State.OK, message)


def failed(message: str, advice: str, question: str = "") -> Finding:
    return Finding(question, State.FAILED, message, advice)
