"""Turn a training section into a `Launch`, or say why it cannot run, and what would."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from shoal.launch import recipes, rules, tables
from shoal.launch.case import SMDDP, Case, notices_of, read_source
from shoal.settings.frameworks import CLASSICAL, Framework
from shoal.settings.hyperparameters import HyperparameterValue
from shoal.settings.loading.loader import environment_file
from shoal.settings.loading.rules import MAX_HYPERPARAMETERS
from shoal.settings.parsing.errors import LaunchError, Problem
from shoal.settings.sections.serving import Endpoint
from shoal.settings.settings import Environment, Strategy, Training

CONTAINER_MODEL_DIR = "/opt/ml/model"
OTHERS = {
    Framework.PYTORCH: (Strategy.TORCHRUN,),
    Framework.TENSORFLOW: (Strategy.HOROVOD, Strategy.MULTI_WORKER_MIRRORED),
    Framework.SKLEARN: (),
    Framework.XGBOOST: (),
}
"""Strategies that need neither special hardware nor another library of AWS's."""
_ENDPOINT = Endpoint()


@dataclass(frozen=True)
class Launch:
    """A training job that can run: which images, started how."""

    case: Case
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
            **own,
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
    case = Case.of(training, region, read_source(root, training))
    if problems := problems_of(case):
        raise LaunchError(file, problems)
    version, tags = case.version, case.tags
    # Where only `image_uri` has that version, the images of the nearest one evaluate and serve.
    if tags is None:
        oldest = training.min_python or "0"
        version, tags = tables.nearest_images(case.framework, case.version, oldest)
    # whoever writes a pickle reads it, too
    only = training.image_uri if training.framework in CLASSICAL else None
    notices = []
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
            tables.repository_of(training.framework, "inference"),
            tags.inference_gpu if on_gpus else tags.inference_cpu,
        ),
        _hyperparameters(case),
        (*notices, *notices_of(case, serves=endpoint is not None and not own_server)),
        ami,
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


def _hyperparameters(case: Case) -> dict[str, str]:
    """Return them as SDK v2 writes them: every value is JSON, so a text has quotes in it."""
    texts = {"sagemaker_program": case.training.entry_point, "sagemaker_region": case.region}
    if case.contract.names_instance_type:
        texts["sagemaker_instance_type"] = case.training.instance_type
    if (case.framework, case.strategy) == (Framework.TENSORFLOW, Strategy.HOROVOD):
        texts["model_dir"] = CONTAINER_MODEL_DIR
    encoded = {name: json.dumps(value) for name, value in texts.items()}
    has_spaces = any(" " in str(each) for each in case.training.hyperparameters.values())
    switches = {case.shell_switch: "true"} if case.shell_switch and has_spaces else {}
    encoded |= {"sagemaker_container_log_level": "20", **switches}
    return {**encoded, **case.contract.hyperparameters()}


def problems_of(case: Case) -> list[Problem]:
    """Return every reason why `case` cannot run, each with what to do."""
    others = rules.problems(case, of_one_strategy=False)
    if not (own := rules.problems(case, of_one_strategy=True)):
        return others
    strategies = OTHERS[case.framework]
    able = [each for each in strategies if _runs(case, others, {"strategy": each})]
    offer = f", or set training.strategy: {' or '.join(able)}" if able else ""
    if case.strategy in SMDDP and not able:
        offer = _later_version(case, others)
    return [
        problem
        if problem.key == "training.source_dir"
        else replace(problem, advice=problem.advice + offer)
        for problem in own
    ] + others


def _later_version(case: Case, others: list[Problem]) -> str:
    """Offer the first later version of AWS's images with which another strategy would run."""
    if case.training.image_uri is not None or case.training.build_image is not None:
        return ""
    later = [version for version in case.images if tables.is_older(case.version, version)]
    for version, strategy in product(later, OTHERS[case.framework]):
        if _runs(case, others, {"framework_version": version, "strategy": strategy}):
            name = f"training.framework_version: {version}"
            return f", or set {name} with training.strategy: {strategy}"
    return ""


def _runs(case: Case, others: list[Problem], changes: Mapping[str, str]) -> bool:
    """Return whether the case would run with these keys, but for the problems that stay."""
    keys = case.training.model_dump(exclude_unset=True) | dict(changes)
    changed = Case.of(Training.model_validate(keys), case.region, case.code)
    if rules.problems(changed, of_one_strategy=True):
        return False
    accepted = {(problem.key, problem.message) for problem in others}
    return all(
        (problem.key, problem.message) in accepted
        for problem in rules.problems(changed, of_one_strategy=False)
    )
