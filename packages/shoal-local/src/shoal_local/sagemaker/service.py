"""The SageMaker service: requests of JSON 1.1 and of the runtime become calls of operations.

Every request is checked against botocore's input shape, every response against its output shape.
"""

import json
import re
import time
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

from werkzeug.datastructures import EnvironHeaders

from shoal_local.context import ServiceContext
from shoal_local.control.authorization.authorizer import Authorizer
from shoal_local.control.http.guards import unknown
from shoal_local.control.http.protocol import SERIALIZATION, Answer, buffer_body, parsed_json
from shoal_local.control.service_router import Exchange
from shoal_local.errors import AwsError
from shoal_local.sagemaker.core import Core, Settings, calling
from shoal_local.sagemaker.errors import check_fields, not_emulated
from shoal_local.sagemaker.hosting.endpoints import Endpoints
from shoal_local.sagemaker.hosting.models import EndpointConfigs, Models
from shoal_local.sagemaker.jobs.processing_jobs import ProcessingJobs
from shoal_local.sagemaker.jobs.training.capacity import Offers
from shoal_local.sagemaker.jobs.training.training import TrainingJobs
from shoal_local.sagemaker.jobs.transform_jobs import TransformJobs
from shoal_local.sagemaker.jobs.tuning_jobs import TuningJobs
from shoal_local.sagemaker.pipelines.executions import Executions, Pipelines
from shoal_local.sagemaker.registry import ModelPackageGroups, ModelPackages
from shoal_local.sagemaker.resources import Tags
from shoal_local.sagemaker.shapes import Document, check_request, response
from shoal_local.sagemaker.store import Store

Operation = Callable[[Document], Document]


class SageMakerService:
    """The service of one account and region; `close()` leaves no process."""

    def __init__(self, context: ServiceContext, settings: Settings | None = None) -> None:
        core = Core(context, Store(), settings or Settings())
        self._faults = context.faults
        training = TrainingJobs(core)
        tuning = TuningJobs(core, training)
        self._jobs = (tuning, training, ProcessingJobs(core), TransformJobs(core))
        self._endpoints, pipelines = Endpoints(core), Pipelines(core)
        self._executions = Executions(core, pipelines)
        offers = Offers(core.settings.capacity, core.settings.hosting_speed)
        groups, tags = ModelPackageGroups(core), Tags(core)
        packages = ModelPackages(core, groups)
        hosting = (Models(core), EndpointConfigs(core), self._endpoints)
        self._operations: dict[str, Operation] = {
            "DescribeTrainingPlan": offers.plan,
            "SearchTrainingPlanOfferings": offers.search,
            "ListTrainingJobsForHyperParameterTuningJob": tuning.training_jobs,
            "PutModelPackageGroupPolicy": groups.put_policy,
            "GetModelPackageGroupPolicy": groups.get_policy,
            "DeleteModelPackageGroupPolicy": groups.delete_policy,
            "SendPipelineExecutionStepSuccess": self._executions.callbacks.succeed,
            "SendPipelineExecutionStepFailure": self._executions.callbacks.fail,
            "DescribePipelineDefinitionForExecution": self._executions.definition,
            "ListPipelineExecutionSteps": self._executions.steps,
            "ListPipelineParametersForExecution": self._executions.parameters,
            "AddTags": tags.add,
            "ListTags": tags.list,
            "DeleteTags": tags.delete,
        }
        for each in (*self._jobs, *hosting, groups, packages, pipelines, self._executions):
            for verb in each.verbs:
                name = each.kind.noun + ("s" if verb == "list" else "")
                self._operations[verb.title() + name] = getattr(each, verb)

    @property
    def operations(self) -> Collection[str]:
        """Return the names of the operations that are emulated."""
        return self._operations.keys()

    def handle(self, operation: str, request: Document, caller_arn: str) -> Document:
        """Return the response to a request that fits its shape, with instants as epoch seconds.

        Raise AwsError for what AWS would refuse, and for what is not emulated.
        """
        if operation not in self._operations:
            raise not_emulated(f"the operation {operation} of SageMaker")
        check_fields(operation, request)
        with calling(caller_arn):
            return response(operation, self._answer(operation, request))

    def invoke(
        self, operation: str, endpoint: str, body: bytes, headers: Mapping[str, str]
    ) -> tuple[int, Mapping[str, str], Any]:
        """Return status, headers, and a body or events: the answer of the runtime API."""
        traffic = self._endpoints.traffic(endpoint)
        return traffic.answer(body, headers, is_streamed=operation != "InvokeEndpoint")

    def _answer(self, operation: str, request: Document) -> Document:
        """Return the operation's answer, after the fault that a test has ordered for it, if any."""
        rule = self._faults.hit("operation", operation, request)
        if rule is None:
            return self._operations[operation](request)
        if rule.do == "refuse":
            raise rule.refusal()
        time.sleep(rule.seconds)
        answer = self._operations[operation](request)
        if rule.do == "lose answer":
            raise AwsError("InternalFailure", "The answer was lost.", 500)
        return answer

    def close(self) -> None:
        """Stop everything, in the order in which things use each other."""
        self._executions.close()
        for each in self._jobs:
            each.close()
        self._endpoints.close()
        self._executions.join()


RUNTIME_OPERATIONS = {
    "invocations": "InvokeEndpoint",
    "invocations-response-stream": "InvokeEndpointWithResponseStream",
}
INVOCATION = re.compile(rf"^/endpoints/([^/]+)/({'|'.join(RUNTIME_OPERATIONS)})$")
TARGET_PREFIX = "SageMaker."


@dataclass(frozen=True)
class Gateway:
    """Turns HTTP requests into calls of the service of the account that a request is about."""

    service_of: Callable[[str], SageMakerService]
    authorizer: Authorizer

    def __call__(self, exchange: Exchange) -> Answer:
        environ, exchange.protocol = exchange.environ, "json"
        body = buffer_body(environ)
        invocation = INVOCATION.match(environ.get("PATH_INFO", ""))
        if invocation and environ["REQUEST_METHOD"] == "POST":
            exchange.call = replace(
                exchange.call,
                operation=RUNTIME_OPERATIONS[invocation[2]],
                parameters={"EndpointName": unquote(invocation[1])},
            )
            return self._invoke(exchange, body)
        target = environ.get("HTTP_X_AMZ_TARGET", "")
        if not target.startswith(TARGET_PREFIX):
            raise unknown(
                f"Shoal's emulator does not emulate {environ.get('PATH_INFO')} of SageMaker"
            )
        exchange.call = replace(exchange.call, operation=target.removeprefix(TARGET_PREFIX))
        return self._handle(exchange, body)

    def _handle(self, exchange: Exchange, body: bytes) -> Answer:
        parameters = parsed_json(body)
        if not isinstance(parameters, dict):
            raise AwsError(SERIALIZATION, "the request is not a JSON object")
        exchange.call = call = replace(exchange.call, parameters=parameters)
        # AWS looks at the shape of a request first, and asks IAM about what has one.
        check_request(call.operation, parameters)
        service = self._authorized(exchange)
        result = service.handle(call.operation, dict(call.parameters), call.caller_arn)
        headers = {
            "Content-Type": "application/x-amz-json-1.1",
            "x-amzn-RequestId": str(uuid.uuid4()),
        }
        return Answer(200, headers, json.dumps(result).encode())

    def _invoke(self, exchange: Exchange, body: bytes) -> Answer:
        service, call = self._authorized(exchange), exchange.call
        sent = {key.lower(): value for key, value in EnvironHeaders(exchange.environ)}
        name = call.parameters["EndpointName"]
        status, headers, answer = service.invoke(call.operation, name, body, sent)
        headers = {"x-amzn-RequestId": str(uuid.uuid4()), **headers}
        if isinstance(answer, bytes):
            return Answer(status, headers, answer)
        return Answer(status, headers, b"", parts=answer)

    def _authorized(self, exchange: Exchange) -> SageMakerService:
        """Return the service of the account that the request is about, if IAM allows it."""
        exchange.call = self.authorizer.with_questions(exchange.call)
        self.authorizer.check(exchange.call)
        exchange.call = self.authorizer.in_owner_account(exchange.call)
        return self.service_of(exchange.call.account)
