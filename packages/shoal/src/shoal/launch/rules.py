"""The rules of what can run, in the order in which their problems are reported.

A rule of one strategy says why that cannot run on these instances with this image: another could.
All other rules hold whatever runs. What they say is in rules.yaml.
"""

import difflib
from collections.abc import Callable, Collection, Iterator

from shoal.launch import contract, image_uri, recipes, tables, watch
from shoal.launch.case import SMDDP, TITLES, Case, problem, problem_at
from shoal.launch.contract import OPTIMIZE_SDP, STARTS_RANKS, mistakes_in, passed_with
from shoal.settings.frameworks import Framework, defaults, strategies_of
from shoal.settings.parsing.errors import Problem
from shoal.settings.settings import Collective, Launcher, Strategy

MAX_VALUE = 2500  # botocore, sagemaker HyperParameterValue
_ANY = tuple(Strategy)
Check = Callable[[Case], Iterator[Problem]]


def _smddp_instance(case: Case) -> Iterator[Problem]:
    """Not every instance type has smddp, nor each of its collectives."""
    instance_type, types = case.training.instance_type, tables.smddp_instance_types()
    if instance_type not in types:
        names = ", ".join(
            name if "allgather" in kinds else f"{name} (AllReduce only)"
            for name, kinds in types.items()
        )
        former = tables.table_of("smddp")["former_instance_types"].get(instance_type)
        once = f" ({former['until']} named it; today's does not)" if former else ""
        yield problem(case, "smddp has no instance", names=names, once=once)
    elif case.training.collective not in types[instance_type]:
        collectives = ", ".join(types[instance_type])
        yield problem(case, "smddp lacks the collective", collectives=collectives)


def _smddp_image(case: Case) -> Iterator[Problem]:
    """An own image may have a wheel of smddp. Of versions between rows AWS says nothing."""
    version, releases = case.version, case.smddp_releases
    last, listed = list(releases)[-1], ", ".join(releases)
    if case.has_unknown_image:
        if tables.ordered(version)[:2] > tables.ordered(last)[:2]:
            yield problem(case, "smddp has ended", last=last)
    elif version not in releases and (
        case.has_image or (case.is_former and not case.is_python_too_old)
    ):
        if former := tables.former_smddp_releases(case.framework).get(version):
            yield problem(case, "smddp is listed no longer", former=former, listed=listed)
        elif tables.is_older(last, version):
            yield problem(case, "smddp is in no later image", listed=listed)
        else:
            yield problem(case, "smddp is not named", listed=listed)


def _smddp_hugging_face(case: Case) -> Iterator[Problem]:
    """Refuse an image whose version has smddp in AWS's own image, and that lacks it."""
    uri = case.training.image_uri or ""
    for name, source in tables.table_of("smddp")["images_without"].items():
        if case.aws_image and f"/{name}" in uri:
            yield problem(case, "smddp is not in this image", source=source)


def _smddp_allgather(case: Case) -> Iterator[Problem]:
    """AllGather for FSDP came with a later release of smddp."""
    if case.has_unknown_image or case.training.collective is not Collective.ALLGATHER:
        return
    since = tables.table_of("smddp")["allgather_since"]
    release = case.smddp_releases.get(case.version)
    able = [
        version
        for version, each in case.smddp_releases.items()
        if not tables.is_older(each.smddp_version, since)
    ]
    if able and release and case.version not in able:
        facts = {"release": release.smddp_version, "able": ", ".join(able)}
        yield problem(case, "smddp has no AllGather", **facts)


def _horovod_recipe(case: Case) -> Iterator[Problem]:
    """What a recipe installs can be read. AWS's image for GPUs is the one that it may extend."""
    name, text = case.training.build_image, case.code.recipe
    if not name or text is None or "horovod" in text.lower() or case.code.installs("horovod"):
        return
    base = recipes.recipe(name).version
    if base is None or tables.is_older(tables.last_horovod(case.framework, "gpu"), base):
        image = f"AWS's image of {case.title} {base}"
        extended = f", nor does {image}, which it extends, contain it" if base else ""
        yield problem(case, "the recipe has no Horovod", base=extended)


def _horovod_image(case: Case) -> Iterator[Problem]:
    if case.may_have_horovod or case.code.installs("horovod") or not case.has_image:
        return
    python = tables.python_of(case.framework, case.last_horovod) or "0"
    earlier = "" if case.is_before_scripts(python) else f"use {case.last_horovod} or earlier, "
    facts = {"device": case.device.upper(), "earlier": earlier}
    yield problem(case, "the image has no Horovod", **facts)


def _start(case: Case) -> Iterator[Problem]:
    """Refuse what SDK v2 starts in later versions alone, and a package under torchrun."""
    row = tables.table_of("strategies")["strategies"][case.strategy]
    first = row.get("since", {}).get(case.framework)
    if first and not case.has_unknown_image and tables.is_older(case.version, first):
        yield problem(case, "SDK v2 knows it later", first=first)
    if case.code.is_package and case.contract.launcher == "torchrun":
        yield problem(case, "torchrun starts no package")


def _framework_strategy(case: Case) -> Iterator[Problem]:
    allowed = strategies_of(case.framework)
    if case.strategy not in allowed:
        yield problem(case, "another framework's strategy", allowed=", ".join(allowed))


def _smddp_keys(case: Case) -> Iterator[Problem]:
    """smddp has AllGather for PyTorch only, and its AllReduce comes with a launcher."""
    training = case.training
    is_smddp = (training.framework, training.strategy) == (Framework.PYTORCH, Strategy.SMDDP)
    if training.collective is Collective.ALLGATHER:
        if not is_smddp:
            yield problem(case, "AllGather is smddp's")
    elif "launcher" in training.model_fields_set and training.launcher is Launcher.TORCHRUN:
        yield problem(case, "AllReduce is mpirun's")


def _hosts(case: Case) -> Iterator[Problem]:
    (fewest, most), count = tables.hosts(case.strategy), case.training.instance_count
    if count < fewest:
        yield problem(case, "too few hosts", fewest=fewest)
    if most is not None and count > most:
        others = [name for name in strategies_of(case.framework) if tables.hosts(name)[1] is None]
        yield problem(case, "too many hosts", others=", ".join(others) or "none here")


def _script(case: Case) -> Iterator[Problem]:
    """Refuse the script of another strategy where the folder has the right one (it would train
    alone, or not at all), and a path for XGBoost's image (its training.py: `run_module`; read).
    """
    names, script = strategies_of(case.framework), case.training.entry_point
    scripts = {name: defaults(case.framework, name)["entry_point"] for name in names}
    owners = [name for name in names if scripts[name] == script]
    own = scripts.get(case.strategy, script)
    if owners and script != own and case.code.has(own):
        facts = {"owners": " and ".join(owners), "first": owners[0]}
        yield problem(case, "another strategy's script", own=own, **facts)
    if case.framework is Framework.XGBOOST and "/" in script:
        yield problem(case, "a script in a folder")


def _version(case: Case) -> Iterator[Problem]:
    """Without a row there is no image; scripts may need a Python, or a later framework."""
    versions = ", ".join(
        version for version, tags in case.images.items() if not case.is_before_scripts(tags.python)
    )
    if case.training.image_uri is None and case.is_python_too_old:
        yield problem(case, "the image's Python is too old", versions=versions)
    elif not case.has_image and not (case.strategy in SMDDP and case.is_former):
        yield problem(case, "the version is not known", versions=versions)
    oldest = case.training.min_framework_version
    if oldest and tables.is_older(case.version, oldest):
        yield problem(case, "the version is too old")


def _requirement(case: Case) -> Iterator[Problem]:
    if case.tags is None or case.has_unknown_image:
        return
    requirement, word = case.tags.missing, case.tags.missing_for
    if requirement and case.code.says(word) and not case.code.installs(requirement):
        yield problem(case, "the image lacks a package", requirement=requirement)


def _gpus(case: Case) -> Iterator[Problem]:
    """An image's CUDA may be too old for the instance's GPUs, or too new, or it has none."""
    cuda, gpus = case.cuda, tables.gpus(case.training.instance_type)
    tags = case.tags if case.training.image_uri is None else None  # of AWS's image, which trains
    if case.has_gpus and tags and not tags.training_gpu:
        yield problem(case, "no image for GPUs")
    if not cuda or gpus is None:
        return
    if tables.is_older(cuda, gpus.first):
        yield problem(case, "CUDA is too old", gpus=gpus)
    if gpus.last and tables.is_older(gpus.last, cuda):
        yield problem(case, "CUDA is too new", gpus=gpus)


def _region(case: Case) -> Iterator[Problem]:
    if tables.registry(case.region, tables.repository_of(case.framework, "training")) is None:
        yield problem_at("region", case.region, case, "no registry")


def _image_contents(case: Case) -> Iterator[Problem]:
    """What AWS's image says of itself must be what the other keys say."""
    image = case.aws_image
    if purpose := image_uri.other_purpose(case.training.image_uri):
        yield problem(case, "the image does not train", purpose=purpose)
    if image is None or purpose:
        return
    facts = {"image": image, "title": TITLES[image.framework]}
    if image.framework != case.framework:
        yield problem(case, "the image's framework", **facts)
    elif not image.has_version(case.version):
        yield problem(case, "the image's version", **facts)
    if image.device == "cpu" and case.has_gpus:
        yield problem(case, "the image is for CPUs")


def _image_python(case: Case) -> Iterator[Problem]:
    """Scripts may need a Python, and no framework before a certain version exists for it."""
    image, oldest = case.aws_image, case.training.min_python
    if case.training.image_uri is None or oldest is None:
        return
    if image and image.python and case.is_before_scripts(image.python):
        yield problem(case, "the image's Python", image=image)
    first = tables.table_of("images")["first_with_python"][case.framework].get(oldest)
    if image is None and first and tables.is_older(case.version, first):
        yield problem(case, "no framework for the Python", first=first)


def _recipe(case: Case) -> Iterator[Problem]:
    """Only recipes in packages/shoal/src/shoal/launch/recipes.yaml are ever built."""
    name, names = case.training.build_image, recipes.names(serves=False)
    if name is None:
        return
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        choice = "choose one, or add your own to images/ and to recipes.yaml of shoal.launch"
        choice = f"use {near[0]}" if near else choice
        yield problem(case, "no such recipe", names=", ".join(names), choice=choice)
        return
    recipe, framework = recipes.recipe(name), case.framework
    if case.training.image_uri is not None:
        yield problem(case, "two images")
    if recipe.framework != framework:
        others = [each for each in names if recipes.recipe(each).framework == framework]
        facts = {"recipe": recipe, "others": " or ".join(others)}
        yield problem(case, "the recipe's framework", **facts)
    elif recipe.framework_version != case.version:
        yield problem(case, "the recipe's version", recipe=recipe)


def _launcher(case: Case) -> Iterator[Problem]:
    """Options that do not do what they look like, or that the launcher does not read."""
    options, contract = case.training.custom_mpi_options, case.contract
    if contract.launcher == "mpirun":
        for mistake, instead in mistakes_in(
            options, passed_with(contract, case.training.instance_type)
        ):
            yield problem(case, "a trap of mpirun", mistake=mistake, instead=instead)
    elif options:
        yield problem(case, "no mpirun")
    size = max((len(value) for value in contract.hyperparameters().values()), default=0)
    if size > MAX_VALUE:
        yield problem(case, "the options are too long", size=size, limit=MAX_VALUE)
    is_read = contract.launcher in STARTS_RANKS
    if case.training.processes_per_host is not None and not is_read:
        yield problem(case, "no ranks")
    if (value := case.training.environment.get(OPTIMIZE_SDP)) is not None:
        yield problem_at(f"training.environment.{OPTIMIZE_SDP}", value, case, "hidden AllGather")


def _backend(case: Case) -> Iterator[Problem]:
    """The script's own option must fit the strategy that starts it."""
    training, backend = case.training, case.training.hyperparameters.get("backend")
    about = "training.hyperparameters.backend", backend, case
    if training.framework is not Framework.PYTORCH:
        return
    if backend == "smddp" and training.strategy not in SMDDP:
        yield problem_at(*about, "smddp unchecked")
    elif backend in ("nccl", "gloo") and case.strategy in SMDDP:
        yield problem_at(*about, "smddp unused")
    elif backend == "nccl" and not case.has_gpus:
        yield problem_at(*about, "nccl without GPUs")


def _sharding(case: Case) -> Iterator[Problem]:
    """FSDP gathers weights and scatters gradients; smddp's AllReduce and AllGather exclude each
    other (developer guide, launching with smddp).
    """
    sharding = case.training.hyperparameters.get("sharding")
    if sharding == "fsdp" and case.training.collective is Collective.ALLREDUCE:
        yield problem_at("training.hyperparameters.sharding", sharding, case, "FSDP over AllReduce")


def _words(case: Case) -> Iterator[Problem]:
    """Refuse a value of several words for a shell, and an option that torchrun takes for its."""
    is_torchrun = case.contract.launcher == "torchrun"
    for name, value in case.training.hyperparameters.items():
        key = f"training.hyperparameters.{name}"
        if case.shell_switch is None and " " in str(value):
            yield problem_at(key, value, case, "words for a shell")
        if is_torchrun and (options := tables.torchrun_options_from(name)):
            some = ", ".join(f"--{option}" for option in options[:3])
            yield problem_at(key, value, case, "torchrun's own options", some=some, option=name)


def _efa(case: Case) -> Iterator[Problem]:
    """Say why a job that requires EFA would always fail, or why nothing in it would look."""
    training, code, types = case.training, case.code, contract.efa_instance_types()
    if not training.require_efa:
        return
    is_looked_at = code.folder is None or watch.proves_network(training, code)
    if training.instance_type not in types:
        yield problem(case, "no EFA", some=", ".join(types[:3]), others=len(types) - 3)
    elif not (is_looked_at or code.says(contract.REQUIRE)):
        yield problem(case, "nothing looks for EFA", variable=contract.REQUIRE)
    else:
        forms = {
            "environment.{} = {}": training.environment,
            "custom_mpi_options -x {}={}": contract.variables_in(training.custom_mpi_options),
        }
        for form, variables in forms.items():
            for name, value in contract.opposing(variables):
                yield problem(case, "EFA is avoided", name=name, setting=form.format(name, value))


_OF_ONE: dict[Check, Collection[Strategy]] = {
    _smddp_instance: SMDDP,
    _smddp_image: SMDDP,
    _smddp_hugging_face: SMDDP,
    _smddp_allgather: SMDDP,
    _horovod_recipe: (Strategy.HOROVOD,),
    _horovod_image: (Strategy.HOROVOD,),
    _start: _ANY,
}
"""Rules of one strategy, and the strategies that each is about."""
_OTHERS: dict[Check, Collection[Strategy] | None] = {
    _framework_strategy: None,
    _smddp_keys: SMDDP,
    _hosts: _ANY,
    _script: _ANY,
    _version: None,
    _requirement: None,
    _gpus: None,
    _region: None,
    _image_contents: None,
    _image_python: None,
    _recipe: None,
    _launcher: None,
    _backend: None,
    _sharding: SMDDP,
    _words: None,
    _efa: None,
}
"""The others, likewise; None for a rule of what every strategy needs."""


def problems(case: Case, *, of_one_strategy: bool) -> list[Problem]:
    """Return what the rules of one kind find, in their order."""
    is_known = case.strategy in strategies_of(case.framework)
    rules = _OF_ONE if of_one_strategy else _OTHERS
    return [
        found
        for check, strategies in rules.items()
        if strategies is None or (is_known and case.strategy in strategies)
        for found in check(case)
    ]
