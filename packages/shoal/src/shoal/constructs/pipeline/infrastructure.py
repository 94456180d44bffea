"""What a pipeline's definition refers to, from the constructs that made it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aws_cdk import aws_kms as kms

from shoal.constructs.pipeline.code_archive import CodeArchive
from shoal.constructs.python_function import PythonFunction
from shoal.constructs.roles.guard_rails import Place
from shoal.pipelines.infrastructure import Infrastructure, MountedFileSystem
from shoal.settings.names import Names


@dataclass(frozen=True)
class StepFunctions:
    """The functions that the pipeline's steps call."""

    seal: PythonFunction
    smoke_test: PythonFunction | None = None
    teardown: PythonFunction | None = None
    """Only where there is an endpoint, as is `smoke_test`."""
    compare: PythonFunction | None = None
    """Only where a gate is `not_worse_than: approved`."""

    @property
    def all(self) -> list[PythonFunction]:
        several = (self.seal, self.smoke_test, self.teardown, self.compare)
        return [function for function in several if function]


def infrastructure(
    names: Names,
    *,
    code: CodeArchive,
    key: kms.IKey,
    training: Place,
    hosting: Place,
    functions: StepFunctions,
    images: Mapping[str, str],
    file_system: MountedFileSystem | None,
    mlflow_app_arn: str | None,
) -> Infrastructure:
    """Return the ids and ARNs as the definition takes them; most are CDK tokens.

    `images` are the URIs of what was built, by use.
    """
    return Infrastructure(
        code_uri=code.uri,
        is_watched=code.is_watched,
        kms_key_arn=key.key_arn,
        training_subnet_ids=training.subnet_ids,
        training_security_group_ids=training.security_group_ids,
        hosting_subnet_ids=hosting.subnet_ids,
        hosting_security_group_ids=hosting.security_group_ids,
        training_role_arn=names.role_arn("training"),
        evaluation_role_arn=names.role_arn("evaluation"),
        endpoint_role_arn=names.role_arn("endpoint") if names.environment.endpoint else "",
        seal_function_arn=_arn(functions.seal) or "",
        smoke_test_function_arn=_arn(functions.smoke_test) or "",
        teardown_function_arn=_arn(functions.teardown) or "",
        compare_function_arn=_arn(functions.compare),
        training_image_uri=images.get("training"),
        endpoint_image_uri=images.get("endpoint"),
        file_system=file_system,
        mlflow_app_arn=mlflow_app_arn,
    )


def _arn(function: PythonFunction | None) -> str | None:
    return function.function.function_arn if function else None
