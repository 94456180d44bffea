"""Check everything that would fail later: launch contract, instance types, requests.

`shoal check` and `app.py` call it, after `shoal.settings.loading.loader` has found the file's
types and rules right.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shoal.launch import Launch, fabric, image_uri, launch_of, recipes, source_code, tables
from shoal.launch.errors import DefinitionError, Risk
from shoal.pipelines import shapes
from shoal.pipelines.checks import (
    capacity,
    needs,
    other_types,
    schedules,
    script_options,
    scripts,
    serving,
)
from shoal.pipelines.own_pipeline import definition_of
from shoal.pipelines.requests import Infrastructure, MountedFileSystem
from shoal.settings.loading import pins
from shoal.settings.loading.loader import environment_file, places
from shoal.settings.loading.rules import is_placeholder_account
from shoal.settings.names import Names
from shoal.settings.parsing.errors import ConfigError, Problem
from shoal.settings.sections.channels import InputMode
from shoal.settings.settings import Environment, Target

NAT_NOTICE = (
    "network.nat: what runs in the VPC can open HTTPS connections to any address; see"
    " docs/security.md"
)
_INSTANCE_TYPE_SHAPES = {
    "training": "TrainingInstanceType",
    "evaluation": "ProcessingInstanceType",
    "endpoint": "ProductionVariantInstanceType",
    "serving": "ProductionVariantInstanceType",
}


@dataclass(frozen=True)
class CheckResult:
    """What is known of an environment in which everything can run."""

    launch: Launch
    definition: dict[str, Any]
    """The pipeline, with placeholders for what the stacks create."""
    notices: tuple[str, ...]
    """What the user should know, one line each."""


def check(
    environment: Environment, root: Path | None = None, strategy: str | None = None
) -> CheckResult:
    """Check that everything in `environment` can run. Raises ConfigError.

    With `root`, the repository's folder, the scripts that the environment names must exist, a
    pinned release must be of the environment that trains, and the lines of the error name the line
    of the file, or of the overlay `strategy`.
    """
    file = environment_file(environment.name)
    where = places(environment.name, root, strategy, environment.workload) if root else {}
    unknown = list(_unknown_instance_types(environment))
    problems = [
        *unknown,
        *_other_architectures(environment, {problem.key for problem in unknown}),
        *_unknown_inference_amis(environment),
        *capacity.problems(environment),
        *pins.problems(environment, root),
    ]
    problems += [*_fabric(environment, root), *_unpinned_image(environment)]
    problems += _missing_scripts(environment, root, environment.training.entry_point)
    if problems:
        raise ConfigError(file, problems, where)
    try:
        launch = launch_of(environment, root)
        _require_script(environment, root, launch.entry_point)
        infrastructure = placeholder_infrastructure(environment)
        definition = definition_of(environment, infrastructure, launch, root)
    except ConfigError as error:
        raise type(error)(file, error.problems, where) from error
    except DefinitionError as error:
        advice = "correct the value it came from"
        raise ConfigError(
            file,
            [
                Problem("", f"SageMaker would refuse {mistake}", advice)
                for mistake in error.mistakes
            ],
        ) from error
    if unreachable := list(_unreachable_index(environment, launch)):
        raise ConfigError(file, unreachable, where)
    options = script_options.parameters_of(environment.training, launch.entry_point, root)
    if wrong := list(schedules.problems(environment, definition, options)):
        raise ConfigError(file, wrong, where)
    if environment.pipeline is None and (
        others := list(
            other_types.problems(
                environment, definition, lambda other: check(other, root).definition
            )
        )
    ):
        raise ConfigError(file, others, where)
    own = [*_own_notices(environment, launch), *scripts.notices(environment, root)]
    if root:
        own += _needs(environment, root, where)
    return CheckResult(launch, definition, (*own, *launch.notices))


def _needs(environment: Environment, root: Path, where: Mapping[str, str]) -> Iterator[Risk]:
    """Yield what may be too little, memory or time; raise ConfigError if a rank cannot fit."""
    file = environment_file(environment.name)
    try:
        too_large = list(needs.problems(environment, root, check))
        risks = list(needs.risks(environment, root))
    except ConfigError as error:
        raise ConfigError(error.file or file, error.problems, where) from error
    if too_large:
        raise ConfigError(file, too_large, where)
    yield from map(Risk, risks)


def _fabric(environment: Environment, root: Path | None) -> Iterator[Problem]:
    """Yield why a job would fail, or not look, that requires EFA."""
    training = environment.training
    if training.require_efa:
        yield from fabric.problems(training, source_code.read(root, training))


def _own_notices(environment: Environment, launch: Launch) -> Iterator[str]:
    if environment.target is Target.AWS and is_placeholder_account(environment.account):
        yield (
            f"account {environment.account} is a placeholder from documentation; put your own there"
            " before you deploy to AWS"
        )
    training = environment.training
    if environment.pipeline is None and "instance_type" not in training.model_fields_set:
        yield (
            f"training.instance_type is left out, so training takes {training.instance_type}; write"
            f" the type that you want (`shoal plan {environment.name}` has its price)"
        )
    if environment.network.nat:
        yield NAT_NOTICE
    elif environment.network.existing and launch.case.code.needs_index:
        yield Risk(
            "requirements.txt is installed at the start of a job: the existing VPC needs a way to a"
            " package index"
        )
    yield from fabric.notices(environment.training)
    yield from schedules.notices(environment)
    yield from serving.notices(environment)
    for section, instance_type in _on_aws_images(environment):
        if tables.has_gpus(instance_type) and _image_is_for_cpus(environment, launch, section):
            yield (
                f"{section}.instance_type {instance_type} has GPUs, which the image used there"
                " cannot use"
            )


def _image_is_for_cpus(environment: Environment, launch: Launch, section: str) -> bool:
    """Return whether a section runs a CPU image of AWS's: what is served is what was registered."""
    if section == "evaluation":
        return True
    image = launch.inference_image_uri
    if section == "serving" and environment.release is not None:
        image = environment.release.image_uri
    return "-cpu-" in image


def _on_aws_images(environment: Environment) -> Iterator[tuple[str, str]]:
    """Yield the sections that run AWS's images beside training, with their instance types."""
    if environment.evaluation.image_uri is None:
        yield "evaluation", environment.evaluation.instance_type
    if environment.endpoint and environment.endpoint.image_uri is None:
        yield "endpoint", environment.endpoint.instance_type
    serving = environment.serving
    if serving and serving.serverless is None and _serves_aws_image(environment):
        yield "serving", serving.instance_type


def _serves_aws_image(environment: Environment) -> bool:
    """Return whether AWS's image answers: that of the release, or of what will be registered."""
    if environment.release is not None:
        return tables.runs_inference_script(environment.release.image_uri)
    return environment.endpoint is None or environment.endpoint.image_uri is None


def _other_architectures(environment: Environment, unknown: Collection[str]) -> Iterator[Problem]:
    """AWS's images are built for x86 and for GPUs.

    Elsewhere the container would not start, or not see the accelerator.
    """
    sections = dict(_on_aws_images(environment))
    if environment.training.image_uri is None:
        sections["training"] = environment.training.instance_type
    for section, instance_type in sections.items():
        if f"{section}.instance_type" in unknown:
            continue
        if tables.is_arm(instance_type) or tables.has_other_accelerators(instance_type):
            kind = (
                "an Arm processor"
                if tables.is_arm(instance_type)
                else "accelerators that are no GPUs"
            )
            message = (
                f"has {kind}, for which the images in packages/shoal/src/shoal/launch/images.yaml"
                " are not made"
            )
            yield Problem(
                f"{section}.instance_type",
                message,
                "choose one such as ml.m5.xlarge, or with GPUs for training",
                instance_type,
            )


def _unpinned_image(environment: Environment) -> Iterator[Problem]:
    sections = {"evaluation": environment.evaluation, "endpoint": environment.endpoint}
    for section, settings in sections.items():
        uri = settings and settings.image_uri
        if uri and not image_uri.is_pinned(uri):
            message = "must be a full image URI with a tag or a digest, and not :latest"
            advice = "write registry/repository:tag or registry/repository@sha256:..."
            yield Problem(f"{section}.image_uri", message, advice, uri)


def _unreachable_index(environment: Environment, launch: Launch) -> Iterator[Problem]:
    """The toolkit runs `pip install -r requirements.txt` in the container, which is in the VPC.

    Source: SageMaker developer guide, "Give SageMaker AI Training Jobs Access to Resources in Your
    Amazon VPC". On shoal-local a job has this machine's network.
    """
    network, training = environment.network, environment.training
    on_aws = environment.target is Target.AWS
    if on_aws and launch.case.code.needs_index and not network.nat and network.existing is None:
        message = (
            "has a requirements.txt, which every instance installs at the start of a job, and from"
            " this VPC there is no way to a package index: the job would fail after its instances"
            " were started"
        )
        advice = (
            "put wheels into the folder and write --no-index and --find-links for them, install the"
            " packages in an image (training.build_image), or set network.nat: true"
        )
        related = ("network.nat",)
        yield Problem("training.source_dir", message, advice, training.source_dir, related)


def _require_script(environment: Environment, root: Path | None, entry_point: str) -> None:
    """Raise ConfigError when the script is missing, or lacks an option that it is given."""
    options = script_options.problems_of(environment.training, entry_point, root)
    incomplete = scripts.problems(environment, entry_point, root)
    if problems := (
        _missing_scripts(environment, root, entry_point) or list(incomplete) or list(options)
    ):
        raise ConfigError(environment_file(environment.name), problems)


def _missing_scripts(
    environment: Environment, root: Path | None, entry_point: str
) -> list[Problem]:
    """Return the scripts that the repository lacks; `entry_point` is the one that would run."""
    if root is None:
        return []
    source_dir, image = environment.training.source_dir, environment.training.build_image
    if image in recipes.names() and not (root / recipes.FOLDER / image / "Dockerfile").is_file():
        return [
            Problem(
                "training.build_image",
                f"there is no {recipes.FOLDER}/{image}/Dockerfile",
                "write it, or name another recipe",
                image,
            )
        ]
    if not (root / source_dir).is_dir():
        return [
            Problem(
                "training.source_dir",
                "there is no such folder",
                "give a folder of the repository",
                source_dir,
            )
        ]
    scripts = {
        "training.entry_point": entry_point,
        "evaluation.entry_point": environment.evaluation.entry_point,
    }
    return [
        Problem(
            key,
            f"there is no such file in {source_dir}",
            "write it, or name one that is there",
            script,
        )
        for key, script in scripts.items()
        if not (root / source_dir / script).is_file()
    ]


def _unknown_instance_types(environment: Environment) -> Iterator[Problem]:
    instance_types = {
        section: getattr(environment, section).instance_type
        for section in _INSTANCE_TYPE_SHAPES
        if getattr(environment, section)
    }
    for section, instance_type in instance_types.items():
        allowed = shapes.values_of(_INSTANCE_TYPE_SHAPES[section])
        if instance_type not in allowed:
            near = ", ".join(
                difflib.get_close_matches(instance_type, allowed, n=5, cutoff=0.5)
            ) or ", ".join(allowed[:5])
            message = f"is not one of the {len(allowed)} instance types that SageMaker has for this"
            yield Problem(
                f"{section}.instance_type", message, f"choose one, such as {near}", instance_type
            )


def _unknown_inference_amis(environment: Environment) -> Iterator[Problem]:
    allowed = shapes.values_of("ProductionVariantInferenceAmiVersion")
    for section in ("endpoint", "serving"):
        settings = getattr(environment, section)
        if settings and settings.inference_ami_version not in (None, *allowed):
            key, advice = f"{section}.inference_ami_version", f"choose one: {', '.join(allowed)}"
            message = "is not one of the versions that SageMaker has"
            yield Problem(key, message, advice, settings.inference_ami_version)


def _built_image(environment: Environment) -> str | None:
    image = environment.training.build_image
    return f"{Names(environment).repository_uri(image)}@sha256:{'0' * 64}" if image else None


def placeholder_infrastructure(environment: Environment) -> Infrastructure:
    """Return names of the right shape for everything that the stacks create.

    With them a definition can be checked before there are stacks.
    """
    names, serves = Names(environment), environment.endpoint is not None
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
        seal_function_arn=_function_arn(names, "seal"),
        smoke_test_function_arn=_function_arn(names, "smoke-test") if serves else "",
        teardown_function_arn=_function_arn(names, "teardown") if serves else "",
        compare_function_arn=(
            _function_arn(names, "compare") if environment.compared_metrics else None
        ),
        training_image_uri=_built_image(environment),
        file_system=mounted if environment.data.input_mode is InputMode.FSX else None,
    )


def _function_arn(names: Names, purpose: str) -> str:
    return names.arn("lambda", f"function:{names.function(purpose)}")
