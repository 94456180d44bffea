"""A pinned release: the model that an environment serves for a workload, and which code its
container runs.

It is pinned by what cannot change under its name. `shoal promote` writes it
(`shoal.settings.loading.release_file`); synth only reads it, so the same commit always means the
same model.
"""

import posixpath
from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from shoal.settings.parsing.base import Settings

PackageArn = Annotated[
    str,
    Field(
        pattern=r"^arn:aws:sagemaker:[a-z]{2}(-[a-z]+)+-[0-9]:[0-9]{12}:model-package/[a-z0-9][a-z0-9-]*/[1-9][0-9]*$"
    ),
]
ImageUri = Annotated[
    str,
    Field(
        pattern=r"^[0-9]{12}\.dkr\.ecr\.[a-z0-9-]+\.amazonaws\.com/[a-z0-9][a-z0-9._/-]*(:[\w.-]+)?$"
    ),
]
Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
CompositeSha256 = Annotated[str, Field(pattern=r"^[A-Za-z0-9+/]{43}=-[1-9][0-9]{0,4}$")]
ModelUri = Annotated[
    str, Field(pattern=r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/.+(\.tar\.gz|/model/)$")
]
Commit = Annotated[str, Field(pattern=r"^([0-9a-f]{40}|[0-9a-f]{64})$")]
Instant = Annotated[str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$")]
Word = Annotated[str, Field(min_length=1, max_length=1024)]
Variable = Annotated[str, Field(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*$", max_length=1024)]
MAX_ENVIRONMENT = 100  # botocore, sagemaker EnvironmentMap
MAX_ENVIRONMENT_VALUE = 1024  # botocore, sagemaker EnvironmentValue
Value = Annotated[str, Field(max_length=MAX_ENVIRONMENT_VALUE)]


class Release(Settings):
    """The model that this environment serves.

    Written by `shoal promote`; `git revert` takes it back.
    """

    model_package_arn: PackageArn
    """Version in the model registry, by its ARN."""
    model_package_version: Annotated[int, Field(ge=1)]
    """Its number, the last part of the ARN."""
    image_uri: ImageUri
    """Container image that serves it, as registered, without a digest."""
    image_digest: Digest
    """Digest of that image when the release was promoted; a tag may move, a digest does not."""
    environment: Annotated[dict[Variable, Value], Field(max_length=MAX_ENVIRONMENT)]
    """The container's environment variables, as registered."""
    model_data_url: ModelUri
    """The sealed archive where it was trained, or the prefix of its files, which ends in a slash; a
    deployment brings it from there once.
    """
    model_data_version_id: Word | None
    """Version of that S3 object; null for files, which have one each."""
    model_data_sha256: Sha256
    """SHA-256 of its bytes; of files, that of the lines `<S3's SHA-256>  <path>`, by path."""
    model_data_composite_sha256: CompositeSha256 | None = None
    """S3's composite SHA-256 of its parts, by which S3 proves a copy of more than 5 GB."""
    content_sha256: Sha256
    """Digest of the files in it, as the evaluation noted and the serving container answers: SHA-256
    of the lines that `sha256sum` prints for them, sorted by path.
    """
    definition_sha256: Sha256
    """SHA-256 of the pipeline definition that trained it, as JSON with sorted keys and without
    spaces.
    """
    code_commit: Commit
    """Commit whose `training.source_dir` is the code that trained it."""
    metrics: dict[str, int | float]
    """What the evaluation measured."""
    approved_by: Word
    """Who approved the version, as the registry names them."""
    approved_at: Instant
    """When, in UTC."""

    @property
    def image(self) -> str:
        """The image as `registry/repository@digest`: tags move, those of AWS with each patch."""
        return f"{self.image_uri.partition(':')[0]}@{self.image_digest}"

    @property
    def is_files(self) -> bool:
        """Whether the model is kept as files instead of an archive."""
        return self.model_data_url.endswith("/")

    @property
    def bucket(self) -> str:
        """The bucket of the environment that trained it."""
        return self.model_data_url.removeprefix("s3://").partition("/")[0]

    @property
    def sealed_folder(self) -> str:
        """That bucket and the prefix below which archives lie in folders named by their hashes."""
        return self.model_data_url.removeprefix("s3://").rstrip("/").rsplit("/", 2)[0]

    @property
    def account(self) -> str:
        """The account whose registry has it."""
        return self.model_package_arn.split(":")[4]

    @property
    def region(self) -> str:
        """The region of that registry."""
        return self.model_package_arn.split(":")[3]

    @property
    def version(self) -> str:
        """Group and number, as in shoal-churn-dev/3."""
        return self.model_package_arn.partition("model-package/")[2]


_UNPACKED = "/opt/ml/model/code"
ENTRY_POINT = "inference.py"
_LOADERS = ("LD_", "PYTHON")
"""Prefixes of variables by which the dynamic linker and Python find other code (ld.so(8),
"Environment"; Python, "Environment variables").
"""
_HARMLESS = frozenset(
    {
        "PYTHONUNBUFFERED",
        "PYTHONDONTWRITEBYTECODE",
        "PYTHONHASHSEED",
        "PYTHONIOENCODING",
        "PYTHONUTF8",
        "PYTHONFAULTHANDLER",
    }
)


def foreign_code_variable(environment: Mapping[str, str]) -> str | None:
    """Return the variable, with its value, that makes a container run code outside the archive's
    code/.

    None if there is none. Source: sagemaker-inference-toolkit, environment.py:
    SAGEMAKER_SUBMIT_DIRECTORY is the folder, SAGEMAKER_PROGRAM the module in it.
    """
    for name, value in environment.items():
        if name.startswith(_LOADERS) and name not in _HARMLESS:
            return f"{name}={value}"
    folder = environment.get("SAGEMAKER_SUBMIT_DIRECTORY", _UNPACKED)
    program = environment.get("SAGEMAKER_PROGRAM", ENTRY_POINT)
    if posixpath.normpath(folder) != _UNPACKED:
        return f"SAGEMAKER_SUBMIT_DIRECTORY={folder}"
    return (
        f"SAGEMAKER_PROGRAM={program}"
        if posixpath.normpath(program).startswith(("/", ".."))
        else None
    )
