"""An account in which one execution has made everything, and the teardown function in it."""

import json
from dataclasses import dataclass, field
from typing import Any

from tests.functions.fake_sagemaker import ARN, FakeSageMaker
from tests.functions.invocation import Outcome, invoke

EXECUTION_ID = "abcdefghijkl"
EXECUTION = f"{ARN}pipeline/shoal-mnist-dev/execution/{EXECUTION_ID}"
ENDPOINT = f"shoal-mnist-dev-{EXECUTION_ID}"
CONFIG = "shoal-mnist-dev-x7k2m9"
MODEL = f"pipelines-{EXECUTION_ID}-CreateModel-h3Xq8W"
NAMELESS = "shoal-mnist-dev-x9"
TAGS = {"shoal:pipeline": "shoal-mnist-dev", "shoal:execution": EXECUTION_ID}
TARGET = f"endpoint/{ENDPOINT}/variant/AllTraffic"
DELETED = [f"endpoint/{ENDPOINT}", f"endpoint-config/{CONFIG}", f"model/{MODEL}"]
STEPS: list[dict[str, Any]] = [
    {"StepName": name, "Metadata": {kind: {"Arn": f"{ARN}{resource}"}}}
    for name, kind, resource in (
        ("Train", "TrainingJob", "training-job/x"),
        ("CreateModel", "Model", f"model/{MODEL.lower()}"),
        ("CreateEndpointConfig", "EndpointConfig", f"endpoint-config/{CONFIG}"),
        ("CreateEndpoint", "Endpoint", f"endpoint/{ENDPOINT}"),
    )
]
"""What the execution's steps report: ARNs are in lower case."""
NEXT = f"{ENDPOINT}-next"


@dataclass
class Account:
    """A SageMaker, and the teardown function that talks to it."""

    sagemaker: FakeSageMaker
    url: str
    more: dict[str, str] = field(default_factory=dict)
    """Further variables of the function."""

    def step(self, remaining_ms: int = 60_000, execution: str = EXECUTION) -> Outcome:
        return self._invoke({"pipeline_execution_arn": execution}, remaining_ms)

    def queue(self, remaining_ms: int = 60_000, received: int = 1) -> Any:
        outcome = self.deliver(remaining_ms, received)
        assert not outcome.error, outcome.error
        return outcome.result

    def deliver(self, remaining_ms: int = 60_000, received: int = 1) -> Outcome:
        detail = {"pipelineExecutionArn": EXECUTION, "currentPipelineExecutionStatus": "Stopped"}
        record = {
            "messageId": "message-1",
            "receiptHandle": "receipt-1",
            "attributes": {"ApproximateReceiveCount": str(received)},
            "eventSource": "aws:sqs",
            "eventSourceARN": "arn:aws:sqs:us-east-1:111122223333:teardown",
            "body": json.dumps({"source": "aws.sagemaker", "detail": detail}),
        }
        return self._invoke({"Records": [record]}, remaining_ms)

    def sweep(self, event: dict[str, Any] | None = None) -> Outcome:
        return self._invoke(event or {}, 60_000, module="sweep")

    def pauses(self) -> list[int]:
        """Return for how many seconds messages were hidden."""
        return [
            request["VisibilityTimeout"]
            for operation, request in self.sagemaker.calls
            if operation == "ChangeMessageVisibility"
        ]

    def _invoke(
        self, event: dict[str, Any], remaining_ms: int, module: str = "teardown"
    ) -> Outcome:
        environment = {
            "PIPELINE_NAME": "shoal-mnist-dev",
            "PIPELINE_ARN": f"{ARN}pipeline/shoal-mnist-dev",
            "TTL_MINUTES": "60",
            "RETRY_AFTER_S": "30",
            "LOG_RETENTION_DAYS": "30",
            **self.more,
        }
        return invoke(
            "teardown",
            event,
            endpoint_url=self.url,
            remaining_ms=remaining_ms,
            environment=environment,
            module=module,
        )


def whole() -> FakeSageMaker:
    return FakeSageMaker(
        endpoints={ENDPOINT: "InService"},
        configs={CONFIG: MODEL},
        models={MODEL},
        uses={ENDPOINT: CONFIG},
        steps=[*STEPS],
    )
