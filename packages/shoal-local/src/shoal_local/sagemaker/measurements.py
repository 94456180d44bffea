"""What SageMaker publishes to CloudWatch about pipelines, training jobs and endpoints.

Names, units and dimensions: SageMaker developer guide, "Amazon SageMaker AI metrics in Amazon
CloudWatch", and "Define metrics".
"""

from collections.abc import Iterator

from shoal_local.context import Measurement

PIPELINES = "AWS/Sagemaker/ModelBuildingPipeline"
TRAINING = "/aws/sagemaker/TrainingJobs"
INVOCATIONS = "AWS/SageMaker"
# CompletedWithFailures is not in the guide's table; it is counted as a failure.
_OUTCOMES = {
    "Failed": "Failed",
    "CompletedWithFailures": "Failed",
    "Succeeded": "Succeeded",
    "Stopped": "Stopped",
}


def of_status(
    what: str, status: str, began_at: float, ended_at: float, pipeline_arn: str, **more: str
) -> Iterator[Measurement]:
    """Measure the status of an execution or a step: a start, or an end with its duration."""
    where = {"PipelineName": pipeline_arn.rpartition("/")[2], **more}
    if status == "Executing":
        yield Measurement(PIPELINES, f"{what}Started", 1, "Count", where)
    if status in _OUTCOMES:
        yield Measurement(PIPELINES, f"{what}{_OUTCOMES[status]}", 1, "Count", where)
        lasted_ms = (ended_at - began_at) * 1000
        yield Measurement(PIPELINES, f"{what}Duration", lasted_ms, "Milliseconds", where)


def of_invocation(
    endpoint: str, config: str, variant: str, status: int, seconds: float
) -> Iterator[Measurement]:
    """Measure one call of InvokeEndpoint.

    `status` is the container's HTTP status (500 if it did not answer), `seconds` its time. Every
    value is published twice: for the variant, whatever fleet answered, and for the fleet of the
    endpoint configuration. A deployment's alarms may look at the new fleet alone (guide,
    "Auto-Rollback Configuration and Monitoring").
    """
    values = (
        ("Invocations", 1.0, "Count"),
        ("Invocation4XXErrors", float(400 <= status < 500), "None"),
        ("Invocation5XXErrors", float(status >= 500), "None"),
        ("InvocationModelErrors", float(not 200 <= status < 300), "None"),
        ("ModelLatency", seconds * 1e6, "Microseconds"),
    )
    of_variant = {"EndpointName": endpoint, "VariantName": variant}
    for where in (of_variant, {**of_variant, "EndpointConfigName": config}):
        for name, value, unit in values:
            yield Measurement(INVOCATIONS, name, value, unit, where)
