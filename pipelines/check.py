"""An environment in; notices out, or one error with everything that would fail later: launch contract, instance types, requests.

`shoal check` and `app.py` call it, after `config.loader` has found the file's types and rules right.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from config.errors import ConfigError, Problem
from config.loader import environment_file
from config.names import Names
from config.rules import is_placeholder_account
from config.settings import Environment, Target
from pipelines import shapes
from pipelines.definition import build
from pipelines.errors import DefinitionError
from pipelines.launch import resolve
from pipelines.requests import Infrastructure

_INSTANCE_TYPE_SHAPES = {
    "training": "TrainingInstanceType",
    "evaluation": "ProcessingInstanceType",
    "endpoint": "ProductionVariantInstanceType",
}


def check(environment: Environment, file: str | None = None) -> list[str]:
    """What the user should know although everything can run, one line each. Raises ConfigError; `file` opens its lines."""
    file = file or environment_file(environment.name)
    problems = list(_unknown_instance_types(environment))
    if problems:
        raise ConfigError(file, problems)
    launch = resolve(environment.training, environment.region, file)
    try:
        shapes.check(build(environment, placeholder_infrastructure(environment)))
    except DefinitionError as error:
        advice = "correct the value it came from"
        raise ConfigError(file, [Problem("", f"SageMaker would refuse {mistake}", advice) for mistake in error.mistakes]) from error
    notices = [*_own_notices(environment), *launch.notices]
    return [f"{file}: {notice}" for notice in notices]


def _own_notices(environment: Environment) -> Iterator[str]:
    if environment.target is Target.AWS and is_placeholder_account(environment.account):
        yield f"account {environment.account} is a placeholder from documentation; put your own here before deploying to AWS"


def _unknown_instance_types(environment: Environment) -> Iterator[Problem]:
    given = {section: getattr(environment, section).instance_type for section in _INSTANCE_TYPE_SHAPES}
    for section, instance_type in given.items():
        known = shapes.instance_types(_INSTANCE_TYPE_SHAPES[section])
        if instance_type not in known:
            near = ", ".join(difflib.get_close_matches(instance_type, known, n=5, cutoff=0.5)) or ", ".join(known[:5])
            message = f"is not one of the {len(known)} instance types that SageMaker has for this"
            yield Problem(f"{section}.instance_type", message, f"choose one, such as {near}", instance_type)


def placeholder_infrastructure(environment: Environment) -> Infrastructure:
    """Names of the right shape for everything the stacks would create, so that a definition can be checked without them."""
    names = Names(environment)
    return Infrastructure(
        code_uri=f"s3://{names.bucket('data')}/code.tar.gz",
        kms_key_arn=names.arn("kms", "key/00000000-0000-0000-0000-000000000000"),
        training_role_arn=names.role_arn("training"),
        evaluation_role_arn=names.role_arn("evaluation"),
        endpoint_role_arn=names.role_arn("endpoint"),
        training_subnet_ids=("subnet-00000000000000000",),
        training_security_group_ids=("sg-00000000000000000",),
        hosting_subnet_ids=tuple(f"subnet-{index:017x}" for index, _ in enumerate(environment.network.hosting_az_ids)),
        hosting_security_group_ids=("sg-00000000000000000",),
        smoke_test_function_arn=names.arn("lambda", f"function:{names.function('smoke-test')}"),
        teardown_function_arn=names.arn("lambda", f"function:{names.function('teardown')}"),
    )
