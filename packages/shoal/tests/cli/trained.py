"""A checkout in a git repository, and a registry whose model no job has trained; what verbs print
with `--json`, read as a program reads it.
"""

import gzip
import io
import json
import os
import shutil
import tarfile
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import jsonschema
import pytest
import yaml
from click.testing import CliRunner

from local_kit.control import register_version
from local_kit.tables import table
from shoal.aws.model_archive import content_sha256, deployed_name, sha256
from shoal.aws.target import Target
from shoal.cli.main import main, shoal
from shoal.repository import Repository
from shoal.settings.loading.loader import load_environment
from shoal.settings.names import Names
from shoal.settings.sections.release import Release
from shoal.verbs.promote.promotion_path import PromotionStep
from tests.repository import ROOT, begin_git, git, link_checkout
from tests.verbs.conftest import ACCOUNT, make_pipeline

_answer = CliRunner().invoke(shoal, ["docs", "schemas", "--json"], prog_name="shoal")
SCHEMAS: dict[str, dict[str, Any]] = json.loads(_answer.stdout)["schemas"]


def document_in(output: str) -> dict[str, Any]:
    """Return the one document in what a verb printed, which has the form that it names."""
    document: dict[str, Any] = json.loads(output[output.index("{\n") :])
    _, name, version = document["schema"].split("/")
    assert version == "1"
    jsonschema.validate(document, SCHEMAS[name])
    return document


CODE = {
    "train.py": "print('train')\n",
    "inference.py": "print('serve')\n",
    "requirements.txt": "numpy\n",
    "common/names.py": "NAMES = ()\n",
}
SERVED = {f"code/{name}": CODE[name].encode() for name in ("inference.py", "common/names.py")}
WEIGHTS = b"weights"
IMAGE = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-inference:2.3.0-cpu-py311-ubuntu20.04-sagemaker"  # noqa: E501
TO_STAGING = ("promote", "--from", "dev", "--to", "staging")
MANIFEST = (
    '{"schemaVersion": 2, "mediaType": "application/vnd.docker.distribution.manifest.v2+json",'
    ' "layers": []}'
)


def archive(files: Mapping[str, bytes]) -> bytes:
    """Return the same bytes for the same files and their folders, whatever the clock says."""
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w") as tar,
    ):
        folders = {str(each) for name in files for each in Path(name).parents}
        for folder in sorted(each for each in folders if each.startswith("code")):
            member = tarfile.TarInfo(folder)
            member.type = tarfile.DIRTYPE
            tar.addfile(member)
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


@dataclass(frozen=True)
class Checkout:
    """A user's repository: three environments, training code, and a bare remote called origin."""

    root: Path

    @classmethod
    def new(cls, folder: Path, state: Path, staging: str = ACCOUNT) -> "Checkout":
        """Make a checkout in the empty `folder`, with the shoal-local of `state`; `staging` is its
        account.
        """
        root = folder / "checkout"
        for name in ("dev", "staging", "prod"):
            (root / "environments").mkdir(parents=True, exist_ok=True)
            text = (ROOT / f"environments/{name}.yaml").read_text()
            (root / f"environments/{name}.yaml").write_text(text.replace("222233334444", staging))
        for name, content in CODE.items():
            file = root / "training_code/mnist/pytorch" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content)
        shipped, workload = ROOT / "training_code/mnist", root / "training_code/mnist"
        shutil.copy(shipped / "prepare.py", workload)
        shutil.copytree(shipped / "smoke_test", workload / "smoke_test")
        content = yaml.safe_load((shipped / "workload.yaml").read_text())
        del content["frameworks"]["tensorflow"]
        (workload / "workload.yaml").write_text(yaml.safe_dump(content))
        (root / ".gitignore").write_text(".shoal/\n")
        (root / ".shoal").mkdir()
        (root / ".shoal/local").symlink_to(state)
        checkout = cls(root)
        begin_git(root)
        checkout.git("init", "--quiet", "--bare", str(folder / "origin.git"))
        checkout.git("remote", "add", "origin", str(folder / "origin.git"))
        return checkout

    def git(self, *arguments: str) -> str:
        return git(self.root, *arguments)

    def commit(self, message: str) -> str:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)
        return self.git("rev-parse", "HEAD")

    def shoal(self, *arguments: str) -> int:
        return main(["--root", str(self.root), *arguments, "--local"])

    def branches(self) -> list[str]:
        return self.git("branch", "--format=%(refname:short)").splitlines()

    def merge(self, branch: str) -> None:
        self.git("merge", "--quiet", "--ff-only", branch)

    def refused(self, capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 2) -> str:
        """Return the line with which a promotion is refused, having changed nothing."""
        before = (self.branches(), self.git("status", "--porcelain"))
        capsys.readouterr()
        assert self.shoal(*arguments) == code
        assert (self.branches(), self.git("status", "--porcelain")) == before
        (line,) = capsys.readouterr().err.splitlines()
        return line


class Refused(Protocol):
    """Returns the line with which `shoal` refuses arguments in the checkout of a test."""

    def __call__(self, *arguments: str, code: int = 2) -> str: ...


@dataclass
class Registry:
    """dev's registry, its pipeline with one execution, its bucket and an image."""

    target: Target
    names: Names = field(default_factory=lambda: Names(load_environment("dev", ROOT)))

    def __post_init__(self) -> None:
        step = {"Name": "Stop", "Type": "Fail", "Arguments": {"ErrorMessage": "x"}}
        self.pipeline = make_pipeline(self.target, [step], name=self.names.pipeline)
        self.execution = self.pipeline.start({}).rpartition("/")[2]
        self.s3, self.sagemaker = self.target.client("s3"), self.target.client("sagemaker")
        self.bucket = self.names.bucket("artifacts")
        self.s3.create_bucket(Bucket=self.bucket)
        enabled, group = {"Status": "Enabled"}, self.names.model_package_group
        self.s3.put_bucket_versioning(Bucket=self.bucket, VersioningConfiguration=enabled)
        self.sagemaker.create_model_package_group(ModelPackageGroupName=group)

    def put(self, name: str, content: bytes) -> str:
        key = f"{self.names.folder('models')}/{uuid.uuid4().hex}/{name}"
        return self._put(key, content)

    def _put(self, key: str, content: bytes) -> str:
        self.s3.put_object(Bucket=self.bucket, Key=key, Body=content)
        return f"s3://{self.bucket}/{key}"

    def _put_files(self, url: str, files: Mapping[str, bytes]) -> str:
        for name, content in files.items():
            place = self.place(url + name)
            self.s3.put_object(**place, Body=content, ChecksumAlgorithm="SHA256")
        return url

    def place(self, url: str) -> dict[str, str]:
        """Return bucket and key of an object of the registry, as requests name them."""
        return {"Bucket": self.bucket, "Key": url.removeprefix(f"s3://{self.bucket}/")}

    def replace(self, url: str, content: bytes) -> None:
        self.s3.put_object(**self.place(url), Body=content)

    def remove(self, url: str) -> None:
        self.s3.delete_object(**self.place(url))

    def register(
        self,
        *,
        image: str = IMAGE,
        code: Mapping[str, str] = CODE,
        served: Mapping[str, bytes] = SERVED,
        environment: Mapping[str, str] | None = None,
        metadata: Mapping[str, str] | None = None,
        report: bytes | None = None,
        container: Mapping[str, Any] | None = None,
        is_measured: bool = True,
        stored: bytes | None = None,
        files: Mapping[str, bytes] | None = None,
    ) -> "Package":
        """Register a pending version as the pipeline's step Register does.

        `container` adds or replaces settings of its container; `stored` is what lies in place of
        its archive ever since; `files` are what lies there of a model that is kept as files.
        """
        content = archive({"model.pt": WEIGHTS, **served})
        model = self.put("model.tar.gz", content)
        evaluated = io.BytesIO(content)
        digests = {
            "archive_sha256": sha256(evaluated),
            "content_sha256": content_sha256(evaluated),
        }
        if files is not None:
            model = self._put_files(model.removesuffix(".tar.gz") + "/", files)
            digests["archive_sha256"] = digests["content_sha256"]
            source = {"S3Uri": model, "S3DataType": "S3Prefix", "CompressionType": "None"}
            container = {"ModelDataSource": {"S3DataSource": source}}
        metrics = {"accuracy": {"value": 0.9918}, "images": {"value": 10000}}
        well_formed = {"metrics": metrics, "model": digests}
        evaluation = self._put(
            f"{self.names.folder('evaluation')}/{self.execution}/{uuid.uuid4().hex}/evaluation.json",
            json.dumps(well_formed).encode() if report is None else report,
        )
        packed = archive({name: content.encode() for name, content in code.items()})
        code_uri = self.put(f"{deployed_name(io.BytesIO(packed))}.gz", packed)
        statistics = {"Statistics": {"ContentType": "application/json", "S3Uri": evaluation}}
        served_by: dict[str, Any] = {"Image": image, "ModelDataUrl": model, "Environment": {}}
        served_by |= {"Environment": dict(environment or {}), **(container or {})}
        if files is not None:
            del served_by["ModelDataUrl"]
        origin = {"execution_id": self.execution, "code_uri": code_uri}
        arn = register_version(
            self.sagemaker,
            self.names.model_package_group,
            served_by,
            ModelApprovalStatus="PendingManualApproval",
            ModelMetrics={"ModelQuality": statistics} if is_measured else {},
            CustomerMetadataProperties=origin if metadata is None else dict(metadata),
        )
        if stored is not None:
            self.replace(model, stored)
        return Package(arn, model)

    def approved(self, status: str = "Approved", **changes: Any) -> "Package":
        package = self.register(**changes)
        self.judge(package, status)
        return package

    def judge(self, package: "Package", status: str) -> None:
        self.sagemaker.update_model_package(ModelPackageArn=package.arn, ModelApprovalStatus=status)

    def own_image(self) -> tuple[str, str]:
        """Make an image in the account's own registry; return its URI and its repository's name."""
        repository, ecr = f"own-{uuid.uuid4().hex[:8]}", self.target.client("ecr")
        ecr.create_repository(repositoryName=repository)
        ecr.put_image(repositoryName=repository, imageManifest=MANIFEST, imageTag="v1")
        host = f"{self.target.account}.dkr.ecr.{self.target.region}.amazonaws.com"
        return f"{host}/{repository}:v1", repository


@dataclass(frozen=True)
class Package:
    arn: str
    model: str

    @property
    def version(self) -> str:
        return self.arn.rpartition("/")[2]


def propose(checkout: Checkout, release: Release, workload: str | None = None) -> str:
    """Return the branch that pins it in staging, without asking a registry."""
    dev, staging = (
        load_environment(name, checkout.root, workload=workload) for name in ("dev", "staging")
    )
    repository = Repository(checkout.root, os.environ)
    step = PromotionStep(repository, dev, staging, dev)
    step.commit(release, "Pin it")
    return step.branch(release)


def promoted(checkout: Checkout, good: Package) -> str:
    """Return the branch that pins it in staging."""
    assert checkout.shoal(*TO_STAGING, "--package", good.version) == 0
    return next(branch for branch in checkout.branches() if branch.startswith("promote/staging/"))


def let_have_both(root: Path) -> None:
    """Give `root` two environments, which have both workloads each, and none after them."""
    for name, text in table(__file__, "cases.yaml")["two_workloads"].items():
        (root / "environments" / f"{name}.yaml").write_text(text)
    (root / "environments" / "prod.yaml").unlink()


def checkout_of_two(folder: Path) -> Path:
    """Make the empty `folder` a checkout whose environments have both; return it."""
    root = link_checkout(folder)
    let_have_both(root)
    return root
