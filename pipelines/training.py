"""The pipeline that trains, written out from top to bottom. Insert a step of your own here: steps
wait for what they read and for `depends_on`, not for the order of a tuple.

    Train -> Evaluate -> Gate -+-> Seal -> Register -> CreateModel ->
                               |   CreateEndpointConfig -> CreateEndpoint -> SmokeTest ->
                               |   Teardown
                               +-> GateFailed (the execution fails)

Compare stands before Gate where a gate is `not_worse_than: approved`. With `endpoint: none` the
pipeline ends at Register.

`shoal.pipelines.requests` has what each step asks of SageMaker, `shoal.pipelines.steps` the types
of steps. What may change per execution is a parameter (`shoal.pipelines.graph`). Every synth
and `shoal check` validates the result.
"""

from shoal.launch import Launch
from shoal.pipelines import step_names
from shoal.pipelines.expressions import EXECUTION_ARN, EXECUTION_ID, Property, PropertyFile
from shoal.pipelines.gating import compare_step, condition, failure_message, measured_values
from shoal.pipelines.graph import Infrastructure, Pipeline, declare
from shoal.pipelines.requests import EVALUATION_FILE, EVALUATION_OUTPUT, Requests
from shoal.pipelines.steps import (
    CREATE_CALL,
    After,
    Condition,
    Endpoint,
    EndpointConfig,
    Fail,
    Lambda,
    Model,
    Processing,
    RegisterModel,
    ReportFile,
    Step,
    Training,
    Trigger,
    of_training,
)
from shoal.settings.sections.serving import TeardownStep
from shoal.settings.settings import Environment


def training_pipeline(
    environment: Environment, infrastructure: Infrastructure, launch: Launch
) -> Pipeline:
    """Return the pipeline of one workload in one environment.

    `infrastructure` has what the stack made (roles, functions, subnets, the code archive);
    `launch` has the image and the toolkit's hyperparameters for the chosen strategy.
    """
    parameters = declare(environment, infrastructure, launch)
    requests = Requests(environment, infrastructure, launch, parameters)

    retries = of_training(environment.training.capacity.retry_for_s)
    train = Training(step_names.TRAIN, requests.training(), retries=retries)

    report = ReportFile("EvaluationReport", output=EVALUATION_OUTPUT, path=EVALUATION_FILE)
    evaluate = Processing(
        step_names.EVALUATE,
        requests.evaluation(),
        report_files=(report,),
        retries=of_training(environment.evaluation.capacity.retry_for_s),
    )

    # The model's identity is what evaluation computed from the archive that it measured.
    digests = ("archive_sha256", "archive_composite_sha256", "content_sha256")
    seal = Lambda(
        step_names.SEAL,
        {
            "execution_id": EXECUTION_ID,
            "model_data_url": requests.model_data,
            **{name: PropertyFile(evaluate.name, report.name, f"model.{name}") for name in digests},
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

    measured = measured_values(parameters, evaluate, report)
    gate = Condition(
        step_names.GATE,
        conditions=tuple(
            condition(bound, value, parameters.gates[bound]) for bound, value in measured.items()
        ),
        if_true=(seal, register, *hosting(requests, train, register)),
        if_false=(Fail("GateFailed", message=failure_message(parameters, measured)),),
    )
    compare = compare_step(environment, infrastructure, parameters, measured)
    return Pipeline(parameters.all(), (train, evaluate, *compare, gate))


def hosting(requests: Requests, train: Training, register: RegisterModel) -> tuple[Step, ...]:
    """Return the steps that serve the registered model for a while; none without an endpoint."""
    settings = requests.environment.endpoint
    if settings is None:
        return ()
    create_model = Model(
        step_names.CREATE_MODEL,
        requests.model(),
        depends_on=(register.name,),
        retries=(CREATE_CALL,),
    )
    create_endpoint_config = EndpointConfig(
        step_names.CREATE_ENDPOINT_CONFIG, requests.endpoint_config(settings)
    )
    create_endpoint = Endpoint("CreateEndpoint", requests.endpoint())
    smoke_test = Lambda(
        step_names.SMOKE_TEST,
        {
            "endpoint_name": Property(create_endpoint.name, "EndpointName"),
            "training_job_name": Property(train.name, "TrainingJobName"),
            "content_sha256": requests.sealed("content_sha256"),
            "max_latency_ms": settings.max_latency_ms,
            # A serving image of the user's own cannot say what it loaded: the function reads it.
            **(
                {"sealed_archive": requests.sealed("model_data_url")}
                if settings.has_own_server
                else {}
            ),
        },
        function_arn=requests.infrastructure.smoke_test_function_arn,
        outputs={
            "status": "String",
            "answers": "String",
            "slowest_ms": "Float",
            "content_sha256": "String",
        },
    )
    return (
        create_model,
        create_endpoint_config,
        create_endpoint,
        smoke_test,
        *teardown(settings.teardown_step, requests.infrastructure, smoke_test),
    )


def teardown(
    when: TeardownStep, infrastructure: Infrastructure, smoke_test: Lambda
) -> tuple[Lambda, ...]:
    """Return the step that deletes the endpoint; it reads no result of a step that may have failed.

    Two more layers do not depend on it: a rule on the execution's end, and the hourly sweeper.
    """
    if when is TeardownStep.NEVER:
        return ()
    trigger = Trigger.ANY if when is TeardownStep.ALWAYS else Trigger.COMPLETED
    step = Lambda(
        step_names.TEARDOWN,
        {"pipeline_execution_arn": EXECUTION_ARN},
        depends_on=(After(step=smoke_test.name, trigger=trigger),),
        function_arn=infrastructure.teardown_function_arn,
        outputs={"status": "String", "deleted": "String"},
    )
    return (step,)
