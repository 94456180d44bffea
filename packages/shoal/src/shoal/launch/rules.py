"""The rules of what can run, in the order in which their problems are reported.

A rule that a fallback mends says why one strategy cannot run on these instances with this image:
another strategy could. All other rules hold whatever runs.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from shoal.launch import image_uri, recipes, tables
from shoal.launch.case import SMDDP, TITLES, Case
from shoal.launch.contract import OPTIMIZE_SDP, STARTS_RANKS
from shoal.launch.mpi_options import mistakes_in
from shoal.launch.source_code import REQUIREMENTS, SETUP
from shoal.launch.torchrun_options import ambiguous_with
from shoal.settings.parsing.errors import Problem
from shoal.settings.sections.strategies import defaults, strategies_with_script
from shoal.settings.settings import Collective, Framework, Launcher, Strategy

MAX_VALUE = 2500  # botocore, sagemaker HyperParameterValue
_FOR_EC2 = re.compile(r":[^@]*-ec2(-|$)")


@dataclass(frozen=True)
class Rule:
    """One check of a case."""

    check: Callable[[Case], Iterator[Problem]]
    strategies: Collection[Strategy] | None = None
    """The strategies that it is about; None for a rule of what every strategy needs."""
    mended_by_fallback: bool = False

    def concerns(self, case: Case) -> bool:
        return self.strategies is None or (
            case.strategy in self.strategies and case.strategy in case.framework_strategies
        )


def problems(case: Case, *, mended_by_fallback: bool) -> list[Problem]:
    """Return what the rules of one kind find."""
    return [
        problem
        for rule in RULES
        if rule.mended_by_fallback is mended_by_fallback and rule.concerns(case)
        for problem in rule.check(case)
    ]


def _smddp_instance(case: Case) -> Iterator[Problem]:
    """Not every instance type has smddp, nor each of its collectives."""
    instance_type, types = case.training.instance_type, tables.smddp_instance_types()
    if instance_type not in types:
        names = ", ".join(
            name if "allgather" in kinds else f"{name} (AllReduce only)"
            for name, kinds in types.items()
        )
        former = tables.former_smddp_instance_type(instance_type)
        once = f" ({former} named it; today's does not)" if former else ""
        message = f"smddp cannot run on this instance type{once}; it runs only on {names}"
        yield case.problem("instance_type", message, "choose one of them")
    elif case.training.collective not in types[instance_type]:
        message = f"smddp accelerates only {', '.join(types[instance_type])} on {instance_type}"
        yield case.problem("collective", message, "use ml.p4d.24xlarge or ml.p4de.24xlarge")


def _smddp_image(case: Case) -> Iterator[Problem]:
    """An image of the user's own may contain a wheel of smddp, up to the last that exists."""
    version, releases = case.version, case.smddp_releases
    last = list(releases)[-1]
    if case.has_unknown_image:
        if tables.ordered(version)[:2] > tables.ordered(last)[:2]:
            message = f"there is no smddp for {case.title} after {last}, so no image can contain it"
            yield case.problem("framework_version", message, f"use {last} or earlier")
    elif version not in releases and (
        case.has_image or (case.is_former and not case.is_python_too_old)
    ):
        yield case.problem("framework_version", _why_no_smddp(case, last), "choose one of them")


def _why_no_smddp(case: Case, last: str) -> str:
    """Return what AWS's pages say; of versions between the rows they say nothing."""
    version, listed = case.version, ", ".join(case.smddp_releases)
    if former := case.former_smddp_releases.get(version):
        return (
            f"AWS's page no longer lists smddp for {case.title} {version} ({former}); it lists it"
            f" for: {listed}"
        )
    if tables.is_older(last, version):
        return f"no image of this {case.title} version contains smddp; these do: {listed}"
    return f"AWS's pages name no smddp for {case.title} {version}; they do for: {listed}"


def _smddp_hugging_face(case: Case) -> Iterator[Problem]:
    """Refuse an image whose version has smddp in AWS's own image, and that lacks it."""
    uri = case.training.image_uri
    if uri and case.aws_image and (source := tables.image_without_smddp(uri)):
        message = f"does not contain smddp, as users found: {source}"
        advice = "take AWS's own pytorch-training image of that version"
        yield case.problem("image_uri", message, advice)


def _smddp_allgather(case: Case) -> Iterator[Problem]:
    """AllGather for FSDP came with a later release of smddp."""
    release, since = case.smddp_releases.get(case.version), tables.smddp_allgather_since()
    able = [
        version
        for version, each in case.smddp_releases.items()
        if not tables.is_older(each.smddp_version, since)
    ]
    if case.has_unknown_image or case.training.collective is not Collective.ALLGATHER:
        return
    if able and release and case.version not in able:
        message = (
            f"smddp {release.smddp_version} in the image of {case.version} has no AllGather for"
            f" FSDP; these have: {', '.join(able)}"
        )
        yield case.problem("framework_version", message, "choose one of them")


def _horovod_recipe(case: Case) -> Iterator[Problem]:
    """What a recipe installs can be read. AWS's image for GPUs is the one that it may extend."""
    name, text = case.training.build_image, case.code.recipe
    if not name or text is None or "horovod" in text.lower() or case.code.installs("horovod"):
        return
    base = recipes.recipe(name).version
    last = tables.last_horovod(case.framework, "gpu")
    if base is None or tables.is_older(last, base):
        message, image = (
            "the recipe does not install Horovod",
            f"AWS's image of {case.title} {base}",
        )
        if base:
            message += f", nor does {image}, which it extends, contain it"
        advice = f"install it in {recipes.FOLDER}/{name}, or name horovod in {REQUIREMENTS}"
        yield case.problem("build_image", message, f"{advice} of source_dir")


def _horovod_image(case: Case) -> Iterator[Problem]:
    if case.may_have_horovod or case.code.installs("horovod") or not case.has_image:
        return
    last, device = case.last_horovod, case.device.upper()
    message = (
        f"AWS's {device} image of {case.title} {case.version} does not contain Horovod (the last"
        f" {device} one that does: {last})"
    )
    python = tables.python_of(case.framework, last) or "0"
    advice = (
        f"name horovod in {REQUIREMENTS} of source_dir, extend the image and name it in"
        " training.image_uri"
    )
    earlier = "" if case.is_before_scripts(python) else f"use {last} or earlier, "
    yield case.problem("framework_version", message, f"{earlier}{advice}")


def _first_version(case: Case) -> Iterator[Problem]:
    first = tables.strategy(case.strategy).since.get(case.framework)
    if first and not case.has_unknown_image and tables.is_older(case.version, first):
        message = (
            f"SDK v2 refuses {case.strategy} before {case.title} {first}, and so does Shoal:"
            " from which image on the toolkit knows it is not documented"
        )
        yield case.problem("framework_version", message, f"use {first} or later")


def _torchrun_package(case: Case) -> Iterator[Problem]:
    if case.code.is_package and case.contract.launcher == "torchrun":
        message = (
            f"contains {SETUP}: the training toolkit then installs it as a package, which torchrun"
            " cannot start"
        )
        advice = f"move {SETUP} elsewhere, or name a folder without one"
        yield case.problem("source_dir", message, advice)


def _framework_strategy(case: Case) -> Iterator[Problem]:
    allowed = case.framework_strategies
    if case.strategy not in allowed:
        message = f"is not a strategy of {case.framework}; these are: {', '.join(allowed)}"
        yield case.problem("strategy", message, "choose one of them, or another framework")


def _collective(case: Case) -> Iterator[Problem]:
    training = case.training
    is_smddp = (training.framework, training.strategy) == (Framework.PYTORCH, Strategy.SMDDP)
    if training.collective is Collective.ALLGATHER and training.strategy in SMDDP and not is_smddp:
        message = "smddp has AllGather only for PyTorch, with strategy: smddp"
        yield case.problem("collective", message, "remove it")


def _launcher(case: Case) -> Iterator[Problem]:
    training = case.training
    is_allreduce = training.strategy in SMDDP and training.collective is Collective.ALLREDUCE
    is_named = "launcher" in training.model_fields_set
    if is_named and is_allreduce and training.launcher is Launcher.TORCHRUN:
        message = "smddp's AllReduce is started by mpirun only"
        yield case.problem("launcher", message, "remove it, or set collective: allgather")


def _fallback(case: Case) -> Iterator[Problem]:
    training, allowed = case.training, case.fallbacks
    if training.fallback is None or training.fallback in allowed:
        return
    if allowed:
        message = (
            f"must be one that can run where {training.strategy} cannot; for {training.framework}:"
            f" {', '.join(allowed)}"
        )
        yield case.problem("fallback", message, f"use {allowed[0]}, or remove it")
    else:
        yield case.problem("fallback", f"{training.strategy} needs no fallback", "remove it")


def _hosts(case: Case) -> Iterator[Problem]:
    hosts, count = tables.strategy(case.strategy).hosts, case.training.instance_count
    if count < hosts.min:
        message = f"{case.strategy} needs at least {hosts.min} instances"
        yield case.problem("instance_count", message, f"use {hosts.min} or more")
    if hosts.max is not None and count > hosts.max:
        message = (
            f"{case.strategy} runs on one instance; the others would each train on their own and"
            " overwrite the model"
        )
        others = [
            name for name in case.framework_strategies if tables.strategy(name).hosts.max is None
        ]
        advice = f"use 1, or a strategy that spans instances: {', '.join(others)}"
        yield case.problem("instance_count", message, advice)


def _script(case: Case) -> Iterator[Problem]:
    """Refuse the script of another strategy where the folder has the right one: it would train
    alone, or not at all.
    """
    framework, source_dir = case.framework, case.training.source_dir
    own = defaults(framework, case.strategy).entry_point
    owners = strategies_with_script(framework, case.script)
    if owners and case.script != own and case.code.has(own):
        message = (
            f"is {source_dir}'s script for {' and '.join(owners)}; for {case.strategy} it is {own}"
        )
        yield case.problem("entry_point", message, f"remove it, or set strategy: {owners[0]}")


def _version(case: Case) -> Iterator[Problem]:
    """Without a row in the table there is no image, and the scripts may need a Python."""
    if case.training.image_uri is not None:
        return
    versions = ", ".join(
        version for version, tags in case.images.items() if not case.is_before_scripts(tags.python)
    )
    if case.is_python_too_old:
        message = (
            f"AWS's image of it has Python {case.python}, and {case.training.source_dir} needs"
            f" {case.training.min_python}; known: {versions}"
        )
        advice = "choose one of them, or scripts that need less"
        yield case.problem("framework_version", message, advice)
    elif case.tags is None and not (case.strategy in SMDDP and case.is_former):
        message = f"is not in the table of images; known: {versions}"
        advice = "choose one of them, or name an image of it in training.image_uri"
        yield case.problem("framework_version", message, advice)


def _min_version(case: Case) -> Iterator[Problem]:
    """The scripts may need what only later versions of the framework have."""
    oldest, source_dir = case.training.min_framework_version, case.training.source_dir
    if oldest and tables.is_older(case.version, oldest):
        message = f"{source_dir} needs {case.title} {oldest} or later"
        yield case.problem("framework_version", message, f"use {oldest} or later")


def _requirement(case: Case) -> Iterator[Problem]:
    if case.tags is None or case.has_unknown_image:
        return
    requirement, word = case.tags.missing, case.tags.missing_for
    if requirement and case.code.says(word) and not case.code.installs(requirement):
        message = f"AWS's image of it lacks {requirement}, which {case.training.source_dir} needs"
        advice = f"name {requirement} in {REQUIREMENTS} of source_dir, or choose another version"
        yield case.problem("framework_version", message, advice)


def _gpus(case: Case) -> Iterator[Problem]:
    """An image's CUDA may be too old for the instance's GPUs, or too new."""
    cuda, gpus = case.cuda, tables.gpus(case.training.instance_type)
    if not cuda or gpus is None:
        return
    what = f"has {gpus.gpu} GPUs, which the image's CUDA {cuda} does not support"
    if tables.is_older(cuda, gpus.first):
        message = f"{what}: {gpus.first} and later do"
        advice = "use a later framework version, or earlier GPUs"
        yield case.problem("instance_type", message, advice)
    if gpus.last and tables.is_older(gpus.last, cuda):
        message = f"{what}: {gpus.last} is the last that does"
        advice = "use an earlier framework version, or later GPUs"
        yield case.problem("instance_type", message, advice)


def _region(case: Case) -> Iterator[Problem]:
    if tables.registry(case.region) is None:
        message = (
            "has no registry of AWS's Deep Learning Containers, which evaluation and endpoint need"
        )
        advice = (
            "choose another region, or add it to packages/shoal/src/shoal/launch/registries.yaml"
            " with its source"
        )
        yield Problem("region", message, advice, case.region)


def _pinned_image(case: Case) -> Iterator[Problem]:
    uri = case.training.image_uri
    if uri is not None and not image_uri.is_pinned(uri):
        message = "must be a full image URI with a tag or a digest, and not :latest"
        advice = "write registry/repository:tag or registry/repository@sha256:..."
        yield case.problem("image_uri", message, advice)


def _image_purpose(case: Case) -> Iterator[Problem]:
    if purpose := _other_purpose(case):
        message = (
            f"is an image of AWS's that {purpose}: it does not start SageMaker's training toolkit,"
            " and the job would not train"
        )
        advice = "take one from a -training repository whose tag ends with -sagemaker"
        yield case.problem("image_uri", message, advice)


def _other_purpose(case: Case) -> str | None:
    """Return what AWS's image in `image_uri` is for, unless it is for training."""
    uri = case.training.image_uri
    if uri is None or not image_uri.is_from_aws(uri):
        return None
    if "inference" in image_uri.repository(uri):
        return "serves models"
    return "is made for EC2" if _FOR_EC2.search(uri) else None


def _image_contents(case: Case) -> Iterator[Problem]:
    """What AWS's image says of itself must be what the other keys say."""
    image, training = case.aws_image, case.training
    if image is None or _other_purpose(case):
        return
    title = TITLES[image.framework]
    if image.framework != training.framework:
        message = f"is AWS's image of {title}, but framework is {training.framework}"
        advice = f"set framework: {image.framework}, or take another image"
        yield case.problem("image_uri", message, advice)
    elif not image.has_version(case.version):
        message = (
            f"is AWS's image of {title} {image.version}, but framework_version is {case.version}"
        )
        advice = f"set framework_version: {image.full_version}, or take another image"
        yield case.problem("image_uri", message, advice)
    if image.device == "cpu" and case.has_gpus:
        message = f"is AWS's image for CPUs, but {training.instance_type} has GPUs"
        yield case.problem("image_uri", message, "take the -gpu- tag, or another instance type")


def _image_python(case: Case) -> Iterator[Problem]:
    """Scripts may need a Python, and no framework before a certain version exists for it."""
    image, source_dir, oldest = case.aws_image, case.training.source_dir, case.training.min_python
    if case.training.image_uri is None or oldest is None:
        return
    if image and image.python and case.is_before_scripts(image.python):
        message = f"has Python {image.python}, and {source_dir} needs {oldest}"
        advice = "take a later image, or scripts that need less"
        yield case.problem("image_uri", message, advice)
    first = tables.first_with_python(case.framework, oldest)
    if image is None and first and tables.is_older(case.version, first):
        message = (
            f"{source_dir} needs Python {oldest}, for which {case.title} exists from {first} on"
        )
        advice = f"use {first} or later in the image, or scripts that need less"
        yield case.problem("framework_version", message, advice)


def _recipe(case: Case) -> Iterator[Problem]:
    """Only recipes in packages/shoal/src/shoal/launch/recipes.yaml are ever built."""
    name = case.training.build_image
    if name is None:
        return
    if name in recipes.names():
        yield from _recipe_contents(case, recipes.recipe(name))
        return
    advice = "choose one, or add your own to images/ and to recipes.yaml of shoal.launch"
    if near := difflib.get_close_matches(name, recipes.names(), n=1):
        advice = f"use {near[0]}"
    message = f"is not a recipe; these are: {', '.join(recipes.names())}"
    yield case.problem("build_image", message, advice)


def _recipe_contents(case: Case, recipe: recipes.Recipe) -> Iterator[Problem]:
    framework, version = case.framework, recipe.framework_version
    if case.training.image_uri is not None:
        message = "is not allowed together with training.image_uri: one image trains"
        yield case.problem("build_image", message, "remove one of the two")
    if recipe.framework != framework:
        others = [each for each in recipes.names() if recipes.recipe(each).framework == framework]
        message = f"is an image of {recipe.framework}, but framework is {framework}"
        advice = f"use {' or '.join(others)}, or set framework: {recipe.framework}"
        yield case.problem("build_image", message, advice)
    elif version != case.version:
        message = f"contains {recipe.framework} {version}, but framework_version is {case.version}"
        advice = f'set framework_version: "{version}", or change the recipe'
        yield case.problem("build_image", message, advice)


def _mpi_options(case: Case) -> Iterator[Problem]:
    """Options that do not do what they look like, or that nothing reads."""
    options, contract = case.training.custom_mpi_options, case.contract
    if contract.launcher == "mpirun":
        for message, advice in mistakes_in(options, _mpirun_variables(case)):
            yield case.problem("custom_mpi_options", message, advice)
    elif options and not case.is_swapped:
        message = f"is only read by mpirun, and {contract.label} is started by {contract.launcher}"
        advice = "remove it, or use strategy: smddp with collective: allreduce"
        yield case.problem("custom_mpi_options", message, advice)
    size = max((len(value) for value in contract.hyperparameters().values()), default=0)
    if size > MAX_VALUE:
        message = (
            f"is sent as {size} characters, quotes and what Shoal adds included; SageMaker allows"
            f" {MAX_VALUE}"
        )
        advice = "shorten it, or set variables in training.environment"
        yield case.problem("custom_mpi_options", message, advice)


def _mpirun_variables(case: Case) -> tuple[str, ...]:
    """Return the variables that mpirun is given whatever `custom_mpi_options` say."""
    runner = "smddp" if case.contract.is_smddp_by_mpirun else "horovod"
    added = (OPTIMIZE_SDP,) if case.contract.own_options else ()
    return (*tables.passed_by_toolkit(runner, case.training.instance_type), *added)


def _ranks(case: Case) -> Iterator[Problem]:
    contract = case.contract
    is_read = contract.launcher in STARTS_RANKS
    if case.training.processes_per_host is not None and not is_read and not case.is_swapped:
        how = f"{contract.label} is started by {contract.launcher}"
        message = f"is only read by mpirun and torchrun, and {how}"
        yield case.problem("processes_per_host", message, "remove it")


def _hidden_allgather(case: Case) -> Iterator[Problem]:
    if (value := case.training.environment.get(OPTIMIZE_SDP)) is not None:
        key = f"training.environment.{OPTIMIZE_SDP}"
        message = "is what collective: allgather with launcher: mpirun sets, on every rank"
        yield Problem(key, message, "remove it, and set those two", value)


def _backend(case: Case) -> Iterator[Problem]:
    """The script's own option must fit the strategy that starts it."""
    training, label = case.training, case.contract.label
    key, backend = "training.hyperparameters.backend", training.hyperparameters.get("backend")
    if training.framework is not Framework.PYTORCH:
        return
    if backend == "smddp" and training.strategy not in SMDDP:
        message = f"asks for smddp, and {label} is started without its checks"
        advice = "set strategy: smddp with collective: allgather, or another backend"
        yield Problem(key, message, advice, backend)
    elif backend in ("nccl", "gloo") and case.strategy in SMDDP:
        message = f"keeps the script off smddp, which {label} is paid for"
        yield Problem(key, message, "remove it, set backend: smddp, or strategy: torchrun", backend)
    elif backend == "nccl" and not case.has_gpus:
        message = f"needs GPUs, and {training.instance_type} has none"
        yield Problem(key, message, "use gloo, or remove it", backend)


def _sharding(case: Case) -> Iterator[Problem]:
    """FSDP gathers weights and scatters gradients; smddp's AllReduce and AllGather exclude each
    other (developer guide, launching with smddp).
    """
    training, asked = case.training, case.training.hyperparameters.get("sharding")
    if asked == "fsdp" and training.collective is Collective.ALLREDUCE:
        message = f"is FSDP, of which {case.contract.label} accelerates nothing"
        advice = "set strategy: smddp with collective: allgather, or strategy: torchrun"
        yield Problem("training.hyperparameters.sharding", message, advice, asked)


def _torchrun_words(case: Case) -> Iterator[Problem]:
    """torchrun reads the script's options too, and ends the job for an ambiguous one."""
    if case.contract.launcher != "torchrun":
        return
    for name, value in case.training.hyperparameters.items():
        if options := ambiguous_with(name):
            some = ", ".join(f"--{option}" for option in options[:3])
            message = (
                f"reaches the script as --{name}, which torchrun takes for the beginning of its own"
                f" {some}: it ends the job as ambiguous"
            )
            yield Problem(f"training.hyperparameters.{name}", message, "rename it", value)


_ANY = tuple(Strategy)
RULES = (
    Rule(_smddp_instance, SMDDP, mended_by_fallback=True),
    Rule(_smddp_image, SMDDP, mended_by_fallback=True),
    Rule(_smddp_hugging_face, SMDDP, mended_by_fallback=True),
    Rule(_smddp_allgather, SMDDP, mended_by_fallback=True),
    Rule(_horovod_recipe, (Strategy.HOROVOD,), mended_by_fallback=True),
    Rule(_horovod_image, (Strategy.HOROVOD,), mended_by_fallback=True),
    Rule(_first_version, _ANY, mended_by_fallback=True),
    Rule(_torchrun_package, _ANY, mended_by_fallback=True),
    Rule(_framework_strategy),
    Rule(_collective, _ANY),
    Rule(_launcher, _ANY),
    Rule(_fallback, _ANY),
    Rule(_hosts, _ANY),
    Rule(_script, _ANY),
    Rule(_version),
    Rule(_min_version),
    Rule(_requirement),
    Rule(_gpus),
    Rule(_region),
    Rule(_pinned_image),
    Rule(_image_purpose),
    Rule(_image_contents),
    Rule(_image_python),
    Rule(_recipe),
    Rule(_mpi_options),
    Rule(_ranks),
    Rule(_hidden_allgather),
    Rule(_backend),
    Rule(_sharding, SMDDP),
    Rule(_torchrun_words),
)
"""The rules, in the order in which their problems are reported."""
