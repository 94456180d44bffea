"""What the user should know although the training can run, one line each (notices.yaml)."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from typing import Any

from shoal.launch import image_uri, tables
from shoal.launch.case import SMDDP, Case
from shoal.launch.contract import STARTS_RANKS
from shoal.settings.frameworks import Framework
from shoal.settings.parsing.errors import Risk
from shoal.settings.parsing.yaml_file import read_table
from shoal.settings.settings import Collective, Strategy

_TEXTS: dict[str, dict[str, str]] = read_table(__file__, "notices.yaml")
BY_PYTORCH = ("NCCL_DEBUG", "NCCL_IB_DISABLE", "NCCL_SOCKET_IFNAME", "MASTER_ADDR", "MASTER_PORT")
"""What sagemaker-pytorch-training 3.0.0 sets before it starts anything (training.py)."""


def notices_of(case: Case, *, serves: bool) -> Iterator[str]:
    """Yield the notices of a case that runs; `serves` says whether an endpoint follows it."""
    training, gpus = case.training, tables.gpu_count(case.training.instance_type)
    yield from _image_uri(case)
    yield from _unread(case)
    yield from _overwritten(case)
    is_shared = gpus is not None and (training.processes_per_host or 0) > gpus
    if case.contract.launcher in STARTS_RANKS and is_shared:
        yield _notice(case, "ranks share GPUs", gpus=gpus)
    if case.strategy in SMDDP:
        yield from _smddp(case)
    elif case.strategy is Strategy.HOROVOD and not case.may_have_horovod:
        yield _notice(case, "Horovod is compiled")
    elif case.strategy is Strategy.PARAMETER_SERVER and case.has_gpus:
        yield _notice(case, "one GPU of several")
    if serves and case.tags and case.tags.notice:
        yield Risk(f"training.framework_version: {case.tags.notice}")


def _image_uri(case: Case) -> Iterator[str]:
    """Yield what looks unusual about the image that the user named."""
    uri = case.training.image_uri
    if uri is None:
        return
    region = image_uri.region(uri)
    if region and region != case.region:
        yield _notice(case, "another region's image", region=region)
    images, name = tables.table_of("images"), re.split("[:@]", uri.partition("/")[2])[0]
    starts_toolkit = image_uri.is_from_aws(uri) and name in images["with_toolkit"]
    if not starts_toolkit and name not in images["with_own_module"]:
        yield _notice(case, "an own entry module")


def _unread(case: Case) -> Iterator[str]:
    """Yield the keys that the strategy does not read."""
    training = case.training
    keys, is_smddp = training.model_fields_set, training.strategy is Strategy.SMDDP
    if "collective" in keys and not is_smddp:
        yield _notice(case, "unread collective")
    is_allgather = training.collective is Collective.ALLGATHER
    if "launcher" in keys and not (is_smddp and is_allgather):
        yield _notice(case, "unread launcher")


def _overwritten(case: Case) -> Iterator[str]:
    """Variables that the toolkit sets: mpirun's runners two of them, PyTorch's training.py all."""
    is_pytorch = case.framework is Framework.PYTORCH
    is_mpirun = case.contract.launcher == "mpirun"
    for name in case.training.environment:
        if name in BY_PYTORCH and (
            is_pytorch or (is_mpirun and name in tables.mpirun()["variables"])
        ):
            is_level = is_mpirun and name == "NCCL_DEBUG"
            instead = "; write --NCCL_DEBUG LEVEL in custom_mpi_options" if is_level else ""
            yield _notice(case, "an overwritten variable", variable=name, instead=instead)


def _smddp(case: Case) -> Iterator[str]:
    training, uri = case.training, case.training.image_uri
    backend = training.hyperparameters.get("backend")
    if case.contract.launcher == "torchrun" and backend != "smddp":
        yield _notice(case, "the script chooses smddp")
    if case.aws_image and uri and image_uri.repository(uri).startswith("huggingface-"):
        yield _notice(case, "smddp by Hugging Face")
    release = case.smddp_releases.get(case.version)
    if release is None:
        yield _notice(case, "smddp of an own image")
    elif release.notice:
        yield f"training.framework_version: {release.notice}"
    if 0 < (training.processes_per_host or 0) < (tables.gpu_count(training.instance_type) or 0):
        yield _notice(case, "ranks of smddp")


def patch_warnings(case: Case, today: datetime.date, *, serves: bool = True) -> Iterator[str]:
    """Yield one line if AWS no longer patches the images of the framework version, or the image
    that answers.

    There is none for the user's own image. The date is a parameter, because nothing that makes a
    template reads the clock.
    """
    if case.has_unknown_image or (tags := case.tags) is None:
        return
    key = "training.image_uri" if case.training.image_uri else "training.framework_version"
    if tags.end_of_patch and tags.end_of_patch < today:
        facts = {"key": key, "until": tags.end_of_patch}
        yield _notice(case, "no patches", patched=_patched_versions(case, today), **facts)
    until = tags.inference_end_of_patch
    if serves and until and until < today:
        repository = tables.inference_repository(case.framework)
        facts = {"repository": repository, "version": tags.inference_cpu.partition("-")[0]}
        yield _notice(case, "no patches for the endpoint", until=until, **facts)


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


def _notice(case: Case, name: str, /, **facts: Any) -> str:
    """Return the notice or the risk of that name."""
    facts = {"case": case, "training": case.training, **facts}
    if name in _TEXTS["risks"]:
        return Risk(_TEXTS["risks"][name].format(**facts))
    return _TEXTS["notices"][name].format(**facts)
