"""Requests as bytes: what no client of AWS would send, and what came back; one emulator in this
process, so that a test can break it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from local_kit.control import send
from shoal_local.testing import LocalAccount, in_process

ACCOUNT_ID = "123456789012"
REGION = "us-east-1"
_FORBIDDEN = (
    "Traceback (most recent call last)",
    "InternalFailure",
    "Internal Server Error",
    "InternalError",
)


@dataclass(frozen=True)
class Answer:
    """What the emulator said."""

    status: int
    text: str

    @property
    def document(self) -> dict[str, Any]:
        return dict(json.loads(self.text))


@dataclass(frozen=True)
class Wire:
    """A connection per request to an emulator."""

    account: LocalAccount

    def send(
        self,
        service: str,
        method: str,
        path: str,
        body: bytes,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """The answer to a request signed for `service`."""
        signed = self.account.signed(method, path, service, body)
        return Answer(*send(self.account, method, path, {**signed, **(headers or {})}, body))

    def sagemaker(self, operation: str, request: Any) -> Answer:
        """The answer to an operation of the control plane."""
        headers = {
            "X-Amz-Target": f"SageMaker.{operation}",
            "Content-Type": "application/x-amz-json-1.1",
        }
        return self.send("sagemaker", "POST", "/", json.dumps(request).encode(), headers)


def require_refusal_or_success(answer: Answer, of: str) -> None:
    """The user's mistake is an error of the user's (4xx) with a code and a message, never a 500 and
    never a traceback.
    """
    assert answer.status < 500, f"{of}: {answer.status} {answer.text[:2000]}"
    assert not any(word in answer.text for word in _FORBIDDEN), f"{of}: {answer.text[:2000]}"


@pytest.fixture(scope="module")
def wire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    """The emulator's port."""
    with in_process(tmp_path_factory.mktemp("wire"), ACCOUNT_ID) as emulator:
        yield Wire(LocalAccount.of(emulator))
