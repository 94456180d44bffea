"""What the user should know although the training can run, one line each."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from shoal.launch import image_uri, tables
from shoal.launch.case import SMDDP, Case
from shoal.launch.contract import STARTS_RANKS
from shoal.launch.errors import Risk
from shoal.settings.settings import Collective, Framework, Strategy, Training

BY_PYTORCH = ("NCCL_DEBUG", "NCCL_IB_DISABLE", "NCCL_SOCKET_IFNAME", "MASTER_ADDR", "MASTER_PORT")
"""What sagemaker-pytorch-training 3.0.0 sets before it starts anything (training.py)."""


def notices_of(case: Case, *, serves: bool) -> Iterator[str]:
    """Yield the notices of a case that runs; `serves` says whether an endpoint follows it."""
    training, instance_type = case.training, case.training.instance_type
    yield from _image_uri(case)
    yield from _unread(case)
    yield from _overwritten(case)
    if "volume_size_gb" in training.model_fields_set and tables.has_nvme(instance_type):
        yield (
            f"training.volume_size_gb has no effect: {instance_type} has NVMe disks, which the job"
            " gets whole"
        )
    if case.contract.launcher in STARTS_RANKS and _share_gpus(training):
        yield (
            f"training.processes_per_host: {training.processes_per_host} ranks share the"
            f" {tables.gpu_count(instance_type)} GPUs of each {instance_type}; NCCL takes one rank"
            " per GPU"
        )
    yield from _strategy(case)
    if serves and case.tags and case.tags.notice:
        yield f"training.framework_version: {case.tags.notice}"


def _strategy(case: Case) -> Iterator[str]:
    """What the strategy that runs does not have, or does not use."""
    training = case.training
    if case.strategy in SMDDP:
        yield from _smddp(case)
    elif case.strategy is Strategy.HOROVOD and not case.may_have_horovod:
        yield Risk(
            "horovod in requirements.txt is compiled on every instance at the start: that needs a"
            " compiler and a way to a package index"
        )
    elif case.strategy is Strategy.MULTI_WORKER_MIRRORED and training.instance_count == 1:
        yield (
            "training.instance_count is 1: multi_worker_mirrored runs, but it is made for several;"
            " strategy: mirrored needs no cluster"
        )
    elif case.strategy is Strategy.PARAMETER_SERVER and case.has_gpus:
        yield "parameter_server has one worker on each instance: of several GPUs it uses one"
    elif case.strategy is Strategy.MIRRORED and not case.has_gpus:
        yield (
            f"mirrored makes one replica per GPU, and {training.instance_type} has none: the"
            " replicas share its cores"
        )


def _image_uri(case: Case) -> Iterator[str]:
    """What nobody can check in the image that the user named, and what looks unusual."""
    key, uri = "training.image_uri", case.training.image_uri
    if uri is None:
        return
    region = image_uri.region(uri)
    if region and region != case.region:
        yield f"{key} lies in {region}, but the job runs in {case.region}"
    if not (image_uri.is_from_aws(uri) and tables.starts_toolkit(image_uri.repository(uri))):
        yield f"{key} replaces AWS's image: nothing here can check what is in it"
        yield Risk(
            f"{key} must set SAGEMAKER_TRAINING_MODULE="
            f"sagemaker_{case.framework}_container.training:main: without it the toolkit ignores"
            f" the hyperparameters of {case.contract.label}"
        )
    elif case.aws_image is None:
        yield (
            f"{key} names AWS's image without a tag that says its version: nothing here can check"
            f" that it is {case.version}"
        )


def _unread(case: Case) -> Iterator[str]:
    """Options that the strategy, or its fallback, does not read."""
    training, contract = case.training, case.contract
    keys = training.model_fields_set
    if case.is_swapped and training.custom_mpi_options and contract.launcher != "mpirun":
        yield f"training.custom_mpi_options is not used: {contract.launcher} does not read it"
    if case.is_swapped and training.processes_per_host and contract.launcher not in STARTS_RANKS:
        yield (
            f"training.processes_per_host is not used: {contract.label} starts one process on each"
            " instance"
        )
    if training.strategy is not Strategy.SMDDP and "collective" in keys:
        yield "training.collective is not used: only strategy smddp reads it"
    if "launcher" in keys and (
        training.strategy is not Strategy.SMDDP or training.collective is not Collective.ALLGATHER
    ):
        yield (
            "training.launcher is not used: only strategy smddp with collective allgather reads it"
        )


def _overwritten(case: Case) -> Iterator[str]:
    """Variables that the toolkit sets: mpirun's runners two of them, PyTorch's training.py all."""
    is_pytorch = case.framework is Framework.PYTORCH
    is_mpirun = case.contract.launcher == "mpirun"
    for name in case.training.environment:
        if name in BY_PYTORCH and (is_pytorch or (is_mpirun and name in tables.mpirun().variables)):
            instead = (
                "; write --NCCL_DEBUG LEVEL in custom_mpi_options"
                if is_mpirun and name == "NCCL_DEBUG"
                else ""
            )
            yield (
                f"training.environment.{name} has no effect: the training toolkit sets it"
                f" itself{instead}"
            )


def _smddp(case: Case) -> Iterator[str]:
    training, count = case.training, case.training.processes_per_host
    backend = training.hyperparameters.get("backend")
    if case.contract.launcher == "torchrun" and backend != "smddp":
        yield (
            "training.collective allgather: torchrun does not tell the script to use smddp; the"
            " script's own option must (backend: smddp)"
        )
    uri = training.image_uri
    if case.aws_image and uri and image_uri.repository(uri).startswith("huggingface-"):
        yield Risk(
            "training.image_uri is one of Hugging Face's, for which AWS names no smddp: try the"
            " import before you pay for GPUs"
        )
    release = case.smddp_releases.get(case.version)
    if release is None:
        yield Risk(
            f"training.framework_version: AWS's table of smddp has no {case.version};"
            " training.image_uri must bring it"
        )
    elif release.notice:
        yield f"training.framework_version: {release.notice}"
    if training.instance_count == 1:
        yield (
            "training.instance_count is 1: smddp runs, but it is made for traffic between nodes and"
            " gains nothing on one"
        )
    if count and not _share_gpus(training):
        yield (
            f"training.processes_per_host: the toolkit starts {count} ranks on each instance; AWS"
            " documents smddp with one per GPU"
        )


def _share_gpus(training: Training) -> bool:
    gpus = tables.gpu_count(training.instance_type)
    return gpus is not None and (training.processes_per_host or 0) > gpus


def patch_warnings(case: Case, today: datetime.date, *, serves: bool = True) -> Iterator[str]:
    """Yield one line if AWS no longer patches the images of the framework version, or if that is
    not known.

    There is none for the user's own image. The date is a parameter, because nothing that makes a
    template reads the clock.
    """
    if case.has_unknown_image:
        return
    key = "training.image_uri" if case.training.image_uri else "training.framework_version"
    images, tags = f"AWS's images of {case.title} {case.version}", case.tags
    if tags is None or tags.end_of_patch is None:
        yield (
            f"{key}: until when {images} get patches is not known here; see"
            " packages/shoal/src/shoal/launch/images.yaml"
        )
    elif tags.end_of_patch < today:
        yield (
            f"{key}: {images} have had no patches since {tags.end_of_patch};"
            f" {_patched_versions(case, today)}"
        )
    if serves:
        yield from _unpatched_endpoint(case, today)


def _unpatched_endpoint(case: Case, today: datetime.date) -> Iterator[str]:
    """Say where the image that answers is no longer patched, and none later exists."""
    tags = case.tags
    if tags and tags.inference_end_of_patch and tags.inference_end_of_patch < today:
        yield (
            f"the endpoint's image {tables.inference_repository(case.framework)}:"
            f"{tags.inference_cpu.partition('-')[0]} has had no patches since"
            f" {tags.inference_end_of_patch}, and AWS has no later one; see"
            " docs/decisions/images.md"
        )


def _patched_versions(case: Case, today: datetime.date) -> str:
    """Return the versions that are patched today and that the strategy can use."""
    patched = [
        version
        for version, tags in case.images.items()
        if tags.end_of_patch and tags.end_of_patch >= today
    ]
    if case.strategy in SMDDP:
        patched = [version for version in patched if version in case.smddp_releases]
        if patched:
            return f"patched and with smddp: {', '.join(patched)}"
        return "no image that contains smddp is patched any more"
    if patched:
        return f"patched: {', '.join(patched)}"
    return "no version in the table is patched any more; name a newer image in training.image_uri"
