"""Typed look-ups in the YAML tables of this folder: what AWS says runs where."""

import datetime
import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from shoal.settings.parsing.yaml_file import read_table
from shoal.settings.sections.serving import is_built_to_serve


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
    inference_gpu: str
    end_of_patch: datetime.date | None
    """The last day on which AWS patches these images; None where it is not known."""
    source: str
    repository: str
    """AWS's repository of the training images."""
    python: str
    """The Python of the training images, as in `3.10`."""
    inference_end_of_patch: datetime.date | None = None
    """The last day on which AWS patches the image that answers, where that is another."""
    missing: str = ""
    """A requirement that these images do not meet."""
    missing_for: str = ""
    """The word in a script by which it is known to have that requirement."""
    notice: str = ""


@dataclass(frozen=True)
class Gpus:
    """The GPUs of an instance family, and which CUDA supports them."""

    gpu: str
    first: str = "0"
    last: str | None = None


@dataclass(frozen=True)
class GpuMemory:
    """The GPUs of an instance type, and the memory of each."""

    gpu: str
    gib: int
    count: int


@cache
def table_of(name: str) -> dict[str, Any]:
    """Return the content of a table in this folder."""
    table: dict[str, Any] = read_table(__file__, f"{name}.yaml")
    return table


@cache
def smddp_releases(framework: str) -> dict[str, SmddpRelease]:
    """Return the smddp release in the image of each framework version that has one."""
    rows = table_of("smddp").get(framework, {}).items()
    return {version: SmddpRelease(**row) for version, row in rows}


def former_smddp_releases(framework: str) -> dict[str, str]:
    """Return the last page of AWS's that named smddp for an older framework, and its version."""
    rows = table_of("smddp")["former_releases"].get(framework, {}).items()
    return {version: f"{row['until']}: version {row['smddp_version']}" for version, row in rows}


@cache
def smddp_instance_types() -> dict[str, tuple[str, ...]]:
    """Return the collectives that smddp accelerates, by instance type."""
    rows = table_of("smddp")["instance_types"].items()
    return {name: tuple(row["collectives"]) for name, row in rows}


def python_of(framework: str, version: str) -> str | None:
    """Return the Python of AWS's images of this version, if a table says it."""
    if row := image_tags(framework).get(version):
        return row.python
    python: str | None = table_of("images")["python_without_row"][framework].get(version)
    return python


@cache
def python_in(tag: str) -> str | None:
    """Return `3.10` for `py310` in a tag of AWS's."""
    match = re.search(r"-py(\d)(\d+)(-|$)", tag)
    return f"{match[1]}.{match[2]}" if match else None


def cuda_in(tag: str) -> str | None:
    """Return `12.1` for `cu121` in a tag of AWS's."""
    match = re.search(r"-cu(\d+)(\d)(-|@|$)", tag)
    return f"{match[1]}.{match[2]}" if match else None


def inference_amis() -> dict[str, str]:
    """Return the images of inference instances with GPUs, and the CUDA of their drivers."""
    return dict(table_of("images")["inference_amis"])


@cache
def image_tags(framework: str) -> dict[str, ImageTags]:
    """Return the tags of AWS's images, by framework version."""
    repository = repository_of(framework, "training")
    return {
        version: ImageTags(
            **{"repository": repository, "python": python_in(row["training_cpu"]) or ""} | row
        )
        for version, row in table_of("images")[framework].items()
    }


def nearest_images(framework: str, version: str, min_python: str) -> tuple[str, ImageTags]:
    """Return the images with such a Python of the same minor version, or the last before it."""
    images = image_tags(framework).items()
    rows = {name: tags for name, tags in images if not is_older(tags.python, min_python)}
    same = [name for name in rows if ordered(name)[:2] == ordered(version)[:2]]
    before = [name for name in rows if ordered(name) < ordered(version)]
    nearest = (same or before or list(rows)[:1])[-1]
    return nearest, rows[nearest]


def hosts(strategy: str) -> tuple[int, int | None]:
    """Return the smallest and the largest number of instances that the strategy makes sense on."""
    row = table_of("strategies")["strategies"][strategy].get("hosts", {})
    return row.get("min", 1), row.get("max")


def without_shell(framework: str, version: str) -> str | None:
    """Return the hyperparameter by which the toolkit starts the script without a shell, if any."""
    row = table_of("strategies")["without_shell"].get(framework)
    return str(row["hyperparameter"]) if row and not is_older(version, row["since"]) else None


def last_horovod(framework: str, device: str) -> str:
    """Return the last version whose image for `device` (gpu, cpu) contains Horovod."""
    row = table_of("strategies")["horovod"].get(framework, {"last": {device: "0.0.0"}})
    return str(row["last"][device])


@cache
def mpirun() -> dict[str, Any]:
    """Return mpirun.yaml, with each name of its `words` and of `refused` as a key."""
    table = table_of("mpirun")
    words = {name: count for count, names in table["words"].items() for name in names.split()}
    refused = {name: row for row in table["refused"] for name in row["names"].split()}
    return table | {"words": words, "refused": refused}


def passed_by_toolkit(runner: str, instance_type: str) -> tuple[str, ...]:
    """Return patterns of variables that the toolkit's `runner` (smddp, horovod) gives mpirun."""
    table = mpirun()
    rows = (row for row in table["instance_variables"] if instance_type in row["types"].split())
    return (
        *table["variables"],
        *table["runner_variables"][runner],
        *(name for row in rows for name in row["names"]),
    )


@cache
def torchrun_options() -> tuple[str, ...]:
    """Return torchrun's own options without dashes, of several words in both spellings."""
    names = table_of("strategies")["torchrun_options"].split()
    return tuple(sorted({*names, *(name.replace("-", "_") for name in names)}))


def torchrun_options_from(name: str) -> tuple[str, ...]:
    """Return torchrun's options of which `name` is the beginning, if that ends a job; else nothing.

    The toolkit writes a name of one letter with one dash, which is the beginning of none.
    """
    if len(name) == 1 or name in torchrun_options():
        return ()
    matches = tuple(option for option in torchrun_options() if option.startswith(name))
    return matches if len(matches) > 1 else ()


@cache
def ordered(version: str) -> tuple[int, ...]:
    """Return `2.10.1` as numbers, so that versions compare."""
    return tuple(int(part) for part in version.split("."))


def is_older(version: str, other: str) -> bool:
    """Return whether `version` comes before `other`."""
    return ordered(version) < ordered(other)


def registry(region: str, repository: str = "") -> str | None:
    """Return the account of AWS's images in `region`; left out, its Deep Learning Containers."""
    kind = "classical" if repository in table_of("images")["with_own_module"] else "registries"
    account: str | None = table_of("registries")[kind].get(region)
    return account


def repository_of(framework: str, use: str) -> str:
    """Return the name of AWS's repository of images for a use: training or inference."""
    return str(table_of("images")["repositories"][framework][use])


def runs_inference_script(image: str) -> bool:
    """Return whether the workload's inference.py answers in this image, and says which model it
    has loaded: AWS's of a framework, and ours of the recipe pytorch-serving.
    """
    repositories = table_of("images")["repositories"].values()
    is_from_aws = any(f"/{each['inference']}:" in image for each in repositories)
    return is_from_aws or is_built_to_serve(image)


def image_uri(region: str, repository: str, tag: str) -> str:
    """Return the URI of AWS's image in `region`, which must have a registry."""
    return f"{registry(region, repository)}.dkr.ecr.{region}.amazonaws.com/{repository}:{tag}"


def _is_in(families: str, instance_type: str) -> bool:
    family = instance_type.split(".")[1]
    return re.match(table_of("instances")[families], family) is not None


def has_gpus(instance_type: str) -> bool:
    return _is_in("gpu_families", instance_type)


def gpus(instance_type: str) -> Gpus | None:
    """Return what is known of the instance type's GPUs; None if that is nothing."""
    row = table_of("instances")["cuda"].get(instance_type.split(".")[1])
    return Gpus(**row) if row else None


@cache
def gpu_count(instance_type: str) -> int | None:
    """Return how many GPUs a node of this type has; None where it has none or no source says."""
    counts = table_of("instances")["gpu_counts"].items()
    return next((count for count, names in counts if instance_type in names.split()), None)


def gpu_memory(instance_type: str) -> GpuMemory | None:
    """Return the GPUs of this type, if a source says how many they are and their memory."""
    row = table_of("instances")["gpu_memory"].get(instance_type.split(".")[1])
    count = gpu_count(instance_type)
    return GpuMemory(**row, count=count) if row and count else None


def with_gpus(count: int) -> dict[str, GpuMemory]:
    """Return the instance types that have so many GPUs whose memory is known."""
    names = table_of("instances")["gpu_counts"].get(count, "").split()
    return {name: memory for name in names if (memory := gpu_memory(name))}


def has_other_accelerators(instance_type: str) -> bool:
    """Return whether it has Trainium, Inferentia or Gaudi: PyTorch for them is another build."""
    return _is_in("other_accelerator_families", instance_type)


def is_arm(instance_type: str) -> bool:
    return _is_in("arm_families", instance_type)


def takes_volume_key(instance_type: str) -> bool:
    """Return whether a request may name a key for the volume: not where the storage is local."""
    return _is_in("network_volume_families", instance_type)


def has_nvme(instance_type: str) -> bool:
    """Return whether its storage is its own NVMe disks, whatever volume a training job names."""
    return _is_in("nvme_families", instance_type)
