"""The pipeline of an environment, from top to bottom.

    Train -> Evaluate -> Gate -+-> Seal -> Register -> CreateModel ->
                               |   CreateEndpointConfig -> CreateEndpoint -> SmokeTest ->
                               |   Teardown
                               +-> GateFailed (the execution fails)

Compare stands before Gate where a gate is `not_worse_than: approved`. With `endpoint: none` it ends
at Register.

`pipelines.requests` has what each step asks of SageMaker. What may change per execution is a
parameter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from config.channels import MANIFEST_PARAMETER, path_parameter, uri_parameter
from config.gates import Bound, bounds
from config.hyperparameters import (
    HyperparameterValue,
    as_text,
    parameter_name,
    parameter_type,
)
from config.names import Names
from config.settings import Endpoint as EndpointSettings
from config.settings import Environment, TeardownStep
from pipelines.expressions import (
    EXECUTION_ARN,
    EXECUTION_ID,
    Join,
    Parameter,
    Property,
    PropertyFile,
)
from pipelines.graph import Pipeline
from pipelines.launch import Launch
from pipelines.requests import (
    COMPARE,
    EVALUATION_FILE,
    EVALUATION_OUTPUT,
    Infrastructure,
    MountedFileSystem,
    Parameters,
    Requests,
    compared,
    limit_of,
)
from pipelines.retries import CREATE_CALL, JOB
from pipelines.steps import (
    After,
    Condition,
    Endpoint,
    EndpointConfig,
    Fail,
    GreaterThanOrEqualTo,
    Lambda,
    LessThanOrEqualTo,
    Model,
    Processing,
    RegisterModel,
    ReportFile,
    Step,
    Training,
    Trigger,
)

__all__ = ["Infrastructure", "MountedFileSystem", "build", "standard"]
# what the registry keeps of an execution that a person or a schedule started: it takes no empty
# text
_NO_MANIFEST = "none"


def build(
    environment: Environment, infrastructure: Infrastructure, launch: Launch
) -> dict[str, Any]:
    """Return the definition. Raises GraphError when the steps do not fit together."""
    return standard(environment, infrastructure, launch).to_dict()


def standard(environment: Environment, infrastructure: Infrastructure, launch: Launch) -> Pipeline:
    """Return Shoal's own pipeline as a value, of which `Pipeline`'s methods make another."""
    parameters = declare(environment, infrastructure, launch)
    requests = Requests(environment, infrastructure, launch, parameters)

    train = Training("Train", requests.training(), retries=(CREATE_CALL, JOB))

    report = ReportFile("EvaluationReport", output=EVALUATION_OUTPUT, path=EVALUATION_FILE)
    evaluate = Processing(
        "Evaluate", requests.evaluation(), report_files=(report,), retries=(CREATE_CALL, JOB)
    )

    archive = ("archive_sha256", "archive_composite_sha256", "content_sha256")
    seal = Lambda(
        "Seal",
        {
            "execution_id": EXECUTION_ID,
            "model_data_url": requests.model_data,
            **{name: PropertyFile(evaluate.name, report.name, f"model.{name}") for name in archive},
        },
        function_arn=infrastructure.seal_function_arn,
        outputs={
            "status": "String",
            "model_data_url": "String",
            "archive_sha256": "String",
            "content_sha256": "String",
        },
    )
    register = RegisterModel("Register", requests.registration(), retries=(CREATE_CALL,))
    hosting = _hosting(environment.endpoint, requests, train, register)

    measured = {
        bound: PropertyFile(evaluate.name, report.name, f"metrics.{bound.metric}.value")
        for bound in parameters.gates
    }
    gate = Condition(
        "Gate",
        conditions=tuple(
            _condition(bound, value, parameters.gates[bound]) for bound, value in measured.items()
        ),
        if_true=(seal, register, *hosting),
        if_false=(Fail("GateFailed", message=_failure(parameters, measured)),),
    )
    compare = _compare(environment, infrastructure, parameters, measured)
    return Pipeline(parameters.all(), (train, evaluate, *compare, gate))


def _condition(
    bound: Bound, value: PropertyFile, limit: Parameter
) -> GreaterThanOrEqualTo | LessThanOrEqualTo:
    if bound.kind == "not worse than approved":
        return GreaterThanOrEqualTo(compared(bound, "margin"), 0.0)
    return (GreaterThanOrEqualTo if bound.kind == "at least" else LessThanOrEqualTo)(value, limit)


def _compare(
    environment: Environment,
    infrastructure: Infrastructure,
    parameters: Parameters,
    measured: Mapping[Bound, PropertyFile],
) -> tuple[Lambda, ...]:
    """Return the step that reads the registry; none without a gate that needs it."""
    arguments: dict[str, Any] = {}
    outputs: dict[str, Literal["String", "Float"]] = {"status": "String", "version": "String"}
    better = environment.compared_metrics
    for bound, value in measured.items():
        if bound.kind == "not worse than approved":
            arguments[f"value_of_{bound.metric}"] = value
            arguments[f"direction_of_{bound.metric}"] = str(better[bound.metric])
            arguments[f"tolerance_of_{bound.metric}"] = parameters.gates[bound]
            outputs[f"margin_of_{bound.metric}"] = "Float"
            texts = ("value", "limit", "reason")
            outputs |= {f"{text}_of_{bound.metric}": "String" for text in texts}
    if not arguments:
        return ()
    group = {"model_package_group_name": Names(environment).model_package_group}
    step = Lambda(
        COMPARE,
        group | arguments,
        function_arn=str(infrastructure.compare_function_arn),
        outputs=outputs,
    )
    return (step,)


def _failure(parameters: Parameters, measured: Mapping[Bound, PropertyFile]) -> Join:
    """Return the sentence that has the value and the limit of every gate."""
    parts: list[Any] = ["The model does not pass its gates: "]
    for bound, value in measured.items():
        words, limit = limit_of(bound, parameters)
        parts += [f"{bound.metric} is ", value, f" and must be {words}", limit]
        if bound.kind == "not worse than approved":
            parts += [" (", compared(bound, "reason"), ")"]
        parts.append("; ")
    return Join("", tuple(parts[:-1]))


def _hosting(
    settings: EndpointSettings | None, requests: Requests, train: Training, register: RegisterModel
) -> tuple[Step, ...]:
    """Return the steps that serve the registered model for a while; none without an endpoint."""
    if settings is None:
        return ()
    create_model = Model(
        "CreateModel", requests.model(), depends_on=(register.name,), retries=(CREATE_CALL,)
    )
    create_endpoint_config = EndpointConfig(
        "CreateEndpointConfig", requests.endpoint_config(settings)
    )
    create_endpoint = Endpoint("CreateEndpoint", requests.endpoint())
    smoke_test = Lambda(
        "SmokeTest",
        {
            "endpoint_name": Property(create_endpoint.name, "EndpointName"),
            "training_job_name": Property(train.name, "TrainingJobName"),
            "content_sha256": requests.sealed("content_sha256"),
            "max_latency_ms": settings.max_latency_ms,
            **({"sealed_archive": requests.sealed("model_data_url")} if settings.image_uri else {}),
        },
        function_arn=requests.infrastructure.smoke_test_function_arn,
        outputs={
            "status": "String",
            "answers": "String",
            "slowest_ms": "Float",
            "content_sha256": "String",
        },
    )
    teardown = _teardown(settings, requests.infrastructure, smoke_test)
    return (create_model, create_endpoint_config, create_endpoint, smoke_test, *teardown)


def _teardown(
    settings: EndpointSettings, infrastructure: Infrastructure, smoke_test: Lambda
) -> tuple[Lambda, ...]:
    """Return the step, which reads no result of a step that may have failed."""
    if settings.teardown_step is TeardownStep.NEVER:
        return ()
    trigger = Trigger.ANY if settings.teardown_step is TeardownStep.ALWAYS else Trigger.COMPLETED
    step = Lambda(
        "Teardown",
        {"pipeline_execution_arn": EXECUTION_ARN},
        depends_on=(After(step=smoke_test.name, trigger=trigger),),
        function_arn=infrastructure.teardown_function_arn,
        outputs={"status": "String", "deleted": "String"},
    )
    return (step,)


def declare(environment: Environment, infrastructure: Infrastructure, launch: Launch) -> Parameters:
    """Return the parameters, with the environment's values as defaults."""
    training, mounted = environment.training, infrastructure.file_system
    uris = {name: _uri(environment, name) for name in environment.data.channels}
    directories = (
        {name: _directory(environment, mounted, name) for name in environment.data.in_dataset}
        if mounted
        else {}
    )
    return Parameters(
        channels=uris | directories,
        evaluation_data=uris[environment.evaluation.channel],
        code_uri=Parameter("CodeUri", "String", infrastructure.code_uri),
        instance_type=Parameter(
            "InstanceType", "String", training.instance_type, training.other_instance_types
        ),
        instance_count=Parameter("InstanceCount", "Integer", training.instance_count),
        gates={
            bound: Parameter(bound.parameter, "Float", bound.value)
            for bound in bounds(environment.evaluation.gates)
        },
        hyperparameters={
            name: _hyperparameter(name, value)
            for name, value in launch.script_arguments(training.hyperparameters).items()
        },
        data_manifest=Parameter(MANIFEST_PARAMETER, "String", _NO_MANIFEST)
        if environment.data.on_manifest
        else None,
    )


def _hyperparameter(name: str, value: HyperparameterValue) -> Parameter | str:
    """Return what an execution may change: a number, or true and false.

    Text stays as the environment has it. Versions of AWS's toolkit give the script's command line
    to a shell, so anybody who may start the pipeline could run commands with the training role.
    """
    if isinstance(value, bool):
        return Parameter(parameter_name(name), "String", as_text(value), (as_text(not value),))
    if isinstance(value, str):
        return value
    return Parameter(parameter_name(name), parameter_type(value), value)


def _uri(environment: Environment, channel: str) -> Parameter:
    uri = environment.data.channels[channel].uri
    below = f"{Names(environment).dataset_uri}/{channel}/"
    return Parameter(uri_parameter(channel), "String", uri or below)


def _directory(environment: Environment, mounted: MountedFileSystem, channel: str) -> Parameter:
    return Parameter(
        path_parameter(channel),
        "String",
        mounted.directory(environment.data.dataset, channel),
    )
