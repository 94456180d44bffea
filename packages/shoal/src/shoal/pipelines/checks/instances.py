"""The instance types and images of each section: what SageMaker has, and what fits together."""

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from shoal.launch import Launch, image_uri, recipes, tables
from shoal.launch.case import TITLES
from shoal.pipelines import shapes
from shoal.settings.frameworks import CLASSICAL
from shoal.settings.parsing.errors import ConfigError, Problem, Risk, repeated
from shoal.settings.sections.evaluation import Evaluation
from shoal.settings.sections.serving import NO_RECIPE
from shoal.settings.settings import Environment

_FOR_CPUS = "pytorch-serving"
"""How the repository ends of an image that is built to serve on CPUs."""
_SHAPES = {
    "training": "TrainingInstanceType",
    "evaluation": "ProcessingInstanceType",
    "endpoint": "ProductionVariantInstanceType",
    "serving": "ProductionVariantInstanceType",
    "scoring": "TransformInstanceType",
}


def problems(environment: Environment) -> Iterator[Problem]:
    """Yield the types, drivers and images that SageMaker lacks, or that cannot run together."""
    on_aws_images = dict(_on_aws_images(environment))
    if environment.training.image_uri is None:
        on_aws_images["training"] = environment.training.instance_type
    for section, settings in _sections(environment, *_SHAPES):
        kinds, key = (settings.instance_type,), f"{section}.instance_type"
        if section == "evaluation" and settings.capacity.preferences:
            kinds, key = settings.candidates, "evaluation.capacity.preferences"
            yield from _evaluation_list(settings, key)
        allowed = shapes.values_of(_SHAPES[section])
        for kind in kinds:
            yield from _unfit(key, kind, allowed, section in on_aws_images)
    drivers = shapes.values_of("ProductionVariantInferenceAmiVersion")
    for section, settings in _sections(environment, "endpoint", "serving"):
        if settings.inference_ami_version not in (None, *drivers):
            key, advice = f"{section}.inference_ami_version", f"choose one: {', '.join(drivers)}"
            message = "is not one of the versions that SageMaker has"
            yield Problem(key, message, advice, settings.inference_ami_version)
        if settings.volume_size_gb and tables.has_nvme(settings.instance_type):
            message = f"{settings.instance_type} has disks of its own, whose size is fixed"
            advice = "take it out, or choose an instance type without them"
            key = f"{section}.volume_size_gb"
            yield Problem(key, message, advice, settings.volume_size_gb)
    for section, settings in _sections(environment, "training", "evaluation", "endpoint"):
        uri = settings.image_uri
        if uri and not image_uri.is_pinned(uri):
            message = "must be a full image URI with a tag or a digest, and not :latest"
            advice = "write registry/repository:tag or registry/repository@sha256:..."
            yield Problem(f"{section}.image_uri", message, advice, uri)
    yield from _serving_recipe(environment)
    use, built = environment.evaluation.image_of, environment.built_images
    if use and (use not in built or environment.evaluation.image_uri):
        message = f"takes the image of {use}.build_image, which must be set, and no image_uri here"
        yield Problem("evaluation.image_of", message, f"set {use}.build_image, or remove it", use)
    yield from _unreadable_pickles(environment)


def _sections(environment: Environment, *names: str) -> Iterator[tuple[str, Any]]:
    """Yield the sections of these names that the environment has."""
    return ((each, settings) for each in names if (settings := getattr(environment, each)))


def _unreadable_pickles(environment: Environment) -> Iterator[Problem]:
    """Yield AWS's images that need not read what AWS's image of another version has pickled."""
    training = environment.training
    for section, settings in _sections(environment, "evaluation", "endpoint"):
        image = image_uri.aws_image(settings.image_uri)
        own = (training.framework, training.framework_version)
        if image and own[0] in CLASSICAL and (image.framework, image.version) != own:
            message = (
                f"is AWS's image of {TITLES[image.framework]} {image.version}, and need not read"
                f" what {TITLES[own[0]]} {own[1]} has pickled in the training"
            )
            advice = "remove it: the image that trains measures and answers, too"
            yield Problem(f"{section}.image_uri", message, advice, settings.image_uri)


def _unfit(key: str, kind: str, allowed: Sequence[str], on_aws_image: bool) -> Iterator[Problem]:
    """Yield why an instance type cannot be what a section names."""
    if kind not in allowed:
        near = difflib.get_close_matches(kind, allowed, n=5, cutoff=0.5) or allowed[:5]
        message = f"is not one of the {len(allowed)} instance types that SageMaker has for this"
        yield Problem(key, message, f"choose one, such as {', '.join(near)}", kind)
    elif on_aws_image and (tables.is_arm(kind) or tables.has_other_accelerators(kind)):
        # AWS's images are built for x86 and for GPUs: they would not start there, or not see the
        # accelerator.
        other = "an Arm processor" if tables.is_arm(kind) else "accelerators that are no GPUs"
        message = f"has {other}, for which the images in Shoal's launch/images.yaml are not made"
        yield Problem(
            key, message, "choose one such as ml.m5.xlarge, or with GPUs for training", kind
        )


def _evaluation_list(evaluation: Evaluation, key: str) -> Iterator[Problem]:
    """Yield what SageMaker rejects of a list, and the types that need another request (developer
    guide, "Instance preference lists for processing jobs").
    """
    first, *others = evaluation.candidates
    if evaluation.instance_type != first:
        message, advice = f"is not the first of {key}, {first}", "leave it out: the list says it"
        yield Problem("evaluation.instance_type", message, advice, evaluation.instance_type)
    for message in repeated(evaluation.candidates):
        yield Problem(key, message, "name each type once")
    for kind in others:
        if tables.takes_volume_key(kind) != tables.takes_volume_key(first):
            message = f"needs other VolumeKmsKeyId than {first}: one of them has disks of its own"
            yield Problem(key, message, "leave it out", kind)


def _serving_recipe(environment: Environment) -> Iterator[Problem]:
    """Yield what is wrong with the recipe that is to answer at the endpoint."""
    endpoint, key = environment.endpoint, "endpoint.build_image"
    if endpoint is None or endpoint.build_image is None or endpoint.build_image == NO_RECIPE:
        return
    name, names = endpoint.build_image, recipes.names(serves=True)
    if name not in names:
        message = "is no recipe of an image that serves"
        yield Problem(key, message, f"use one: {', '.join([*names, NO_RECIPE])}", name)
    elif recipes.recipe(name).framework != environment.training.framework:
        message = f"serves models of {recipes.recipe(name).framework}"
        yield Problem(key, message, "remove it: AWS's image of the framework answers", name)
    if endpoint.image_uri is not None:
        message = "names one image, and endpoint.image_uri another"
        yield Problem(key, message, "remove one of them", name)


def notices(environment: Environment, launch: Launch) -> Iterator[str]:
    """Yield the sections that pay for GPUs which the image used there cannot use."""
    release = environment.release
    for section, instance_type in _on_aws_images(environment):
        is_served = section == "serving" and release is not None
        image = release.image_uri if is_served and release else launch.inference_image_uri
        is_for_cpus = section == "evaluation" or "-cpu-" in image or image.endswith(_FOR_CPUS)
        if tables.has_gpus(instance_type) and is_for_cpus:
            yield (
                f"{section}.instance_type {instance_type} has GPUs, which the image used there"
                " cannot use"
            )
    yield from _driver_risks(environment, launch)
    uri, framework = environment.training.image_uri, environment.training.framework
    on_aws_images = dict(_on_aws_images(environment))
    others = [each for each in ("evaluation", "endpoint") if each in on_aws_images]
    if uri and others and image_uri.aws_image(uri) is None and framework not in CLASSICAL:
        yield (
            f"training.image_uri is an image of its own, and {' and '.join(others)} run AWS's of"
            f" {framework}: these must be able to read what training writes"
        )


def _driver_risks(environment: Environment, launch: Launch) -> Iterator[str]:
    """Yield the endpoints whose image and driver have CUDAs of two generations: they stay in
    Creating without a log (aws/deep-learning-containers, pull request 6187; read).

    Jobs that score choose among drivers 470 and 535 (botocore 1.44.5, TransformAmiVersion).
    """
    release, amis = environment.release, tables.inference_amis()
    scoring, uri = environment.scoring, launch.inference_image_uri
    if scoring and tables.has_gpus(scoring.instance_type):
        cuda = _cuda_of(uri)
        if cuda.startswith("13"):
            yield Risk(
                f"scoring.instance_type: the image has CUDA {cuda}, and no driver of batch"
                " transform is of CUDA 13; choose a type without GPUs"
            )
    for section, settings in _sections(environment, "endpoint", "serving"):
        if not tables.has_gpus(settings.instance_type):
            continue
        uri = release.image_uri if release and section == "serving" else launch.inference_image_uri
        cuda = _cuda_of(uri)
        ami = settings.inference_ami_version or recipes.ami_of(settings.instance_type, uri)
        driver = amis.get(ami or "", "12")
        if cuda[:2] in ("12", "13") and cuda[:2] != driver[:2]:
            fitting = [ami for ami, its_cuda in amis.items() if its_cuda[:2] == cuda[:2]]
            yield Risk(
                f"{section}.inference_ami_version: the image has CUDA {cuda}, the driver of"
                f" {settings.instance_type} would be of CUDA {driver}; set {fitting[-1]}"
            )


def _cuda_of(uri: str) -> str:
    """Return the CUDA that an image's tag tells, "" if it tells none.

    AWS's pages say it of server images for language models, whose tags do not
    (aws/deep-learning-containers at e0ecedea, docs/vllm/deployment/sagemaker.md; read).
    """
    is_server = image_uri.repository(uri) in tables.table_of("images")["for_language_models"]
    is_server = is_server and image_uri.is_from_aws(uri) and ":server-" in uri
    return tables.cuda_in(uri) or ("13" if is_server else "")


def _on_aws_images(environment: Environment) -> Iterator[tuple[str, str]]:
    """Yield the sections that run AWS's images beside training, with their instance types."""
    endpoint, serving, release = environment.endpoint, environment.serving, environment.release
    if not (environment.evaluation.image_uri or environment.evaluation.image_of):
        yield from (("evaluation", kind) for kind in environment.evaluation.candidates)
    if endpoint and not endpoint.has_own_server:
        yield "endpoint", endpoint.instance_type
        if environment.scoring:
            yield "scoring", environment.scoring.instance_type
    # what is served is the release, or what will be registered
    serves_aws_image = endpoint is None or not endpoint.has_own_server
    if release is not None:
        serves_aws_image = tables.runs_inference_script(release.image_uri)
    if serving and serving.serverless is None and serves_aws_image:
        yield "serving", serving.instance_type


def other_types(
    environment: Environment,
    definition: Mapping[str, Any],
    check: Callable[[Environment], Any],
) -> Iterator[Problem]:
    """Yield a problem for each of `training.other_instance_types`, or of the preferences, that
    needs another request, or cannot run at all.

    The launcher's hyperparameters, EFA's variables and the image are fixed when the definition is
    made, from `training.instance_type`. `check` returns an object with the environment's
    `definition`, or raises ConfigError.
    """
    training = environment.training
    alone = training.capacity.model_copy(update={"preferences": (), "max_pending_s": None})
    only = {"other_instance_types": (), "capacity": alone}
    is_listed = bool(training.capacity.preferences)
    key = f"training.{'capacity.preferences' if is_listed else 'other_instance_types'}"
    for instance_type, count in training.candidates.items():
        if instance_type == training.instance_type:
            continue
        changes = {"instance_type": instance_type, "instance_count": count, **only}
        section = training.model_copy(update=changes)
        try:
            other = check(environment.model_copy(update={"training": section})).definition
        except ConfigError as error:
            message = f"cannot run there: {error.problems[0].message}"
            yield Problem(key, message, "leave it out", instance_type)
            continue
        ours, theirs = (_fixed_for_a_type(each) for each in (definition, other))
        names = {*ours, *theirs}
        differing = sorted(name for name in names if ours.get(name) != theirs.get(name))
        if differing:
            message = f"needs other {', '.join(differing)} than {training.instance_type}"
            yield Problem(key, message, "give it an environment of its own", instance_type)


def _fixed_for_a_type(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the training request has that follows from an instance type."""
    request = dict(definition["Steps"][0]["Arguments"])
    for key in ("ResourceConfig", "StoppingCondition"):
        del request[key]
    told = request["HyperParameters"]  # of a list the toolkit is not told the type
    kept = {name: value for name, value in told.items() if name != "sagemaker_instance_type"}
    return request | {"HyperParameters": kept}
