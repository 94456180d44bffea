"""A training section with the facts that rules and notices need, and the notices themselves."""

import datetime
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shoal.launch import contract, image_uri, recipes, tables
from shoal.launch.contract import STARTS_RANKS, Contract, contract_of
from shoal.launch.image_uri import AwsImage, aws_image
from shoal.settings.frameworks import Framework
from shoal.settings.organisation import PackageIndex
from shoal.settings.parsing.errors import Problem, Risk
from shoal.settings.parsing.plain_files import python_files, text_of
from shoal.settings.parsing.yaml_file import read_table
from shoal.settings.settings import Collective, Strategy, Training

REQUIREMENTS = "requirements.txt"
SETUP = "setup.py"
_NAME = re.compile(r"^(?:.*[#&]egg=)?([A-Za-z0-9][A-Za-z0-9._-]*)")


@dataclass(frozen=True)
class SourceCode:
    """The contents of `source_dir`; empty without the repository."""

    requirements: frozenset[str] = frozenset()
    """Names in requirements.txt, in small letters with hyphens."""
    needs_index: bool = False
    """Whether requirements.txt names what pip must get from a package index."""
    is_package: bool = False
    """Whether setup.py is in it: the toolkit then installs it and starts a module."""

    recipe: str | None = None
    """The recipe of `training.build_image` without its comments; None if it is not there."""
    folder: Path | None = None
    """The source directory; None where no repository is given."""

    def has(self, script: str) -> bool:
        """Return whether the script is in it."""
        return self.folder is not None and (self.folder / script).is_file()

    def says(self, word: str) -> bool:
        """Return whether a Python file of it, or a shared one that it imports, has the word."""
        files = python_files(self.folder).values() if self.folder else []
        return any(word in text_of(file) for file in files)

    def installs(self, requirement: str) -> bool:
        """Return whether requirements.txt has the package of `requirement` (`tf_keras~=2.21.0`)."""
        return bool(_names(requirement) & self.requirements)


def read_source(root: Path | None, training: Training) -> SourceCode:
    """Return what `training` names in the repository at `root`; empty if there is none."""
    if root is None:
        return SourceCode()
    folder = root / training.source_dir
    requirements = folder / REQUIREMENTS
    text = text_of(requirements) if requirements.is_file() else ""
    lines = [line.strip() for line in text.splitlines()]
    # An index is needed for lines that are neither a comment nor a path of the folder.
    needed = [
        line
        for line in lines
        if line
        and not line.startswith(("#", "./", "--find-links", "-f"))
        and ("://" in line or not line.endswith(".whl"))
    ]
    return SourceCode(
        _names(text),
        bool(needed) and not any("--no-index" in line.partition("#")[0].split() for line in lines),
        (folder / SETUP).is_file(),
        _recipe(root, training),
        folder,
    )


def _recipe(root: Path, training: Training) -> str | None:
    """Return the text of a recipe that is in the table; the rules refuse any other."""
    name = training.build_image
    folder = recipes.folder(name, root) if name in recipes.names() else None
    if folder is None or not folder.is_dir():
        return None
    texts = (text_of(path) for path in sorted(folder.rglob("*")) if path.is_file())
    lines = (line for text in texts for line in text.splitlines())
    return "\n".join(line for line in lines if not line.lstrip().startswith("#"))


def _names(text: str) -> frozenset[str]:
    """Return the packages that a requirements file names; options, as `-r other.txt`, name none."""
    matches = (_NAME.match(line.strip()) for line in text.splitlines())
    return frozenset(re.sub(r"[-_.]+", "-", match[1]).lower() for match in matches if match)


TITLES = {
    "pytorch": "PyTorch",
    "tensorflow": "TensorFlow",
    "sklearn": "scikit-learn",
    "xgboost": "XGBoost",
}
SMDDP = (Strategy.SMDDP, Strategy.PYTORCHDDP)
_TEXTS: dict[str, dict[str, str]] = read_table(__file__, "rules.yaml")


@dataclass(frozen=True)
class Case:
    """A training section in a region, with what the tables say of it."""

    training: Training
    region: str
    code: SourceCode
    contract: Contract
    images: Mapping[str, tables.ImageTags]
    """AWS's images of the framework, by version."""
    tags: tables.ImageTags | None
    """AWS's images of `framework_version`."""
    aws_image: AwsImage | None
    """What `image_uri` says, where it names one of AWS's images."""
    has_unknown_image: bool
    """Whether nothing says what is in the training image: it is built, or it is not AWS's."""
    has_gpus: bool
    device: str
    """What the training image is made for: gpu or cpu."""
    python: str | None
    """The Python of AWS's images of `framework_version`, if a table says it."""
    smddp_releases: Mapping[str, tables.SmddpRelease]
    """Framework version to the smddp release in AWS's image."""
    last_horovod: str
    """The last framework version whose image for `device` contains Horovod."""
    package_index: PackageIndex | None = None
    """The organisation's, which requirements.txt is installed from."""

    @classmethod
    def of(cls, training: Training, region: str, code: SourceCode) -> "Case":
        """Look up what the tables say of `training`."""
        framework, version = training.framework, training.framework_version
        images, image = tables.image_tags(framework), aws_image(training.image_uri)
        is_own_image = training.image_uri is not None and image is None
        has_gpus = tables.has_gpus(training.instance_type)
        device = (image.device if image else None) or ("gpu" if has_gpus else "cpu")
        return cls(
            training,
            region,
            code,
            contract=contract_of(training),
            images=images,
            tags=images.get(version),
            aws_image=image,
            has_unknown_image=training.build_image is not None or is_own_image,
            has_gpus=has_gpus,
            device=device,
            python=tables.python_of(framework, version),
            smddp_releases=tables.smddp_releases(framework),
            last_horovod=tables.last_horovod(framework, device),
        )

    @property
    def framework(self) -> Framework:
        return self.training.framework

    @property
    def strategy(self) -> Strategy:
        return self.training.strategy

    @property
    def version(self) -> str:
        return self.training.framework_version

    @property
    def title(self) -> str:
        """The framework as messages write it."""
        return TITLES[self.framework]

    @property
    def is_python_too_old(self) -> bool:
        """Whether the scripts need a later Python than AWS's images of this version have."""
        return self.python is not None and self.is_before_scripts(self.python)

    def is_before_scripts(self, python: str) -> bool:
        """Return whether the scripts need a later Python than `python`."""
        oldest = self.training.min_python
        return oldest is not None and tables.is_older(python, oldest)

    @property
    def has_image(self) -> bool:
        """Whether `image_uri` or the table names a training image."""
        return self.training.image_uri is not None or self.tags is not None

    @property
    def cuda(self) -> str | None:
        """The CUDA of the training image for GPUs, where it is known."""
        if self.training.image_uri:
            return self.aws_image.cuda if self.aws_image else None
        return tables.cuda_in(self.tags.training_gpu) if self.tags else None

    @property
    def is_former(self) -> bool:
        """Whether AWS's page no longer lists the smddp that AWS's image of this version has."""
        return self.version in tables.former_smddp_releases(self.framework)

    @property
    def shell_switch(self) -> str | None:
        """The hyperparameter that starts the script without a shell; smddprun's is not known."""
        if self.contract.launcher == "mpirun":
            return None
        return tables.without_shell(self.framework, self.version)

    @property
    def may_have_horovod(self) -> bool:
        """Whether AWS's image contains Horovod; an unknown image may."""
        return self.has_unknown_image or not tables.is_older(self.last_horovod, self.version)


def problem(case: Case, name: str, /, **facts: Any) -> Problem:
    """Return the problem of that name, about the key of `training` that its row names."""
    key = _TEXTS[name]["key"]
    return problem_at(f"training.{key}", getattr(case.training, key), case, name, **facts)


def problem_at(key: str, value: Any, case: Case, name: str, /, **facts: Any) -> Problem:
    """Return the problem of that name, about any key of the environment."""
    row, facts = _TEXTS[name], {"case": case, "training": case.training, **facts}
    return Problem(key, row["message"].format(**facts), row["advice"].format(**facts), value)


_NOTICES: dict[str, dict[str, str]] = read_table(__file__, "notices.yaml")
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
    for name, needed in contract.efa_variables(training.instance_type).items():
        if (value := training.environment.get(name, needed)) != needed:
            yield _notice(case, "EFA is kept off", name=name, value=value, needed=needed)
    provider, has_efa = contract.PROVIDER, contract.has_efa(training.instance_type)
    if training.environment.get(provider) == "efa" and not has_efa:
        yield _notice(case, "there is no EFA", name=provider)
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
    """Yield a line if AWS no longer patches the images of the version, or those that answer; none
    of an own image. The date is a parameter: what makes a template reads no clock.
    """
    if case.has_unknown_image or (tags := case.tags) is None:
        return
    key = "training.image_uri" if case.training.image_uri else "training.framework_version"
    if tags.end_of_patch and tags.end_of_patch < today:
        facts = {"key": key, "until": tags.end_of_patch}
        yield _notice(case, "no patches", patched=_patched_versions(case, today), **facts)
    until = tags.inference_end_of_patch
    if serves and until and until < today:
        repository = tables.repository_of(case.framework, "inference")
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
    if name in _NOTICES["risks"]:
        return Risk(_NOTICES["risks"][name].format(**facts))
    return _NOTICES["notices"][name].format(**facts)
