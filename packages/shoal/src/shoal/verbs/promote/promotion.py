"""Verify what a version of the registry consists of, before it is promoted.

Everything that can be read is read: the archive's bytes are hashed, the image is looked up by its
digest, the definition is the one that the execution ran, and the commit is the one with the files
that trained and the files that will serve.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from dataclasses import dataclass
from typing import IO, Any
from urllib.parse import urlsplit

from botocore.exceptions import ClientError

from shoal.aws.model_archive import ArchiveError, content_sha256, sha256
from shoal.aws.model_data import replacement_of
from shoal.aws.registry import APPROVED, Package
from shoal.aws.target import Target
from shoal.errors import AnswerError, PromotionError, error_code
from shoal.page.commit import archived_files, files_of, newest_commit
from shoal.page.readings.evaluation import MAX_BYTES, Evaluation
from shoal.repository import Repository
from shoal.settings.loading.container_code import foreign_code_variable
from shoal.settings.names import SEALED, Names
from shoal.settings.sections.release import Release
from shoal.verbs.promote.served_code import CommittedCode

_BLOCK_BYTES = 1024 * 1024
_NO_OBJECT = frozenset({"NoSuchKey", "NoSuchBucket", "NoSuchVersion", "404"})
_NO_EXECUTION = frozenset({"ResourceNotFound", "ResourceNotFoundException", "ValidationException"})


@dataclass(frozen=True)
class Verification:
    """One version of the registry of `names`, at the target where it was trained."""

    target: Target
    names: Names
    package: Package
    repository: Repository

    def release(self, pinned: Release | None = None) -> Release:
        """Return the release to pin; with `pinned`, everything must still be as pinned there.

        Raises PromotionError at the first doubt.
        """
        self._require_approved()
        definition = self._definition(pinned)
        commit = pinned.code_commit if pinned else self.commit()
        digest = self._image_digest(pinned)
        report = self._report()
        version_id = self._model_data(report, commit, pinned)
        package = self.package
        return Release(
            model_package_arn=package.arn,
            model_package_version=package.version,
            image_uri=package.image_uri,
            image_digest=digest,
            environment=dict(package.environment),
            model_data_url=package.model_data_url,
            model_data_version_id=version_id,
            model_data_sha256=report.archive_sha256,
            model_data_composite_sha256=report.archive_composite_sha256,
            content_sha256=report.content_sha256,
            definition_sha256=definition,
            code_commit=commit,
            metrics=pinned.metrics if pinned else dict(report.metrics),
            approved_by=package.changed_by,
            approved_at=f"{package.changed_at:%Y-%m-%dT%H:%M:%SZ}",
        )

    def _require_approved(self) -> None:
        package = self.package
        if package.status != "Completed":
            raise self._refusal(
                f"its status is {package.status}, not Completed", "promote another version"
            )
        if package.approval != APPROVED:
            advice = (
                f"an approver runs `shoal approve {self.names.environment.title} {package.version}`"
            )
            raise self._refusal(f"it is {package.approval}, not {APPROVED}", advice)

    def _definition(self, pinned: Release | None) -> str:
        """Return the hash of the definition that the execution ran.

        It must be the deployed one or, with `pinned`, the pinned one.
        """
        client, execution = self.target.client("sagemaker"), self._metadata_value("execution_id")
        arn = f"{self.names.pipeline_arn}/execution/{execution}"
        try:
            executed = client.describe_pipeline_definition_for_execution(PipelineExecutionArn=arn)[
                "PipelineDefinition"
            ]
            current = (
                None
                if pinned
                else client.describe_pipeline(PipelineName=self.names.pipeline)[
                    "PipelineDefinition"
                ]
            )
        except ClientError as error:
            if error_code(error) not in _NO_EXECUTION:
                raise
            what = (
                f"pipeline {self.names.pipeline} has no execution {execution} that could have"
                " trained it"
            )
            raise self._refusal(what, "promote a version that this pipeline trained") from error
        expected = pinned.definition_sha256 if pinned else definition_sha256(str(current))
        if (actual := definition_sha256(executed)) != expected:
            which = "pinned" if pinned else f"deployed in {self.names.environment.title} now"
            what = (
                f"hash mismatch: the definition that trained it is {actual}, the one {which} is"
                f" {expected}"
            )
            raise self._refusal(
                what, "train, approve and promote a version of the definition as it is"
            )
        return actual

    def commit(self) -> str:
        """Return the newest commit whose source_dir equals the archive that trained the version."""
        folder = self.names.environment.training.source_dir
        archive, head = self._metadata_value("code_uri"), self.repository.head()
        with tempfile.TemporaryFile() as file:
            self._download(archive, None, file)
            try:
                files = files_of(file, archive, head)
            except ArchiveError as error:
                raise self._refusal(
                    f"its code {archive} cannot be read, or is not what was deployed ({error})",
                    "promote a version that a deployed archive trained",
                ) from error
        if commit := newest_commit(self.repository, head, folder, files):
            return commit
        what = (
            f"hash mismatch: no commit up to the one checked out has the files in {folder} that"
            f" trained it ({archive})"
        )
        raise self._refusal(what, "commit the code, deploy it and train again")

    def _committed(self, commit: str) -> CommittedCode:
        """Return the files of source_dir that go into the code archive, as of a commit."""
        folder = self.names.environment.training.source_dir.rstrip("/")
        try:
            files = archived_files(self.repository, commit, folder)
        except AnswerError as error:
            what = (
                f"its code cannot be compared: the commit {commit}, which is pinned, is not in this"
                f" repository ({error})"
            )
            raise self._refusal(what, "fetch the whole history") from error
        return CommittedCode(folder, commit, files)

    def _image_digest(self, pinned: Release | None) -> str:
        """Return the digest of the serving image, which must still be in its repository."""
        host, _, path = self.package.image_uri.partition("/")
        parts, (repository, _, tag) = host.split("."), path.partition(":")
        if len(parts) < 4 or parts[1:3] != ["dkr", "ecr"]:
            raise self._refusal(
                f"its image {self.package.image_uri} is not in ECR",
                "register it with an image in ECR",
            )
        pinned_digest = pinned.image_digest if pinned else self.package.image_digest
        image = {"imageDigest": pinned_digest} if pinned_digest else {"imageTag": tag or "latest"}
        images = self._images(parts[0], repository, image, parts[3])
        if not images:
            which = (
                f"{self.package.image_uri}@{pinned_digest}"
                if pinned_digest
                else self.package.image_uri
            )
            raise self._refusal(
                f"its image is gone: ECR has no {which}", "promote a version whose image is there"
            )
        return str(images[0]["imageId"]["imageDigest"])

    def _images(
        self, registry: str, repository: str, image: dict[str, str], region: str
    ) -> list[dict[str, Any]]:
        ecr = self.target.in_region(region).client("ecr")
        try:
            return list(
                ecr.batch_get_image(
                    registryId=registry, repositoryName=repository, imageIds=[image]
                )["images"]
            )
        except ecr.exceptions.RepositoryNotFoundException:
            return []

    def _report(self) -> Evaluation:
        """Return what the evaluation wrote."""
        url = self.package.statistics_url
        if url is None:
            raise self._refusal(
                "it has no report of an evaluation (ModelMetrics)", "register it with one"
            )
        folder = f"{self.names.folder('evaluation')}/{self._metadata_value('execution_id')}"
        if not url.startswith(f"s3://{self.names.bucket('artifacts')}/{folder}/"):
            raise self._refusal(
                f"its evaluation {url} is not that of the execution that it names",
                "promote a version that the pipeline registered",
            )
        with tempfile.TemporaryFile() as file:
            self._download(url, None, file)
            try:
                return Evaluation.of(file.read(MAX_BYTES))
            except ValueError as error:
                raise self._refusal(
                    f"its evaluation {url} {error}", "mend what wrote it, and train again"
                ) from error

    def _model_data(self, report: Evaluation, commit: str, pinned: Release | None) -> str:
        """Return the S3 version of the archive.

        It must be the archive that was evaluated, registered and pinned, with the commit's code.
        """
        with tempfile.TemporaryFile() as file:
            etag, version_id = self._download(
                self.package.model_data_url, pinned.model_data_version_id if pinned else None, file
            )
            self._require_evaluated(file, report, pinned)
            self._require_code(file, commit)
        self._require_sealed()
        if version_id is None:
            what = f"{self.package.model_data_url} has no versions, so its bytes cannot be pinned"
            raise self._refusal(what, "turn on the versions of its bucket, and train again")
        registered_etag = self.package.model_data_etag
        if registered_etag is not None and registered_etag.strip('"') != etag:
            what = (
                f"hash mismatch: {self.package.model_data_url} has the ETag {etag}, the registry"
                f" noted {registered_etag}"
            )
            raise self._refusal(what, "find out who wrote it; promote another version")
        if replacement := replacement_of(self.target, self.package.model_data_url, version_id):
            raise self._refusal(replacement, "find out who wrote it; promote another version")
        return version_id

    def _require_sealed(self) -> None:
        """Raise PromotionError unless the archive lies where no job can write it again."""
        sealed = f"s3://{self.names.bucket('artifacts')}/{self.names.folder(SEALED)}/"
        if not self.package.model_data_url.startswith(sealed):
            raise self._refusal(
                f"{self.package.model_data_url} is not sealed, so a job may write it again",
                "register what the step Seal returns",
            )

    def _require_evaluated(
        self, archive: IO[bytes], report: Evaluation, pinned: Release | None
    ) -> None:
        """Raise PromotionError unless the archive is the evaluated one, byte by byte, with the
        content that its container will answer.

        With `pinned`, the report must still say what it said then.
        """
        url, advice = self.package.model_data_url, "find out who wrote it; promote another version"
        evaluated = (report.archive_sha256, report.content_sha256)
        if pinned and evaluated != (pinned.model_data_sha256, pinned.content_sha256):
            what = (
                f"hash mismatch: the evaluation now says {evaluated[0]} with the content"
                f" {evaluated[1]}, pinned is {pinned.model_data_sha256} with"
                f" {pinned.content_sha256}"
            )
            raise self._refusal(what, advice)
        if (actual := sha256(archive)) != report.archive_sha256:
            what = f"hash mismatch: the sha256 of {url} is {actual}, evaluated was {evaluated[0]}"
            raise self._refusal(what, advice)
        try:
            content = content_sha256(archive)
        except ArchiveError as error:
            raise self._refusal(f"{url} cannot be read ({error})", advice) from error
        if content != report.content_sha256:
            what = f"hash mismatch: the content of {url} is {content}, evaluated was {evaluated[1]}"
            raise self._refusal(what, advice)

    def _require_code(self, archive: IO[bytes], commit: str) -> None:
        """Raise PromotionError unless the code that serves is in the commit.

        It runs with the project's rights, and only git was reviewed.
        """
        if variable := foreign_code_variable(self.package.environment):
            what = (
                f"its container takes its code from elsewhere than code/ of the archive: {variable}"
            )
            raise self._refusal(what, "register it as Shoal's pipeline does")
        if difference := self._committed(commit).difference(archive):
            what = f"hash mismatch in {self.package.model_data_url}: {difference}"
            raise self._refusal(
                what,
                "find out who wrote it; promote a version whose train.py copied it from the commit",
            )

    def _metadata_value(self, key: str) -> str:
        """Return a value that the pipeline gave the registry with the version."""
        value = self.package.metadata.get(key)
        if not value:
            message = f"it does not say where it comes from: no {key} in CustomerMetadataProperties"
            raise self._refusal(message, "register it as Shoal's pipeline does")
        return value

    def _download(
        self, url: str, version_id: str | None, file: IO[bytes]
    ) -> tuple[str, str | None]:
        """Write an S3 object, or a version of it, into `file`; return its ETag and version."""
        location = urlsplit(url)
        version_argument = {"VersionId": version_id} if version_id else {}
        try:
            answer = self.target.client("s3").get_object(
                Bucket=location.netloc, Key=location.path.lstrip("/"), **version_argument
            )
        except ClientError as error:
            if error_code(error) in _NO_OBJECT:
                version = f" in the version {version_id}" if version_id else ""
                raise self._refusal(f"{url} is gone{version}", "promote another version") from error
            raise
        for block in answer["Body"].iter_chunks(_BLOCK_BYTES):
            file.write(block)
        file.seek(0)
        version = answer.get("VersionId")
        return str(answer["ETag"]).strip('"'), None if version in {None, "null"} else str(version)

    def _refusal(self, what: str, advice: str) -> PromotionError:
        return PromotionError(
            f"version {self.package.version} of {self.names.model_package_group} is not promoted:"
            f" {what}; {advice}"
        )


def definition_sha256(text: str) -> str:
    """Return a pipeline definition's hash, independent of key order and spaces."""
    return hashlib.sha256(
        json.dumps(json.loads(text), sort_keys=True, separators=(",", ":")).encode()
    ).hexdigest()
