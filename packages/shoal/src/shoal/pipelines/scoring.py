"""The pipeline that scores: it finds an approved model, transforms with it, and removes it.

    Find -> CreateModel -> Score -> Teardown

Results lie in `transform/<execution id>/version-<version>/` of the artifact bucket.
"""

from typing import Any

from shoal.pipelines import step_names
from shoal.pipelines.expressions import EXECUTION_ARN, Join, Parameter, Property
from shoal.pipelines.graph import Pipeline
from shoal.pipelines.requests import TRANSFORM_FOLDER, artifacts
from shoal.pipelines.steps import CREATE_CALL, JOB, Lambda, Model, Transform
from shoal.pipelines.training_request import step_tags
from shoal.settings.names import Names
from shoal.settings.sections import scoring

FIND, SCORE = "Find", "Score"
_ARN, _VERSION = (
    Property(FIND, f"OutputParameters['{output}']") for output in ("model_package_arn", "version")
)


def scoring_pipeline(
    names: Names, settings: scoring.Scoring, *, key_arn: str, vpc: dict[str, list[str]]
) -> Pipeline:
    """Return the pipeline; `names` are those of scoring, `vpc` is a VpcConfig."""
    rows = f"{names.dataset_uri}/{scoring.FOLDER}/"
    data = Parameter(scoring.DATA_PARAMETER, "String", rows)
    version = str(settings.version or scoring.NEWEST)
    wanted = Parameter(scoring.VERSION_PARAMETER, "String", version)
    tagged = {"Tags": step_tags(names)}
    model = {
        "ExecutionRoleArn": names.role_arn("model"),
        "PrimaryContainer": {"ModelPackageName": _ARN},
        "VpcConfig": vpc,
    }
    find = Lambda(
        FIND,
        {"model_package_group_name": names.model_package_group, "version": wanted},
        function_arn=names.function_arn("find"),
        outputs={"version": "String", "model_package_arn": "String"},
    )
    create_model = Model(step_names.CREATE_MODEL, model | tagged, retries=(CREATE_CALL,))
    request = _transform(names, settings, data, key_arn) | tagged
    score = Transform(SCORE, request, retries=(CREATE_CALL, JOB))
    teardown = Lambda(
        step_names.TEARDOWN,
        {"pipeline_execution_arn": EXECUTION_ARN},
        depends_on=(SCORE,),
        function_arn=names.function_arn("teardown"),
        outputs={"status": "String", "deleted": "String"},
    )
    return Pipeline((data, wanted), (find, create_model, score, teardown))


def _transform(
    names: Names, settings: scoring.Scoring, data: Parameter, key_arn: str
) -> dict[str, Any]:
    """Return CreateTransformJob's request, without tags."""
    split = settings.split.title()
    output = Join("-", (artifacts(names, TRANSFORM_FOLDER, "version"), _VERSION))
    joins = {"DataProcessing": {"JoinSource": "Input"}} if settings.join == "input" else {}
    return joins | {
        "ModelName": Property(step_names.CREATE_MODEL, "ModelName"),
        "TransformInput": {
            "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": data}},
            "ContentType": settings.content_type,
            "SplitType": split,
        },
        "TransformOutput": {
            "S3OutputPath": output,
            "Accept": settings.accept,
            "AssembleWith": split,
            "KmsKeyId": key_arn,
        },
        "TransformResources": {
            "InstanceType": settings.instance_type,
            "InstanceCount": settings.instance_count,
        },
    }
