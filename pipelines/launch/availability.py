"""A training section and a strategy in; every reason why the strategy cannot run on these instances
with this image out.

These are the reasons that a fallback mends, because another strategy could run;
`pipelines.launch.obstacles` has those that it does not. A fallback is asked the same questions as
the strategy that was chosen; `pipelines.launch.refusals` adds what could run instead.
"""

from __future__ import annotations

from collections.abc import Iterator

from config.errors import Problem
from config.settings import Collective, Framework, Strategy, Training
from config.strategies import strategies_of
from pipelines.launch import own_image, recipes, tables
from pipelines.launch.own_image import TITLES
from pipelines.launch.source_code import REQUIREMENTS, SETUP, SourceCode, is_ours

FALLBACKS = {
    Framework.PYTORCH: (Strategy.TORCHRUN,),
    Framework.TENSORFLOW: (Strategy.HOROVOD, Strategy.MULTI_WORKER_MIRRORED),
}
"""What a framework can fall back to: strategies that need neither special hardware nor another
library of AWS's.
"""
SMDDP = (Strategy.SMDDP, Strategy.PYTORCHDDP)
_ANYWHERE = (Strategy.NONE, Strategy.MIRRORED, Strategy.PARAMETER_SERVER)
"""Strategies that nothing in this module stops, so that a fallback would never be used."""
_VERSION = "training.framework_version"


def blocking(training: Training, strategy: Strategy, code: SourceCode) -> Iterator[Problem]:
    """Why `strategy`, the one that was chosen or its fallback, cannot run."""
    if strategy not in strategies_of(training.framework):
        return
    if strategy in SMDDP:
        yield from _no_smddp_here(training)
        yield from _no_smddp_in(training)
    if strategy is Strategy.HOROVOD:
        yield from _no_horovod(training, code)
    yield from _too_old(training, strategy)
    if tables.strategy(strategy).launcher == "torchrun" or _starts_torchrun(training, strategy):
        yield from _package(training, code)


def fallbacks_of(training: Training) -> list[Strategy]:
    """What `fallback` may name; nothing for a strategy that runs with every instance type and
    image.
    """
    if training.strategy in _ANYWHERE:
        return []
    return [
        strategy for strategy in FALLBACKS[training.framework] if strategy is not training.strategy
    ]


def has_horovod(training: Training) -> bool:
    """Whether AWS's image contains Horovod, as far as its tables say; an image of the user's own
    may.
    """
    last = tables.horovod_images(training.framework).last[device_of(training)]
    return own_image.is_unknown(training) or tables.ordered(
        training.framework_version
    ) <= tables.ordered(last)


def device_of(training: Training) -> str:
    """What the training image is made for: gpu or cpu."""
    image = own_image.aws_image(training)
    return (image.device if image else None) or (
        "gpu" if tables.has_gpus(training.instance_type) else "cpu"
    )


def _starts_torchrun(training: Training, strategy: Strategy) -> bool:
    return (
        strategy is Strategy.SMDDP
        and training.collective is Collective.ALLGATHER
        and training.launcher == "torchrun"
    )


def _no_smddp_here(training: Training) -> Iterator[Problem]:
    """The instance type, and what smddp accelerates there."""
    instance_type, types = training.instance_type, tables.smddp_instance_types()
    if instance_type not in types:
        names = ", ".join(
            name if "allgather" in kinds else f"{name} (AllReduce only)"
            for name, kinds in types.items()
        )
        former = tables.former_smddp_instance_type(instance_type)
        once = f" ({former} named it; today's does not)" if former else ""
        message = f"smddp cannot run on this instance type{once}; it runs only on {names}"
        yield Problem("training.instance_type", message, "choose one of them", instance_type)
    elif training.collective not in types[instance_type]:
        message = f"smddp accelerates only {', '.join(types[instance_type])} on {instance_type}"
        yield Problem(
            "training.collective",
            message,
            "use ml.p4d.24xlarge or ml.p4de.24xlarge",
            str(training.collective),
        )


def _no_smddp_in(training: Training) -> Iterator[Problem]:
    """The image.

    An own image may contain a wheel of smddp, but none was ever made for a framework after the last
    one in the table.
    """
    version, title = training.framework_version, TITLES[training.framework]
    releases = tables.smddp_releases(training.framework)
    if own_image.is_unknown(training):
        last = list(releases)[-1]
        if tables.ordered(version)[:2] > tables.ordered(last)[:2]:
            message = f"there is no smddp for {title} after {last}, so no image can contain it"
            yield Problem(_VERSION, message, f"use {last} or earlier", version)
    elif version not in releases and _is_told_of_smddp(training):
        yield Problem(_VERSION, _why_no_smddp_in(training), "choose one of them", version)
    elif version in releases and training.collective is Collective.ALLGATHER:
        yield from _no_allgather_in(training)


def is_former(training: Training) -> bool:
    """Whether the images of this version contain a release of smddp that AWS's page no longer
    lists.
    """
    return training.framework_version in tables.former_smddp_releases(training.framework)


def _is_told_of_smddp(training: Training) -> bool:
    """Whether smddp is what is wrong with the version, and not that there is no image of it, or one
    too old for our scripts.
    """
    known = training.framework_version in tables.image_tags(training.framework)
    return (
        training.image_uri is not None or known or (is_former(training) and not is_ours(training))
    )


def _why_no_smddp_in(training: Training) -> str:
    """Of a version between or before the rows nobody says that its image contains nothing; AWS's
    pages just do not name it.
    """
    version, title = training.framework_version, TITLES[training.framework]
    releases, former = (
        tables.smddp_releases(training.framework),
        tables.former_smddp_releases(training.framework),
    )
    listed = ", ".join(releases)
    if version in former:
        return (
            f"AWS's page no longer lists smddp for {title} {version} ({former[version]}); it lists"
            f" it for: {listed}"
        )
    if tables.ordered(version) > tables.ordered(list(releases)[-1]):
        return f"no image of this {title} version contains smddp; these do: {listed}"
    return f"AWS's pages name no smddp for {title} {version}; they do for: {listed}"


def _no_allgather_in(training: Training) -> Iterator[Problem]:
    releases, since = tables.smddp_releases(training.framework), tables.smddp_allgather_since()
    able = [
        name
        for name, release in releases.items()
        if tables.ordered(release.smddp_version) >= tables.ordered(since)
    ]
    if able and training.framework_version not in able:
        found = releases[training.framework_version].smddp_version
        message = (
            f"smddp {found} in the image of {training.framework_version} has no AllGather for FSDP;"
            f" these have: {', '.join(able)}"
        )
        yield Problem(_VERSION, message, "choose one of them", training.framework_version)


def _no_horovod(training: Training, code: SourceCode) -> Iterator[Problem]:
    is_known = training.image_uri is not None or training.framework_version in tables.image_tags(
        training.framework
    )
    if training.build_image is not None:
        yield from _no_horovod_in_recipe(training, training.build_image, code)
    if has_horovod(training) or code.installs("horovod") or not is_known:
        return
    last, device = (
        tables.horovod_images(training.framework).last[device_of(training)],
        device_of(training).upper(),
    )
    message = (
        f"AWS's {device} image of {TITLES[training.framework]} {training.framework_version} does"
        f" not contain Horovod (the last {device} one that does: {last})"
    )
    earlier = f"use {last} or earlier, " if _our_scripts_run_in(training, last) else ""
    mended = (
        f"name horovod in {REQUIREMENTS} of source_dir, extend the image and name it in"
        " training.image_uri"
    )
    yield Problem(_VERSION, message, f"{earlier}{mended}", training.framework_version)


def _no_horovod_in_recipe(training: Training, name: str, code: SourceCode) -> Iterator[Problem]:
    """What a recipe installs can be read; AWS's image for GPUs is what it extends, if it does."""
    if code.recipe is None or "horovod" in code.recipe.lower() or code.installs("horovod"):
        return
    below, last = (
        recipes.recipe(name).version,
        tables.horovod_images(training.framework).last["gpu"],
    )
    if below is None or tables.ordered(below) > tables.ordered(last):
        beneath = (
            f", nor does AWS's image of {TITLES[training.framework]} {below}, which it extends,"
            " contain it"
            if below
            else ""
        )
        advice = (
            f"install it in {recipes.FOLDER}/{name}, or name horovod in {REQUIREMENTS} of"
            " source_dir"
        )
        yield Problem(
            "training.build_image", f"the recipe does not install Horovod{beneath}", advice, name
        )


def _our_scripts_run_in(training: Training, version: str) -> bool:
    """Whether `source_dir` is the user's own, or the images of `version` have a Python for ours."""
    python, least = (
        tables.python_of(training.framework, version) or "0",
        tables.least_python(training.framework),
    )
    return not is_ours(training) or tables.ordered(python) >= tables.ordered(least)


def _too_old(training: Training, strategy: Strategy) -> Iterator[Problem]:
    first = tables.strategy(strategy).since.get(training.framework)
    if (
        own_image.is_unknown(training)
        or not first
        or tables.ordered(training.framework_version) >= tables.ordered(first)
    ):
        return
    message = (
        f"SDK v2 refuses {strategy} before {TITLES[training.framework]} {first}, and so does Shoal:"
        " from which image on the toolkit knows it is not documented"
    )
    yield Problem(_VERSION, message, f"use {first} or later", training.framework_version)


def _package(training: Training, code: SourceCode) -> Iterator[Problem]:
    if code.is_package:
        message = (
            f"contains {SETUP}: the training toolkit then installs it as a package, which torchrun"
            " cannot start"
        )
        yield Problem(
            "training.source_dir",
            message,
            f"move {SETUP} elsewhere, or name a folder without one",
            training.source_dir,
        )
