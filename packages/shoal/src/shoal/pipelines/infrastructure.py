"""What the stacks create and a pipeline refers to."""

from __future__ import annotations

from dataclasses import dataclass

from shoal.settings.names import Names
from shoal.settings.sections.channels import InputMode
from shoal.settings.sections.file_system import DATASETS_PATH
from shoal.settings.settings import Environment


@dataclass(frozen=True)
class MountedFileSystem:
    """The FSx for Lustre file system that training reads; CDK tokens are fine."""

    file_system_id: str
    mount_name: str
    """The first part of every path on it (`LustreMountName` of the file system)."""

    def directory(self, dataset: str, channel: str) -> str:
        """Return the directory that shows `datasets/<dataset>/<channel>/` of the data bucket."""
        return f"/{self.mount_name}{DATASETS_PATH}/{dataset}/{channel}"


@dataclass(frozen=True)
class Infrastructure:
    """What the stacks created and the definition refers to.

    CDK tokens are fine; list tokens are not (one string per item).
    """

    code_uri: str
    kms_key_arn: str
    training_role_arn: str
    evaluation_role_arn: str
    endpoint_role_arn: str
    """Empty where there is no endpoint, as are the two functions of one."""
    training_subnet_ids: tuple[str, ...]
    training_security_group_ids: tuple[str, ...]
    hosting_subnet_ids: tuple[str, ...]
    hosting_security_group_ids: tuple[str, ...]
    seal_function_arn: str
    smoke_test_function_arn: str
    teardown_function_arn: str
    compare_function_arn: str | None = None
    """Only where a gate is `not_worse_than: approved`."""
    training_image_uri: str | None = None
    """The image that was built for training; only with `training.build_image`."""
    endpoint_image_uri: str | None = None
    """The image that was built to serve; only with `endpoint.build_image`."""
    file_system: MountedFileSystem | None = None
    """Only where `data.input_mode` is FSx."""
    is_watched: bool = False
    """Whether the code archive has the watch, which then starts the script."""
    mlflow_app_arn: str | None = None
    """The MLflow App that was made; only with `mlflow.create`."""


def placeholder_infrastructure(environment: Environment) -> Infrastructure:
    """Return names of the right shape for everything that the stacks create.

    With them a definition can be checked before there are stacks.
    """
    names, serves = Names(environment), environment.endpoint is not None
    built = {
        use: f"{names.repository_uri(recipe)}@sha256:{'0' * 64}"
        for use, recipe in environment.built_images.items()
    }
    app = names.arn("sagemaker", "mlflow-app/app-000000000000")
    mounted = MountedFileSystem(file_system_id="fs-00000000000000000", mount_name="00000000")
    return Infrastructure(
        code_uri=f"s3://{names.bucket('data')}/code.tar.gz",
        kms_key_arn=names.arn("kms", "key/00000000-0000-0000-0000-000000000000"),
        training_role_arn=names.role_arn("training"),
        evaluation_role_arn=names.role_arn("evaluation"),
        endpoint_role_arn=names.role_arn("endpoint") if serves else "",
        training_subnet_ids=("subnet-00000000000000000",),
        training_security_group_ids=("sg-00000000000000000",),
        hosting_subnet_ids=tuple(
            f"subnet-{index:017x}" for index, _ in enumerate(environment.network.hosting_az_ids)
        ),
        hosting_security_group_ids=("sg-00000000000000000",),
        seal_function_arn=names.function_arn("seal"),
        smoke_test_function_arn=names.function_arn("smoke-test") if serves else "",
        teardown_function_arn=names.function_arn("teardown") if serves else "",
        compare_function_arn=(
            names.function_arn("compare") if environment.compared_metrics else None
        ),
        training_image_uri=built.get("training"),
        endpoint_image_uri=built.get("endpoint"),
        file_system=mounted if environment.data.input_mode is InputMode.FSX else None,
        mlflow_app_arn=app if environment.mlflow and environment.mlflow.create else None,
    )
