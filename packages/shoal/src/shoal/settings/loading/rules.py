"""The rules between keys of one environment whose types are right."""

import re
from collections.abc import Iterator, Mapping

from shoal.settings import organisation, regions, tags
from shoal.settings.hyperparameters import (
    PIPELINE_PARAMETERS,
    as_text,
    parameter_name,
    shell_characters,
)
from shoal.settings.names import SEALED, Names
from shoal.settings.parsing.errors import Problem, repeated, with_values
from shoal.settings.sections import (
    channels,
    delivery,
    evaluation,
    file_system,
    mlflow,
    network,
    observability,
    release,
    schedules,
    secrets,
    serving,
)
from shoal.settings.sections.channels import MANIFEST_PARAMETER, path_parameter, uri_parameter
from shoal.settings.settings import Environment, GuardRails, Target

MAX_BUCKET_NAME = 63  # https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html
MAX_ENDPOINT_NAME = 63  # botocore, sagemaker EndpointName
MAX_ROLE_NAME = 64  # botocore, iam RoleName
MAX_FUNCTION_NAME = 64  # https://docs.aws.amazon.com/lambda/latest/api/API_CreateFunction.html
LONGEST_ACTOR = "empty-on-delete"  # of the roles and functions that the stacks make
# "-" and the twelve characters of a pipeline execution's id, appended to endpoint names
EXECUTION_ID_SUFFIX = 13
# words of a name before it are `shoal`, and at least one each of another's project and environment
FIRST_THAT_MAY_FOLLOW = 3

MAX_HYPERPARAMETERS = 100  # botocore, sagemaker HyperParameters
MAX_TOOLKIT_HYPERPARAMETERS = 10  # at most that many of them are written by the launch contract
MAX_HYPERPARAMETER_NAME = 256
# of the 2500 that HyperParameters allows: the value of a pipeline parameter ends there
MAX_HYPERPARAMETER_VALUE = 1024
MAX_ENVIRONMENT = 100  # botocore, sagemaker TrainingEnvironmentMap
MAX_ENVIRONMENT_VALUE = 512  # botocore, sagemaker TrainingEnvironmentValue

_VARIABLE_NAME = re.compile(r"^[a-zA-Z_][a-zA-Z0-9_]*$")
_HYPERPARAMETER_NAME = re.compile(r"^[A-Za-z][A-Za-z0-9]*([-_.][A-Za-z0-9]+)*$")
_SCRIPT = re.compile(r"^[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*\.py$")
_RESERVED_VARIABLES = ("SM_", "SAGEMAKER_", "AWS_", "SHOAL_")


def problems_between(environment: Environment, stem: str) -> list[Problem]:
    """Return every broken rule of `environment`, whose file is called `stem`.yaml."""
    problems = [problem for rule in _RULES for problem in rule(environment)]
    if environment.name != stem:
        message = f"must equal the file's name without .yaml, {stem}"
        problems.insert(0, Problem("name", message, "rename the file or the environment"))
    return with_values(problems, environment.model_dump())


def _sections(environment: Environment) -> Iterator[Problem]:
    """Yield what each section finds wrong with itself, and with the keys that it reads besides."""
    of, names, training = environment, Names(environment), environment.training
    needs = {"region": "AWS::SageMaker::ModelPackageGroup"}
    if of.observability.monthly_budget_usd:
        needs["observability.monthly_budget_usd"] = "AWS::Budgets::Budget"
    needs |= {f"{use}.build_image": "AWS::CodeBuild::Project" for use in of.built_images}
    if of.serving:
        needs["serving"] = "AWS::SageMaker::Endpoint"
    if of.file_system:
        needs["file_system"] = "AWS::FSx::FileSystem"
    yield from regions.problems(of.region, needs)
    yield from network.problems(of.network, of.region)
    yield from mlflow.problems(of.mlflow, of.network, of.region, of.account)
    yield from organisation.problems(of.organisation, of.region, of.account, of.file_system)
    yield from organisation.index_problems(
        of.organisation.package_index, of.network, of.region, on_aws=of.target is Target.AWS
    )
    yield from file_system.problems(of.file_system, of.data)
    yield from schedules.problems(of.schedules, of.data)
    yield from serving.problems(
        of.serving, protect=of.protect, release=of.release, region=of.region
    )
    yield from channels.problems(
        of.data,
        of.evaluation.channel,
        of.region,
        datasets=f"s3://{names.bucket('data')}/datasets/",
        sealed=f"s3://{names.bucket('artifacts')}/{SEALED}/",
    )
    yield from evaluation.problems_of(of.evaluation.gates, "evaluation.gates", training.metrics)
    yield from evaluation.metric_problems(training.metrics, "training.metrics")
    yield from secrets.problems(training.secrets, of.network, is_shared=bool(of.workloads))
    yield from observability.problems(of.observability)
    yield from delivery.problems(of.delivery)
    yield from tags.problems(
        {"tags": of.tags, f"workloads.{of.workload}.tags": of.workload_tags},
        required=of.required_tags,
        activated=of.cost_allocation_tags,
        ours=names.own_cost_tag[0],
    )


def _release(environment: Environment) -> Iterator[Problem]:
    release = environment.release
    if release and not release.model_package_arn.endswith(f"/{release.model_package_version}"):
        number = release.model_package_arn.rpartition("/")[2]
        message = f"is not the version that model_package_arn names, {number}"
        advice, related = "let `shoal promote` write the whole file", "release.model_package_arn"
        yield Problem("release.model_package_version", message, advice, related=(related,))
    if environment.promoted_from == environment.name:
        message = "an environment cannot take releases from itself"
        yield Problem("promoted_from", message, "name the one before it")


def _guard_rails(environment: Environment) -> Iterator[Problem]:
    if environment.guard_rails is GuardRails.OFF and environment.protect:
        message = "is for the first run of a throw-away environment, and this one is protected"
        advice = "take it out, or write `protect: false`"
        yield Problem("guard_rails", message, advice, related=("protect",))


def _name_lengths(environment: Environment) -> Iterator[Problem]:
    """Check the longest name of each kind, and say how many characters to take away."""
    names = Names(environment)
    names_and_limits = (
        ("bucket", names.bucket("artifacts"), MAX_BUCKET_NAME),
        ("role", names.role(LONGEST_ACTOR), MAX_ROLE_NAME),
        ("role", names.shared.role(LONGEST_ACTOR), MAX_ROLE_NAME),
        ("function", names.function(LONGEST_ACTOR), MAX_FUNCTION_NAME),
        ("endpoint", names.pipeline + "-" + "x" * (EXECUTION_ID_SUFFIX - 1), MAX_ENDPOINT_NAME),
    )
    for kind, name, limit in dict.fromkeys(names_and_limits):
        if len(name) > limit:
            message = f"the {kind} name {name} would have {len(name)} characters"
            message += f"; at most {limit} are allowed"
            key, value = _word_of(environment, name)
            advice = f"shorten `{key}` or `name` by {len(name) - limit}"
            yield Problem(key, message, advice, value, ("name", "region", "account"))


def _word_of(environment: Environment, name: str) -> tuple[str, str]:
    """Return the key, and its value, that gives a name the word before the environment's."""
    if environment.workloads and Names(environment).shared_prefix not in name:
        return f"workloads.{environment.workload}", environment.workload
    return "project", environment.project


def _execution_ids(environment: Environment) -> Iterator[Problem]:
    """Refuse names that look like an execution's.

    `shoal-churn-dev-experimental` reads like what execution `experimental` of `shoal-churn-dev`
    left: the sweeper of that environment would delete it.
    """
    prefix = Names(environment).prefix
    words = prefix.split("-")
    of_the_name = len(words) - len(environment.name.split("-"))
    for position, word in enumerate(words[FIRST_THAT_MAY_FOLLOW:], FIRST_THAT_MAY_FOLLOW):
        if len(word) != EXECUTION_ID_SUFFIX - 1:
            continue
        is_of_name = position >= of_the_name
        key, value = ("name", environment.name) if is_of_name else _word_of(environment, prefix)
        message = (
            f"has the word {word} of 12 characters: a pipeline {'-'.join(words[:position])} would"
            " take it for an execution's id, and sweep"
        )
        advice = "make that word shorter or longer"
        yield Problem(key, message, advice, value, ("name", "project"))


def _endpoint(environment: Environment) -> Iterator[Problem]:
    endpoint, section = environment.endpoint, "endpoint.environment"
    if endpoint is None:  # what only trains serves nothing: no release is pinned for it
        if environment.serving or environment.release:
            keys = ("serving", "release") if environment.serving else ("release",)
            message = "its models are trained and registered only: `endpoint` is none"
            yield Problem(keys[0], message, f"remove {' and '.join(keys)}", related=keys[1:])
        return
    has_own_image = endpoint.image_uri is not None or "endpoint" in environment.built_images
    if endpoint.environment and not has_own_image:
        message = "is for a container of your own, and AWS's image of the framework answers"
        yield Problem(section, message, "remove it, or name the container's endpoint.image_uri")
    yield from _variables(section, endpoint.environment, release.MAX_ENVIRONMENT_VALUE)
    # An endpoint that is older than its time to live is removed, whether it has started or not.
    if endpoint.start_s >= 60 * endpoint.ttl_minutes:
        message = f"is over before the {endpoint.start_s} s that the endpoint may take to start"
        advice = f"use more than {endpoint.start_s // 60}"
        related = ("endpoint.container_startup_timeout_s", "endpoint.model_download_timeout_s")
        yield Problem("endpoint.ttl_minutes", message, advice, related=related)


def _files(environment: Environment) -> Iterator[Problem]:
    """Source: SageMaker API reference, ContainerDefinition: no ModelDataSource with "serverless
    endpoints".
    """
    serving, release = environment.serving, environment.release
    keeps_files = environment.training.keeps_files or (release and release.is_files)
    if serving and serving.serverless and keeps_files:
        message = "takes a model as an archive only, and this one is kept as files"
        advice = "serve on instances, or train with training.output_compression: gzip"
        related = ("training.output_compression",)
        yield Problem("serving.serverless", message, advice, related=related)


def _spot(environment: Environment) -> Iterator[Problem]:
    training = environment.training
    key, wait, runtime = "training.max_wait_s", training.max_wait_s, training.max_runtime_s
    if training.spot and wait is None:
        advice = f"add max_wait_s, at least max_runtime_s ({runtime})"
        yield Problem(key, "spot training needs it", advice, related=("training.spot",))
    elif not training.spot and wait is not None:
        message, advice = "is only read with `spot: true`", "add `spot: true` or remove it"
        yield Problem(key, message, advice, related=("training.spot",))
    elif wait is not None and wait < runtime:
        message = f"is less than max_runtime_s ({runtime}), which it includes"
        related = ("training.spot", "training.max_runtime_s")
        yield Problem(key, message, f"use at least {runtime}", related=related)


def _capacity(environment: Environment) -> Iterator[Problem]:
    """Yield what SageMaker rejects of a preference list or a training plan (developer guide,
    "Instance preference lists for training jobs").
    """
    training, section = environment.training, "training.capacity"
    capacity, key = training.capacity, f"{section}.preferences"
    listed = capacity.preferences
    counts = [each.instance_count for each in listed if each.instance_count]
    if listed:
        first = listed[0]
        for name in ("spot", "other_instance_types"):
            if getattr(training, name):
                message = f"SageMaker chooses from the list, which excludes training.{name}"
                related = (f"training.{name}",)
                yield Problem(key, message, "remove one of them", related=related)
        for message in repeated(each.instance_type for each in listed):
            yield Problem(key, message, "name each type once")
        if first.instance_type != training.instance_type:
            message = f"is not the first of {key}, {first.instance_type}"
            advice = "leave it out: the list says the type"
            yield Problem("training.instance_type", message, advice, related=(key,))
        if counts and len(counts) < len(listed):
            message = f"has an instance_count at {len(counts)} of {len(listed)} types"
            advice = "give each type one, or none and write training.instance_count"
            yield Problem(key, message, advice)
        elif counts and counts[0] != training.instance_count:
            message = f"is not what the first of {key} has, {counts[0]}"
            advice = "leave it out: the list says the numbers"
            yield Problem("training.instance_count", message, advice, related=(key,))
    if capacity.training_plan_arn and len(capacity.plans) > 1:
        message = "is for the whole job, and types of the list name plans, too"
        advice = "keep one: the plan of the job, or those of the types"
        yield Problem(f"{section}.training_plan_arn", message, advice, related=(key,))
    if capacity.plans and training.spot and not listed:
        message = "is reserved capacity, and spot capacity is another"
        advice = "remove it, or training.spot"
        yield Problem(f"{section}.training_plan_arn", message, advice, related=("training.spot",))
    if capacity.keep_alive_s and training.spot:
        message = "keeps instances warm, which spot capacity cannot be"
        advice = "remove it, or training.spot"
        yield Problem(f"{section}.keep_alive_s", message, advice, related=("training.spot",))
    if capacity.keep_alive_s and environment.endpoint is None:
        message = "Teardown ends warm instances, and without an endpoint there is none"
        advice = "remove it, or `endpoint: none`"
        yield Problem(f"{section}.keep_alive_s", message, advice, related=("endpoint",))
    for arn in capacity.plans:
        if (region := arn.split(":")[3]) != environment.region:
            message = f"is of {region}, and the jobs run in {environment.region}"
            yield Problem(section, message, "name a plan of that region", arn, ("region",))


def _hyperparameters(environment: Environment) -> Iterator[Problem]:
    hyperparameters, section = environment.training.hyperparameters, "training.hyperparameters"
    allowed = MAX_HYPERPARAMETERS - MAX_TOOLKIT_HYPERPARAMETERS
    if len(hyperparameters) > allowed:
        message = (
            f"has {len(hyperparameters)} entries; SageMaker allows {MAX_HYPERPARAMETERS} with ours"
        )
        yield Problem(section, message, f"keep at most {allowed}")
    channels = environment.data.channels
    places = (name(channel) for channel in channels for name in (uri_parameter, path_parameter))
    users = dict.fromkeys(
        (*PIPELINE_PARAMETERS, *places, MANIFEST_PARAMETER), "the pipeline itself"
    )
    users |= {
        bound.parameter: "a gate" for bound in evaluation.bounds(environment.evaluation.gates)
    }
    for name, value in hyperparameters.items():
        for message, advice in _mistakes_of(name, as_text(value)):
            yield Problem(f"{section}.{name}", message, advice)
        parameter = parameter_name(name)
        if parameter in users:
            user = users[parameter]
            message = f"becomes the pipeline parameter {parameter}, which {user} already uses"
            yield Problem(f"{section}.{name}", message, "rename it")
        users[parameter] = f"`{name}`"


def _mistakes_of(name: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a hyperparameter's name or value, and what to do."""
    into_file = "put it into a file of source_dir"
    if name.lower().startswith("sagemaker_"):
        advice = "remove it; use `strategy`, `collective` and `custom_mpi_options`"
        yield "names that start with sagemaker_ belong to the launch contract", advice
    elif not _HYPERPARAMETER_NAME.match(name) or len(name) > MAX_HYPERPARAMETER_NAME:
        message = "must be words of letters and digits joined by - _ or ."
        yield message, "rename it, as in learning-rate"
    if len(text) > MAX_HYPERPARAMETER_VALUE:
        limit = f"a pipeline parameter's value ends at {MAX_HYPERPARAMETER_VALUE}"
        yield f"has {len(text)} characters; {limit}", f"{into_file} and name the file here"
    if not text.isprintable():
        yield "contains a line break or a control character", into_file
    elif characters := shell_characters(text):
        message = (
            f"contains {characters!r}, which the training toolkits up to 5.1.2 give to a shell"
        )
        yield message, f"{into_file} and name the file here"


def _container_environment(environment: Environment) -> Iterator[Problem]:
    section, variables = "training.environment", environment.training.environment
    yield from _variables(section, variables, MAX_ENVIRONMENT_VALUE)
    message = "variables that start with SM_, SAGEMAKER_ and AWS_ are the platform's, those with"
    message += " SHOAL_ Shoal's own"
    for name in variables:
        if name.startswith(_RESERVED_VARIABLES):
            yield Problem(f"{section}.{name}", message, "remove it, or rename it")


def _variables(
    section: str, variables: Mapping[str, str], max_value_length: int
) -> Iterator[Problem]:
    """Yield what the API takes of no container's environment."""
    if len(variables) > MAX_ENVIRONMENT:
        message = f"has {len(variables)} entries; SageMaker allows {MAX_ENVIRONMENT}"
        yield Problem(section, message, "remove some")
    for name, value in variables.items():
        if not _VARIABLE_NAME.match(name):
            message = "a variable's name is letters, digits and _, no digit first"
            yield Problem(f"{section}.{name}", message, "rename it")
        if len(value) > max_value_length:
            message = f"has {len(value)} characters; SageMaker allows {max_value_length}"
            yield Problem(f"{section}.{name}", message, "put it into a file")


def _code(environment: Environment) -> Iterator[Problem]:
    """An entry point is a path inside the archive, as the training toolkit accepts it."""
    scripts = {
        "training.entry_point": environment.training.entry_point,
        "evaluation.entry_point": environment.evaluation.entry_point,
    }
    for key, script in scripts.items():
        if not _SCRIPT.match(script):
            advice = "give its path relative to source_dir, as in train.py"
            yield Problem(key, "must be a .py file inside source_dir", advice)
    source_dir = environment.training.source_dir
    if source_dir.startswith("/") or ".." in source_dir.split("/"):
        message, advice = "must lie inside the repository", "give a path relative to its root"
        yield Problem("training.source_dir", message, advice)


_RULES = (
    _name_lengths,
    _execution_ids,
    _sections,
    _release,
    _endpoint,
    _guard_rails,
    _files,
    _spot,
    _capacity,
    _hyperparameters,
    _container_environment,
    _code,
)
