"""The training section and the region in, one `Launch` out: images, hyperparameters and notices, or
every reason why it cannot run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from config.errors import LaunchError
from config.hyperparameters import HyperparameterValue
from config.rules import MAX_HYPERPARAMETERS
from config.settings import Framework, Training
from pipelines.launch import source_code, tables
from pipelines.launch.availability import SMDDP
from pipelines.launch.contract import Contract, Horovod
from pipelines.launch.notices import notices_of
from pipelines.launch.refusals import chosen, contract_of, problems_of

CONTAINER_MODEL_DIR = "/opt/ml/model"


@dataclass(frozen=True)
class Launch:
    """A training job that can run: which images, started how."""

    contract: Contract
    framework: Framework
    entry_point: str
    """The script that runs; another than asked for where the fallback needs its own."""
    image_uri: str
    """Image of the training job."""
    evaluation_image_uri: str
    """Image of the evaluation job, without GPU libraries."""
    inference_image_uri: str
    """Image of the endpoint, without GPU libraries."""
    hyperparameters: Mapping[str, str]
    """The toolkit's hyperparameters, JSON in strings, without those of one job: see `for_job`."""
    notices: tuple[str, ...] = ()
    """What the user should know although it runs, one line each."""
    backend: str | None = None
    """What the script's own `backend: smddp` becomes, where the fallback runs without smddp."""

    def script_arguments(
        self, own: Mapping[str, HyperparameterValue]
    ) -> dict[str, HyperparameterValue]:
        """The script's hyperparameters as they fit the strategy that runs."""
        return {
            name: self.backend if self.backend and (name, value) == ("backend", "smddp") else value
            for name, value in own.items()
        }

    @property
    def images(self) -> tuple[str, ...]:
        """Every image the pipeline starts."""
        return (self.image_uri, self.evaluation_image_uri, self.inference_image_uri)

    @property
    def needs_model_dir(self) -> bool:
        """Whether the job's `model_dir` (TensorFlow) is a folder in S3 that belongs to the job; see
        `for_job`.
        """
        return self.framework is Framework.TENSORFLOW and "model_dir" not in self.hyperparameters

    def for_job(
        self,
        submit_directory: str,
        job_name: str,
        own: Mapping[str, HyperparameterValue],
        output_path: str = "",
    ) -> dict[str, str]:
        """All of one job outside a pipeline (a notebook, boto3), the script's `own` included, as
        SDK v2 sends them.

        `output_path` is the job's S3OutputPath; TensorFlow's `model_dir` lies below it. Raises
        ValueError if it is missing there, and if there are more hyperparameters than SageMaker
        takes.
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
        sent = {
            **self.hyperparameters,
            **{name: json.dumps(value) for name, value in values.items()},
        }
        if len(sent) > MAX_HYPERPARAMETERS:
            raise ValueError(
                f"a job takes {MAX_HYPERPARAMETERS} hyperparameters, and this one has {len(sent)},"
                " the toolkit's included"
            )
        return sent


def resolve(training: Training, region: str, file: str = "", root: Path | None = None) -> Launch:
    """What `training` starts in `region`.

    Raises LaunchError with every reason why it cannot run; `file` opens its lines.

    `root` is the repository, in which `source_dir` may have a requirements.txt that mends what an
    image lacks.
    """
    code = source_code.read(root, training)
    strategy, why = chosen(training, code)
    problems = problems_of(training, region, code)
    notices = [
        f"{training.strategy} -> {strategy}: {problem.key} = {problem.given}: {problem.message}"
        for problem in why
    ]
    contract, swapped = contract_of(training, strategy), strategy is not training.strategy
    if problems:
        raise LaunchError(file, problems)
    backend = _backend(training) if swapped else None
    if backend:
        notices.append(
            f"training.hyperparameters.backend: smddp -> {backend}, because {contract.label} runs"
            " without smddp"
        )
    notices += _image_notices(training)
    notices += notices_of(training, region, contract, swapped)
    script = source_code.script_of(training, strategy)
    keys = _hyperparameters(training, region, contract, script)
    return Launch(
        contract,
        training.framework,
        script,
        *_images(training, region),
        keys,
        tuple(notices),
        backend,
    )


def _backend(training: Training) -> str | None:
    """torch.distributed's own backend for these instances, where the script was told to use
    smddp.
    """
    if (
        training.framework is not Framework.PYTORCH
        or training.strategy not in SMDDP
        or training.hyperparameters.get("backend") != "smddp"
    ):
        return None
    return "nccl" if tables.has_gpus(training.instance_type) else "gloo"


def _hyperparameters(
    training: Training, region: str, contract: Contract, script: str
) -> dict[str, str]:
    """As SDK v2 writes them: every value is JSON, so a text has quotes in it."""
    texts = {"sagemaker_program": script, "sagemaker_region": region}
    if contract.names_instance_type:
        texts["sagemaker_instance_type"] = training.instance_type
    if training.framework is Framework.TENSORFLOW and isinstance(contract, Horovod):
        texts["model_dir"] = CONTAINER_MODEL_DIR
    encoded = {name: json.dumps(value) for name, value in texts.items()}
    return {**encoded, "sagemaker_container_log_level": "20", **contract.hyperparameters()}


def _rows(training: Training) -> tuple[str, tables.ImageTags]:
    """The version whose images evaluate and serve: the one asked for, or where only `image_uri` has
    it, the nearest one.
    """
    rows, version = tables.image_tags(training.framework), training.framework_version
    if version in rows:
        return version, rows[version]
    least = tables.least_python(training.framework) if source_code.is_ours(training) else "0"
    return tables.nearest_images(training.framework, version, least)


def _images(training: Training, region: str) -> tuple[str, str, str]:
    framework, (_, tags) = training.framework, _rows(training)
    own = tags.training_gpu if tables.has_gpus(training.instance_type) else tags.training_cpu
    return (
        training.image_uri or tables.image_uri(region, framework, "training", own),
        tables.image_uri(region, framework, "training", tags.training_cpu),
        tables.image_uri(region, framework, "inference", tags.inference_cpu),
    )


def _image_notices(training: Training) -> list[str]:
    version, _ = _rows(training)
    given = training.framework_version
    if version == given:
        return []
    return [
        f"training.framework_version {given} is not in the table of images: evaluation and endpoint"
        f" run in those of {version}"
    ]
