"""A training section with all facts that the rules need, and the texts of rules.yaml with these
facts in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shoal.launch import tables
from shoal.launch.contract import Contract, contract_of
from shoal.launch.image_uri import AwsImage, aws_image
from shoal.launch.source_code import SourceCode
from shoal.settings.frameworks import Framework
from shoal.settings.organisation import PackageIndex
from shoal.settings.parsing.errors import Problem
from shoal.settings.parsing.yaml_file import read_table
from shoal.settings.settings import Strategy, Training

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
    def of(cls, training: Training, region: str, code: SourceCode) -> Case:
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
        """The hyperparameter that starts the script without a shell; None if nothing does that.

        What smddprun does with its words is not known.
        """
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
