"""Services that throttle, fail, hang up or never answer, one call at a time and then many: nothing
is called done that is not, no invocation outlives its time, and the next tries finish.
"""

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from local_kit.tables import rows
from tests.functions.fake_sagemaker import FakeSageMaker
from tests.functions.invocation import Request, serving
from tests.functions.teardown_account import DELETED, ENDPOINT, TAGS, Account, whole

BACK = {"batchItemFailures": [{"itemIdentifier": "message-1"}]}
DONE: dict[str, list[str]] = {"batchItemFailures": []}
SECONDS = 55
"""Of an invocation; its calls begin in the first 35."""
ANSWERS = {
    "throttled": (400, b'{"__type": "ThrottlingException", "message": "Rate exceeded"}'),
    "refused": (400, b'{"__type": "AccessDeniedException", "message": "not authorized"}'),
    "failing": (500, b"no JSON"),
    "unavailable": (503, b""),
}
SEARCHES = "DescribePipelineExecution ListPipelineExecutionSteps ListEndpoints ListModels"
DELETIONS = "DescribeEndpoint DeleteEndpoint DescribeEndpointConfig DeleteEndpointConfig"
OPERATIONS = (*SEARCHES.split(), *DELETIONS.split(), "DescribeModel", "DeleteModel")


@dataclass
class Trouble:
    """A SageMaker of which the calls that `hits` names have trouble, until it is `over`."""

    hits: Callable[[str], bool]
    how: str
    fake: FakeSageMaker = field(default_factory=whole)
    over: threading.Event = field(default_factory=threading.Event)

    def answer(self, request: Request) -> tuple[int, bytes]:
        operation = request.headers["X-Amz-Target"].rpartition(".")[2]
        if self.over.is_set() or not self.hits(operation):
            return self.fake.answer(request)
        if self.how == "hanging":
            self.over.wait(60)
        if self.how not in ANSWERS:
            raise ConnectionResetError
        return ANSWERS[self.how]

    def left(self) -> list[str]:
        return [*self.fake.endpoints, *self.fake.configs, *self.fake.models]

    @contextmanager
    def account(self) -> Iterator[Account]:
        with serving(self.answer) as url:
            try:
                yield Account(self.fake, url)
            finally:
                self.over.set()


@pytest.mark.parametrize(
    ("operation", "how", "ends", "deletes"), rows(__file__, "cases.yaml", "troubles")
)
def test_a_service_in_trouble_keeps_no_endpoint_and_every_try_ends_in_its_time(
    operation: str, how: str, ends: str, deletes: bool
) -> None:
    """An error, which rings, sets the pause of the message, too."""
    result = {"back": BACK, "done": DONE, "error": None}[ends]
    queue = ("GetQueueUrl", "ChangeMessageVisibility")
    trouble = Trouble(lambda each: each not in queue and operation in ("", each), how)
    with trouble.account() as account:
        begun = time.monotonic()
        outcome = account.deliver(1000 * SECONDS)
        assert time.monotonic() - begun < SECONDS
        assert (outcome.result, bool(outcome.error)) == (result, result is None), outcome
        assert trouble.fake.deleted == (DELETED if deletes else [])
        assert account.pauses() == ([] if result == DONE else [30])
        trouble.over.set()
        assert (account.queue(), trouble.left()) == (DONE, [])


@pytest.mark.nightly
@pytest.mark.parametrize("how", ["throttled", "failing", "unavailable", "cut off"])
@pytest.mark.parametrize("share", [0.6, *OPERATIONS])
def test_neither_one_call_in_trouble_nor_most_of_them_are_taken_for_the_end(
    share: str | float, how: str
) -> None:
    dice = random.Random(how)
    results: list[object] = []
    trouble = Trouble(lambda each: dice.random() < 0.6 if share == 0.6 else each == share, how)
    with trouble.account() as account:
        while DONE not in results and len(results) < 12:
            results.append(account.deliver(1000 * SECONDS).result)
            assert results[-1] != DONE or not trouble.left()
            if share != 0.6:
                trouble.over.set()
    assert results[-1] == DONE


@pytest.mark.parametrize(("age_s", "looks"), [(2 * 3600, 20), (3 * 86_400, 0)])
def test_models_of_other_pipelines_keep_the_sweeper_from_no_endpoint(
    age_s: float, looks: int
) -> None:
    """An account has thousands that Model steps named, and each costs a call: they come last, and
    not for ever.
    """
    fake = FakeSageMaker(endpoints={ENDPOINT: "InService"}, tags={ENDPOINT: TAGS}, status="")
    fake.created_at = time.time() - age_s
    fake.models = {f"pipelines-{number:012}-CreateModel-x" for number in range(20)}
    with serving(fake.answer) as url:
        assert Account(fake, url).sweep().result["deleted"] == [f"endpoint/{ENDPOINT}"]
    operations = [operation for operation, _ in fake.calls]
    deletion = operations.index("DeleteEndpoint")
    assert operations[deletion:].count("DescribePipelineExecution") == looks
    assert operations[:deletion].count("DescribePipelineExecution") == 1
