"""Turn a training section into a `Launch`, or say every reason why it cannot run and what would run
instead, which has passed all rules itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from shoal.launch import recipes, rules, source_code, tables
from shoal.launch.case import FALLBACKS, SMDDP, Case
from shoal.launch.contract import Contract
from shoal.launch.notices import notices_of
from shoal.launch.source_code import SourceCode
from shoal.settings.frameworks import CLASSICAL, Framework
from shoal.settings.hyperparameters import HyperparameterValue
from shoal.settings.loading.loader import environment_file
from shoal.settings.loading.rules import MAX_HYPERPARAMETERS
from shoal.settings.parsing.errors import LaunchError, Problem
from shoal.settings.sections.serving import Endpoint
from shoal.settings.settings import Environment, Strategy, Training

CONTAINER_MODEL_DIR = "/opt/ml/model"
_ENDPOINT = Endpoint()


@dataclass(frozen=True)
class Launch:
    """A training job that can run: which images, started how."""

    case: Case
    """What runs: the strategy or its fallback."""
    image_uri: str
    """Image of the training job."""
    evaluation_image_uri: str
    """Image of the evaluation job, without GPU libraries."""
    inference_image_uri: str
    """Image of the endpoint: its own, a name for the one that is built, or AWS's."""
    hyperparameters: Mapping[str, str]
    """The toolkit's hyperparameters, JSON in strings, without those of one job (see `for_job`)."""
    notices: tuple[str, ...] = ()
    """What the user should know although it runs, one line each."""
    inference_ami_version: str | None = None
    """Image of the endpoint's instances, where the file or the recipe names one."""
    backend: str | None = None
    """What the script's own `backend: smddp` becomes, where the fallback runs without smddp."""

    def script_arguments(
        self, own: Mapping[str, HyperparameterValue]
    ) -> dict[str, HyperparameterValue]:
        """Return the script's hyperparameters as they fit the strategy that runs."""
        return {
            name: self.backend if self.backend and (name, value) == ("backend", "smddp") else value
            for name, value in own.items()
        }

    @property
    def contract(self) -> Contract:
        return self.case.contract

    @property
    def entry_point(self) -> str:
        """The script that runs: the file's, or the one that the fallback needs."""
        return self.case.script

    @property
    def needs_model_dir(self) -> bool:
        """Whether the job's `model_dir` (TensorFlow) is its own folder in S3; see `for_job`."""
        is_tensorflow = self.case.framework is Framework.TENSORFLOW
        return is_tensorflow and "model_dir" not in self.hyperparameters

    def for_job(
        self,
        submit_directory: str,
        job_name: str,
        own: Mapping[str, HyperparameterValue],
        output_path: str = "",
    ) -> dict[str, str]:
        """Return the hyperparameters of one job outside a pipeline (a notebook, boto3), as SDK v2
        sends them.

        `own` are the script's. `output_path` is the job's S3OutputPath; TensorFlow's `model_dir`
        lies below it. Raises ValueError if it is missing there, or if there are more
        hyperparameters than SageMaker takes.
        """
        values = {
            **self.script_arguments(own),
            "sagemaker_submit_directory": submit_directory,
            "sagemaker_job_name": job_name,
        }
        if self.needs_model_dir:
            if not output_path:
                raise ValueError(
                    "a TensorFlow job needs output_path, for its hyperparameter model_dir"
                )
            values["model_dir"] = f"{output_path.rstrip('/')}/{job_name}/model"
        encoded = {name: json.dumps(value) for name, value in values.items()}
        sent = {**self.hyperparameters, **encoded}
        if len(sent) > MAX_HYPERPARAMETERS:
            raise ValueError(
                f"a job takes {MAX_HYPERPARAMETERS} hyperparameters, and this one has {len(sent)},"
                " the toolkit's included"
            )
        return sent


def resolve(
    training: Training,
    region: str,
    file: str = "",
    root: Path | None = None,
    *,
    endpoint: Endpoint | None = _ENDPOINT,
    recipe: str | None = None,
) -> Launch:
    """Return what `training` starts in `region`, with the image of the endpoint that follows it, if
    one does: its own, that of a `recipe`, or AWS's.

    `root` is the repository: the requirements.txt of `source_dir` may add what an image lacks.
    Raises LaunchError with every reason why the training cannot run; `file` opens its lines.
    """
    case, reasons = choose(training, region, source_code.read(root, training))
    if problems := problems_of(case):
        raise LaunchError(file, problems)
    notices = [
        f"{training.strategy} -> {case.strategy}: {problem.key} = {problem.value}:"
        f" {problem.message}"
        for problem in reasons
    ]
    backend = _backend(case)
    if backend:
        notices.append(
            f"training.hyperparameters.backend: smddp -> {backend}, because {case.contract.label}"
            " runs without smddp"
        )
    version, tags = _cpu_images(case)
    # whoever writes a pickle reads it, too
    only = training.image_uri if training.framework in CLASSICAL else None
    if version != case.version and only is None:
        notices.append(
            f"training.framework_version {case.version} is not in the table of images: evaluation"
            f" and endpoint run in those of {version}"
        )
    training_tag = tags.training_gpu if case.has_gpus else tags.training_cpu
    on_gpus = endpoint is not None and tables.has_gpus(endpoint.instance_type)
    own_server = endpoint and (endpoint.image_uri or _built(recipe, region))
    ami = None
    if endpoint:
        instance_type = endpoint.instance_type
        ami = endpoint.inference_ami_version or recipes.ami_of(instance_type, own_server or "")
    return Launch(
        case,
        training.image_uri or tables.image_uri(region, tags.repository, training_tag),
        only or tables.image_uri(region, tags.repository, tags.training_cpu),
        own_server
        or only
        or tables.image_uri(
            region,
            tables.inference_repository(training.framework),
            tags.inference_gpu if on_gpus else tags.inference_cpu,
        ),
        _hyperparameters(case),
        (*notices, *notices_of(case, serves=endpoint is not None and not own_server)),
        ami,
        backend,
    )


def _built(recipe: str | None, region: str) -> str | None:
    """Return a name for the image of a recipe that serves, with the tag of the image below it."""
    if recipe is None or recipe not in recipes.names(serves=True):
        return None
    return f"{recipes.FOLDER}/{recipe}:{recipes.build_arguments(recipe, region)['TAG']}"


def launch_of(environment: Environment, root: Path | None = None) -> Launch:
    """Return what trains in `environment`. Raises LaunchError."""
    file = environment_file(environment.name)
    launch = resolve(
        environment.training,
        environment.region,
        file,
        root,
        endpoint=environment.endpoint,
        recipe=environment.built_images.get("endpoint"),
    )
    index = environment.organisation.package_index
    return replace(launch, case=replace(launch.case, package_index=index)) if index else launch


def _backend(case: Case) -> str | None:
    """Return torch.distributed's own backend for these instances, where the script asks for smddp
    and the fallback runs without it.
    """
    training = case.training
    uses_smddp = training.hyperparameters.get("backend") == "smddp" and training.strategy in SMDDP
    if not (case.is_swapped and uses_smddp and training.framework is Framework.PYTORCH):
        return None
    return "nccl" if case.has_gpus else "gloo"


def _hyperparameters(case: Case) -> dict[str, str]:
    """Return them as SDK v2 writes them: every value is JSON, so a text has quotes in it."""
    texts = {"sagemaker_program": case.script, "sagemaker_region": case.region}
    if case.contract.names_instance_type:
        texts["sagemaker_instance_type"] = case.training.instance_type
    if (case.framework, case.strategy) == (Framework.TENSORFLOW, Strategy.HOROVOD):
        texts["model_dir"] = CONTAINER_MODEL_DIR
    encoded = {name: json.dumps(value) for name, value in texts.items()}
    has_spaces = any(" " in str(each) for each in case.training.hyperparameters.values())
    switches = {case.shell_switch: "true"} if case.shell_switch and has_spaces else {}
    encoded |= {"sagemaker_container_log_level": "20", **switches}
    return {**encoded, **case.contract.hyperparameters()}


def _cpu_images(case: Case) -> tuple[str, tables.ImageTags]:
    """Return the version whose images evaluate and serve: the training's own or, where only
    `image_uri` has that one, the nearest.
    """
    if case.tags is not None:
        return case.version, case.tags
    python = case.training.min_python or "0"
    return tables.nearest_images(case.framework, case.version, python)


def choose(training: Training, region: str, code: SourceCode) -> tuple[Case, list[Problem]]:
    """Return the case that runs and, where it is the fallback, why the strategy cannot."""
    case = Case.of(training, region, code, training.strategy)
    reasons = rules.problems(case, mended_by_fallback=True)
    if reasons and training.fallback in case.fallbacks:
        return Case.of(training, region, code, training.fallback), reasons
    return case, []


def problems_of(case: Case) -> list[Problem]:
    """Return every reason why `case` cannot run, each with what to do."""
    mendable = rules.problems(case, mended_by_fallback=True)
    others = rules.problems(case, mended_by_fallback=False)
    if not mendable:
        return others
    offers = list(_strategies(case, others))
    if case.training.strategy in SMDDP and not offers:
        offers = _later_version(case, others)
    instead = f", or set {', or '.join(offers)}" if offers else ""
    return [
        problem
        if problem.key == "training.source_dir"
        else replace(problem, advice=problem.advice + instead)
        for problem in mendable
    ] + others


def _strategies(case: Case, others: list[Problem]) -> Iterator[str]:
    """Yield the strategies and fallbacks that would run."""
    for key in ("strategy", "fallback"):
        able = [
            strategy
            for strategy in FALLBACKS[case.framework]
            if _runs(case, others, strategy, {key: strategy})
        ]
        if able:
            yield f"training.{key}: {' or '.join(able)}"


def _later_version(case: Case, others: list[Problem]) -> list[str]:
    """Return the first later version of AWS's images with which another strategy would run."""
    if case.training.image_uri is not None or case.training.build_image is not None:
        return []
    later = [version for version in case.images if tables.is_older(case.version, version)]
    for version, strategy in product(later, FALLBACKS[case.framework]):
        if _runs(case, others, strategy, {"framework_version": version, "strategy": strategy}):
            return [f"training.framework_version: {version} with training.strategy: {strategy}"]
    return []


def _runs(
    case: Case, others: list[Problem], expected: Strategy, changes: Mapping[str, str]
) -> bool:
    """Return whether `expected` would run with these keys, but for the problems that stay."""
    keys = case.training.model_dump(exclude_unset=True) | dict(changes)
    changed, _ = choose(Training.model_validate(keys), case.region, case.code)
    if changed.strategy is not expected or rules.problems(changed, mended_by_fallback=True):
        return False
    accepted = {(problem.key, problem.message) for problem in others}
    return all(
        (problem.key, problem.message) in accepted
        for problem in rules.problems(changed, mended_by_fallback=False)
    )
