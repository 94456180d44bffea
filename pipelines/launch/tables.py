"""What AWS says runs where: the YAML tables beside this file in, typed look-ups out."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import yaml


@dataclass(frozen=True)
class SmddpRelease:
    """The smddp version inside a framework's training image."""

    smddp_version: str
    source: str
    notice: str = ""


@dataclass(frozen=True)
class ImageTags:
    """Tags of the Deep Learning Containers of one framework version."""

    training_gpu: str
    training_cpu: str
    inference_cpu: str
    end_of_patch: datetime.date | None
    """The last day on which AWS patches these images; None where it is not known."""
    source: str
    notice: str = ""


@dataclass(frozen=True)
class Hosts:
    """How many training instances a strategy makes sense on."""

    least: int = 1
    most: int | None = None


@dataclass(frozen=True)
class StrategyRow:
    """What a strategy starts, and where it can."""

    launcher: str
    starts: str
    source: str
    hosts: Hosts = Hosts()
    since: Mapping[str, str] = field(default_factory=dict)
    """Framework to the first version that has what the strategy needs."""


@dataclass(frozen=True)
class HorovodImages:
    """Until which version, and in which images, AWS installs Horovod for a framework."""

    last: str
    devices: tuple[str, ...]
    source: str


@cache
def _table(name: str) -> dict[str, Any]:
    table: dict[str, Any] = yaml.safe_load(Path(__file__).with_name(f"{name}.yaml").read_text(encoding="utf-8"))
    return table


@cache
def smddp_releases(framework: str) -> dict[str, SmddpRelease]:
    """Framework version to the smddp release in its image; versions without smddp have no entry."""
    return {version: SmddpRelease(**row) for version, row in _table("smddp")[framework].items()}


@cache
def smddp_instance_types() -> dict[str, tuple[str, ...]]:
    """Instance type to the collectives that smddp accelerates there."""
    return {name: tuple(row["collectives"]) for name, row in _table("smddp")["instance_types"].items()}


@cache
def smddp_regions(instance_type: str | None = None) -> tuple[str, ...]:
    """Regions in which AWS's price list has the instance type, or any that smddp runs on; sorted."""
    rows = _table("smddp")["regions"]
    return tuple(sorted({region for name, regions in rows.items() if instance_type in (None, name) for region in regions}))


def former_smddp_instance_type(name: str) -> str | None:
    """Which page of AWS's was the last to name this instance type for smddp, if one did."""
    row = _table("smddp")["former_instance_types"].get(name)
    return str(row["until"]) if row else None


def least_python(framework: str) -> str:
    """The oldest Python that the training code of this framework is written for."""
    return str(_table("images")["least_python"][framework])


def python_too_old(framework: str, version: str) -> tuple[str, str] | None:
    """The Python of AWS's image and the one that the training code needs, if it is too old."""
    python = _table("images")["too_old"][framework].get(version)
    return (python, least_python(framework)) if python else None


def starts_toolkit(repository: str) -> bool:
    """Whether images of this repository of AWS start SageMaker's training toolkit."""
    return repository in _table("images")["with_toolkit"]


@cache
def image_tags(framework: str) -> dict[str, ImageTags]:
    """Framework version to the tags of its images."""
    return {version: ImageTags(**row) for version, row in _table("images")[framework].items()}


@cache
def strategy(name: str) -> StrategyRow:
    row = dict(_table("strategies")["strategies"][name])
    return StrategyRow(**{**row, "hosts": Hosts(**row.get("hosts", {}))})


@cache
def horovod_images(framework: str) -> HorovodImages:
    row = _table("strategies")["horovod"][framework]
    return HorovodImages(row["last"], tuple(row["devices"]), row["source"])


def ordered(version: str) -> tuple[int, ...]:
    """`2.10.1` as numbers, so that versions compare."""
    return tuple(int(part) for part in version.split("."))


def registry(region: str) -> str | None:
    """The account that holds AWS's Deep Learning Containers in `region`, or None where there is none."""
    account: str | None = _table("registries")["registries"].get(region)
    return account


def repository(framework: str, purpose: str) -> str:
    """Name of AWS's repository of images for `purpose` (training, inference)."""
    return str(_table("images")["repositories"][framework][purpose])


def image_uri(region: str, framework: str, purpose: str, tag: str) -> str:
    """URI of AWS's image for `purpose` (training, inference) in `region`, which must have a registry."""
    return f"{registry(region)}.dkr.ecr.{region}.amazonaws.com/{repository(framework, purpose)}:{tag}"


def _is_in(families: str, instance_type: str) -> bool:
    family = instance_type.split(".")[1]
    return re.match(_table("instances")[families], family) is not None


def has_gpus(instance_type: str) -> bool:
    return _is_in("gpu_families", instance_type)


def has_other_accelerators(instance_type: str) -> bool:
    """Trainium, Inferentia or Gaudi: PyTorch for them is another build."""
    return _is_in("other_accelerator_families", instance_type)


def is_arm(instance_type: str) -> bool:
    return _is_in("arm_families", instance_type)


def takes_volume_key(instance_type: str) -> bool:
    """Whether a request may name a key for the volume: not where the storage is local."""
    return _is_in("network_volume_families", instance_type)
