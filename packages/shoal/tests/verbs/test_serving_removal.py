"""The deletion of a serving stack, wherever it is interrupted, during any operation."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shoal.aws.events import Event, Note
from shoal.aws.stacks import status_of_stack
from shoal.aws.target import Target
from shoal.errors import ProtectedError
from shoal.settings.names import Names
from shoal.settings.sections.serving import Serving
from shoal.settings.settings import Environment
from shoal.verbs.destroy.serving_removal import ServingRemoval
from shoal.verbs.destroy.teardown import Teardown
from tests.settings.releases import RELEASE
from tests.verbs.conftest import ACCOUNT, PARAMETER
from tests.verbs.slow_stack import slow
from tests.verbs.test_stacks import Cdk


class Place:
    """A protected environment with a protected serving stack, or another that is not."""

    def __init__(
        self,
        target: Target,
        resource: dict[str, Any] = PARAMETER,
        part: str = "serving",
        **sections: object,
    ) -> None:
        protected = Environment(
            name="prod", workload=f"r{time.monotonic_ns() % 10**9}", account=ACCOUNT, protect=True
        )
        self.names, self.target = Names(protected.model_copy(update=sections)), target
        self.notes: list[str] = []
        self.stack, self._cloudformation = self.names.stack(part), target.client("cloudformation")
        self._cloudformation.create_stack(
            StackName=self.stack,
            TemplateBody=json.dumps({"Resources": {"One": resource}}),
            EnableTerminationProtection=part == "serving",
        )

    def removal(self, then: Callable[[str], None] = lambda _: None) -> ServingRemoval:
        def report(event: Event) -> None:
            if isinstance(event, Note):
                self.notes.append(event.text)
                then(event.text)

        return ServingRemoval(self.target, self.names, report, poll_s=0.05)

    @property
    def status(self) -> str | None:
        return status_of_stack(self.target, self.stack)

    def settle(self) -> None:
        while str(self.status).endswith("IN_PROGRESS"):
            time.sleep(0.05)


def test_it_is_refused_while_a_protected_file_pins_a_release(target: Target) -> None:
    place = Place(target, release=RELEASE, serving=Serving())
    advice = "take the release out with `git revert` of its promotion"
    with pytest.raises(ProtectedError, match=f"environment prod is protected .* {advice}"):
        place.removal().remove()
    place.settle()
    assert (place.status, place.notes) == ("CREATE_COMPLETE", [])


def test_a_stack_that_failed_may_go_to_be_made_again(target: Target) -> None:
    broken = PARAMETER | {"Properties": {"Type": "of no known type", "Value": "x"}}
    place = Place(target, broken, release=RELEASE, serving=Serving())
    place.settle()
    assert place.status == "ROLLBACK_COMPLETE"
    assert place.removal().remove() == ()
    assert place.status is None


@pytest.mark.parametrize("left_out", ["release", "serving"])
def test_a_stack_that_is_not_in_the_file_is_deleted(target: Target, left_out: str) -> None:
    sections: dict[str, object] = {"release": RELEASE, "serving": Serving(), left_out: None}
    place = Place(target, **sections)  # type: ignore[arg-type]
    place.settle()
    assert place.removal().remove() == ()
    assert place.status is None
    assert place.notes == [
        f"taking off the termination protection of stack {place.stack}",
        f"deleting stack {place.stack}",
    ]
    assert place.removal().remove() is None


@pytest.mark.parametrize("at", ["taking off", "deleting"])
def test_it_goes_on_where_it_was_interrupted(target: Target, at: str) -> None:
    place = Place(target)
    place.settle()

    def interrupt(text: str) -> None:
        if text.startswith(at):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        place.removal(interrupt).remove()
    assert place.status == "CREATE_COMPLETE"
    assert place.removal().remove() == ()
    assert place.status is None


def test_an_operation_is_waited_for(target: Target, tmp_path: Path) -> None:
    until = tmp_path / "until"
    place = Place(target, slow(target, until), part="pipeline", protect=False)
    report = place.removal(lambda _: until.touch()).report
    destroyed = Teardown(target, place.names, report, poll_s=0.05).destroy(Cdk())
    assert (place.status, destroyed.left) == (None, ())
    assert place.notes == [
        f"waiting for stack {place.stack}, which is CREATE_IN_PROGRESS",
        f"deleting stack {place.stack}",
    ]
