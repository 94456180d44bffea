"""Check everything that would fail later, of a file that the loader has accepted."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from shoal.launch import Launch, launch_of, recipes, watch
from shoal.pipelines.checks import demand, instances, needs, schedules, scripts, slow_expressions
from shoal.pipelines.graph import placeholder_infrastructure
from shoal.pipelines.own_pipeline import STEPS, definition_of, standard_steps
from shoal.settings.loading.consumers import is_placeholder_account, pin_problems
from shoal.settings.loading.loader import environment_file, places
from shoal.settings.names import Names
from shoal.settings.parsing.errors import ConfigError, DefinitionError, Problem, Risk
from shoal.settings.parsing.plain_files import carried_folder, problems_in
from shoal.settings.sections import evaluation, scoring
from shoal.settings.sections.serving import TrafficType
from shoal.settings.settings import Environment, GuardRails, Target


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

    With `root`, the repository, its scripts and pin must fit, and lines name the line of the file,
    or of the overlay `strategy`.
    """
    file, training = environment_file(environment.name), environment.training
    where = places(environment.name, root, strategy, environment.workload) if root else {}

    def refuse(problems: Iterable[Problem]) -> None:
        if each := list(problems):
            raise ConfigError(file, each, where)

    try:
        refuse(_before_launch(environment, root))
        launch = launch_of(environment, root)
        if root:
            refuse(scripts.unreadable(environment, root))
        if root and environment.pipeline is None:
            refuse(scripts.lacks(environment, root, STEPS))
        stacks = placeholder_infrastructure(environment)
        definition = definition_of(environment, stacks, launch, root)
        steps = standard_steps(environment, stacks, launch, root, definition)
        if root and environment.pipeline is not None:
            refuse(scripts.lacks(environment, root, steps))
        refuse(_index(environment, launch))
        refuse(schedules.problems(environment, definition, scripts.script_at(training, root)))
        if environment.pipeline is None:
            refuse(instances.other_types(environment, definition, partial(check, root=root)))
        own = list(_notices(environment, launch))
        own += map(Risk, scripts.risks(environment, root, steps)) if root else ()
        own += map(Risk, evaluation.risks(environment.evaluation.gates))
        if root:
            # it calls `check` without a root, which asks nothing of memory, so this ends
            memory = list(needs.findings(environment, root, check))
            refuse(each for each in memory if isinstance(each, Problem))
            own += [each for each in memory if isinstance(each, Risk)]
    except ConfigError as error:
        raise type(error)(error.file or file, error.problems, where) from error
    except DefinitionError as error:
        lines = [f"SageMaker would refuse {mistake}" for mistake in error.mistakes]
        advice = "correct the value it came from"
        raise ConfigError(file, [Problem("", line, advice) for line in lines]) from error
    return CheckResult(launch, definition, (*own, *launch.notices))


def _before_launch(environment: Environment, root: Path | None) -> Iterator[Problem]:
    training = environment.training
    if links := list(_links(environment, root)):
        yield from links
        return
    yield from instances.problems(environment)
    yield from demand.problems(environment)
    yield from watch.problems(training)
    yield from pin_problems(environment, root)
    yield from slow_expressions.problems(environment)
    yield from scoring.problems(
        environment.scoring,
        environment.data.channels,
        environment.schedules,
        dataset_uri=Names(environment).dataset_uri,
        serves=environment.endpoint is not None,
        keeps_files=training.keeps_files,
    )
    yield from scripts.missing(environment, root)
    # What a model without a network cannot do (SageMaker developer guide, "Serverless Inference",
    # feature exclusions; where a container would download its model).
    endpoint, serving = environment.endpoint, environment.serving
    if serving and serving.serverless and serving.network_isolation:
        message = "is no feature of serverless endpoints"
        yield Problem("serving.network_isolation", message, "serve on instances, or remove it")
    if endpoint and endpoint.network_isolation:
        for name in ("HF_MODEL_ID", "OPTION_MODEL_ID"):
            if not (value := endpoint.environment.get(name, "/")).startswith("/"):
                message = "is to be downloaded, and endpoint.network_isolation lets nothing through"
                advice = "name the folder of the model, /opt/ml/model"
                yield Problem(f"endpoint.environment.{name}", message, advice, value)


def _links(environment: Environment, root: Path | None) -> Iterator[Problem]:
    """Yield the folders of the checkout that are packed, and have something else than files."""
    if root is None:
        return
    source_dir = root / environment.training.source_dir
    if links := list(problems_in("training.source_dir", source_dir, root)):
        yield from links
    elif shared := carried_folder(source_dir):
        yield from problems_in("training.source_dir", shared, root)
    for use, recipe in environment.built_images.items():
        if recipe in recipes.names():  # of others there are problems already
            folder, place = recipes.folder(recipe, root), recipes.folder_of_all(root).parent
            yield from problems_in(f"{use}.build_image", folder, place)


def _notices(environment: Environment, launch: Launch) -> Iterator[str]:
    training, network = environment.training, environment.network
    if environment.target is Target.AWS and is_placeholder_account(environment.account):
        yield (
            f"account {environment.account} is a placeholder from documentation; put your own there"
            " before you deploy to AWS"
        )
    names_type = training.capacity.preferences or "instance_type" in training.model_fields_set
    if environment.pipeline is None and not names_type:
        yield (
            f"training.instance_type is left out, so training takes {training.instance_type}; write"
            f" the type that you want (`shoal plan {environment.name}` has its price)"
        )
    if environment.guard_rails == GuardRails.OFF:
        yield (
            "guard_rails: off lets the pipeline's role start jobs of any type, anywhere and without"
            " a key; take it out once the first execution has succeeded"
        )
    if network.nat:
        yield (
            "network.nat: what runs in the VPC can open HTTPS connections to any address; see"
            " `shoal docs security`"
        )
    index, needs_index = environment.organisation.package_index, launch.case.code.needs_index
    if index and needs_index and index.url and not network.nat and not index.is_local:
        yield Risk(
            f"organisation.package_index.url: the VPC needs a way to {index.url}, which nothing"
            " here makes"
        )
    if index and index.url and environment.built_images:
        yield Risk(
            "organisation.package_index.url: images are built outside of the VPC, and ask"
            f" {index.url} from there"
        )
    if network.existing and needs_index and not (index and index.url):
        yield Risk(
            "requirements.txt is installed at the start of a job: the existing VPC needs a way to a"
            " package index"
        )
    yield from schedules.notices(environment)
    serving, release = environment.serving, environment.release
    if serving is None and release is not None:
        yield "a release is pinned, and nothing serves it: there is no section `serving`"
    if serving and release is None:
        yield "serving: nothing is served before a release is pinned; `shoal promote` pins one"
    is_at_once = serving and serving.traffic.type is TrafficType.ALL_AT_ONCE
    if serving and serving.serverless is None and is_at_once:
        yield (
            "serving.traffic: all traffic moves at once, so a bad release is seen by every caller"
            " until the alarms ring"
        )
    yield from instances.notices(environment, launch)
    yield from demand.quota_notices(environment)


def _index(environment: Environment, launch: Launch) -> Iterator[Problem]:
    """Yield where a requirements.txt has no way to a package index, would not come from the
    organisation's, or serving's would not: AWS's serving images install code/requirements.txt
    without asking who asks.

    The toolkit runs `pip install -r requirements.txt` in the container, which is in the VPC.
    Source: SageMaker developer guide, "Give SageMaker AI Training Jobs Access to Resources in Your
    Amazon VPC". On shoal-local a job has this machine's network.
    """
    case, key = launch.case, "organisation.package_index"
    if not case.code.needs_index:
        return
    wheels = "put wheels into the folder and write --no-index and --find-links for them"
    if environment.organisation.package_index is None:
        if environment.target is Target.AWS and not environment.network.has_way:
            message = (
                "has a requirements.txt, which every instance installs at the start of a job, and"
                " from this VPC there is no way to a package index: the job would fail after its"
                " instances were started"
            )
            advice = (
                f"{wheels}, install the packages in an image (training.build_image), name"
                f" {key}, or set network.nat: true"
            )
            yield Problem("training.source_dir", message, advice, case.training.source_dir)
        return
    endpoint = environment.endpoint
    advice = f"{wheels} in requirements.txt, or install the packages in an image"
    if not watch.starts(case.training, case.code):
        message = (
            "is for scripts in images of Python 3.9 or later, and what this one starts as a module"
            f" would install requirements.txt before: {case.title} {case.version}"
            f"{', a package (setup.py)' if case.code.is_package else ''}"
        )
        yield Problem(key, message, advice)
    is_aws_image = endpoint and not (endpoint.image_uri or "endpoint" in environment.built_images)
    if is_aws_image and any(case.code.says(f"{each}requirements.txt{each}") for each in "'\""):
        message = (
            "is not asked by AWS's serving image, and a script names requirements.txt, which that"
            " would install"
        )
        yield Problem(key, message, f"{advice} (endpoint.build_image)")
