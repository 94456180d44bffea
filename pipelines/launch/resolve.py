"""The training section and the region in, one `Launch` out: images, hyperparameters and notices, or every reason why it cannot run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from config.errors import LaunchError
from config.hyperparameters import HyperparameterValue
from config.settings import Collective, Framework, Strategy, Training
from config.strategies import defaults
from pipelines.launch import obstacles, own_image, tables
from pipelines.launch.contract import (
    Contract,
    Horovod,
    Mirrored,
    MultiWorkerMirrored,
    ParameterServer,
    PytorchDdp,
    SingleProcess,
    SmddpAllGather,
    SmddpAllReduce,
    Torchrun,
)

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

    @property
    def images(self) -> tuple[str, ...]:
        """Every image the pipeline starts."""
        return (self.image_uri, self.evaluation_image_uri, self.inference_image_uri)

    @property
    def needs_model_dir(self) -> bool:
        """Whether the job's `model_dir` (TensorFlow) is a folder in S3 that belongs to the job; see `for_job`."""
        return self.framework is Framework.TENSORFLOW and "model_dir" not in self.hyperparameters

    def for_job(
        self, submit_directory: str, job_name: str, own: Mapping[str, HyperparameterValue], output_path: str = ""
    ) -> dict[str, str]:
        """All of one job outside a pipeline (a notebook, boto3), the script's `own` included, as SDK v2 sends them.

        `output_path` is the job's S3OutputPath; TensorFlow's `model_dir` lies below it. Raises ValueError if it is missing there.
        """
        values = {**own, "sagemaker_submit_directory": submit_directory, "sagemaker_job_name": job_name}
        if self.needs_model_dir:
            if not output_path:
                raise ValueError("a TensorFlow job needs output_path, for its hyperparameter model_dir")
            values["model_dir"] = f"{output_path.rstrip('/')}/{job_name}/model"
        return {**self.hyperparameters, **{name: json.dumps(value) for name, value in values.items()}}


def resolve(training: Training, region: str, file: str = "") -> Launch:
    """What `training` starts in `region`. Raises LaunchError with every reason why it cannot run; `file` opens its lines."""
    notices: list[str] = []
    strategy, problems = training.strategy, list(obstacles.blocking(training))
    if problems and training.fallback and training.fallback is not training.strategy:
        strategy = training.fallback
        notices += [f"{training.strategy} -> {strategy}: {problem.key} = {problem.given}: {problem.message}" for problem in problems]
        problems = []
    contract = _contract(training, strategy)
    swapped = strategy is not training.strategy
    problems += [
        *obstacles.in_strategy(training, strategy),
        *obstacles.in_images(training, region),
        *obstacles.in_options(training, contract, swapped),
    ]
    if problems:
        raise LaunchError(file, problems)
    images = _images(training, region)
    script = _entry_point(training, strategy)
    notices += [*own_image.notices_of(training, region, contract.label), *_notices(training, contract, swapped)]
    keys = _hyperparameters(training, region, contract, script)
    return Launch(contract, training.framework, script, *images, hyperparameters=keys, notices=tuple(notices))


def _contract(training: Training, strategy: Strategy) -> Contract:
    options = training.custom_mpi_options
    if strategy is Strategy.SMDDP and training.collective is Collective.ALLGATHER:
        return SmddpAllGather()
    contracts: dict[Strategy, Contract] = {
        Strategy.SMDDP: SmddpAllReduce(options),
        Strategy.PYTORCHDDP: PytorchDdp(options),
        Strategy.TORCHRUN: Torchrun(),
        Strategy.HOROVOD: Horovod(options, training.processes_per_host),
        Strategy.PARAMETER_SERVER: ParameterServer(),
        Strategy.MULTI_WORKER_MIRRORED: MultiWorkerMirrored(),
        Strategy.MIRRORED: Mirrored(),
        Strategy.NONE: SingleProcess(),
    }
    return contracts[strategy]


def _entry_point(training: Training, strategy: Strategy) -> str:
    """The script of the strategy that runs, unless the environment names one itself."""
    if strategy is training.strategy or "entry_point" in training.model_fields_set:
        return training.entry_point
    return defaults(training.framework, strategy).entry_point


def _hyperparameters(training: Training, region: str, contract: Contract, script: str) -> dict[str, str]:
    """As SDK v2 writes them: every value is JSON, so a text has quotes in it."""
    texts = {"sagemaker_program": script, "sagemaker_region": region}
    if contract.names_instance_type:
        texts["sagemaker_instance_type"] = training.instance_type
    if training.framework is Framework.TENSORFLOW and isinstance(contract, Horovod):
        texts["model_dir"] = CONTAINER_MODEL_DIR
    encoded = {name: json.dumps(value) for name, value in texts.items()}
    return {**encoded, "sagemaker_container_log_level": "20", **contract.hyperparameters()}


def _images(training: Training, region: str) -> tuple[str, str, str]:
    framework = training.framework
    tags = tables.image_tags(framework)[training.framework_version]
    own = tags.training_gpu if tables.has_gpus(training.instance_type) else tags.training_cpu
    return (
        training.image_uri or tables.image_uri(region, framework, "training", own),
        tables.image_uri(region, framework, "training", tags.training_cpu),
        tables.image_uri(region, framework, "inference", tags.inference_cpu),
    )


def _notices(training: Training, contract: Contract, swapped: bool) -> Iterator[str]:
    if swapped and training.custom_mpi_options and contract.launcher != "mpirun":
        yield f"training.custom_mpi_options is not used: {contract.launcher} does not read it"
    if training.strategy is not Strategy.SMDDP and "collective" in training.model_fields_set:
        yield "training.collective is not used: only strategy smddp reads it"
    if isinstance(contract, SmddpAllGather):
        yield "training.collective allgather: torchrun does not tell the script to use smddp; the script's own option must (backend: smddp)"
    if isinstance(contract, SmddpAllReduce | SmddpAllGather):
        yield from _smddp_notices(training)
    if isinstance(contract, Horovod):
        yield from _horovod_notices(training)
    if isinstance(contract, ParameterServer | Mirrored):
        yield from _device_notices(training, contract)
    if not training.image_uri and (notice := tables.image_tags(training.framework)[training.framework_version].notice):
        yield f"training.framework_version: {notice}"


def _smddp_notices(training: Training) -> Iterator[str]:
    if notice := tables.smddp_releases(training.framework)[training.framework_version].notice:
        yield f"training.framework_version: {notice}"
    if training.instance_count == 1:
        yield "training.instance_count is 1: smddp runs, but it is made for traffic between nodes and gains nothing on one"


def _device_notices(training: Training, contract: Contract) -> Iterator[str]:
    has_gpus = tables.has_gpus(training.instance_type)
    if isinstance(contract, ParameterServer) and has_gpus:
        yield "parameter_server has one worker on each instance: of several GPUs it uses one"
    if isinstance(contract, Mirrored) and not has_gpus:
        yield f"mirrored makes one replica per GPU, and {training.instance_type} has none: the replicas share its cores"


def _horovod_notices(training: Training) -> Iterator[str]:
    if training.image_uri or training.build_image:
        return
    images, device = tables.horovod_images(training.framework), "gpu" if tables.has_gpus(training.instance_type) else "cpu"
    too_new = tables.ordered(training.framework_version) > tables.ordered(images.last)
    if too_new or device not in images.devices:
        title = own_image.TITLES[training.framework]
        which = f"AWS's {device.upper()} image of {title} {training.framework_version}"
        kinds = "" if len(images.devices) > 1 else f" {images.devices[0].upper()}"
        yield (
            f"{which} does not contain Horovod (the last{kinds} one that does: {images.last}); "
            "name horovod in requirements.txt of source_dir, or extend the image and name it in training.image_uri"
        )
