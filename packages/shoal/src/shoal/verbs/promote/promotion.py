"""Verify what a version of the registry consists of, before it is promoted.

Everything that can be read is read: the archive's bytes are hashed, the image is looked up by its
digest, the definition is the one that the execution ran, and the commit is the one with the files
that trained and the files that will serve.
"""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO

from botocore.exceptions import ClientError

from shoal.aws.model_archive import ArchiveError, digest_mistake, files_in, hashes_in, sha256
from shoal.aws.objects import NO_OBJECT, EcrImage, object_at
from shoal.aws.registry import APPROVED, Package
from shoal.aws.target import Target
from shoal.errors import AnswerError, PromotionError, error_code
from shoal.launch import tables
from shoal.page.commit import archived_files, files_of, has_files, newest_commit
from shoal.page.results import MAX_BYTES, Evaluation
from shoal.repository import Repository
from shoal.settings.names import SEALED, Names
from shoal.settings.sections.release import Release, foreign_code_variable
from shoal.settings.sections.serving import Severity
from shoal.verbs.promote.served_code import CommittedCode, Members, members_of, mistake_in_files

_SCANNED = frozenset({"COMPLETE", "ACTIVE"})
_SCAN_MAY_COME = frozenset({"", "IN_PROGRESS", "PENDING"})
_ASK = "find out who wrote it; promote another version"
_AS_SHOAL = "register it as Shoal's pipeline does"
_NO_EXECUTION = frozenset({"ResourceNotFound", "ResourceNotFoundException", "ValidationException"})


def doubt_of_scan(
    status: str, counts: Mapping[str, int], limit: Severity
) -> tuple[str, str] | None:
    """Return what is wrong with an image's scan and what to do; None if it found less than `limit`.

    `status` ("": there is none) and `counts` are ECR's (its API reference, ImageScanStatus and
    ImageScanFindings).
    """
    if status not in _SCANNED:
        advice = "start one (aws ecr start-image-scan), or wait for its end"
        if status not in _SCAN_MAY_COME:
            advice = "see why (aws ecr describe-image-scan-findings): without one it stays refused"
        return f"is {status or 'not there'}", advice
    refused = [*Severity][: [*Severity].index(limit) + 1]
    found = [f"{counts[each.upper()]} {each}" for each in refused if counts.get(each.upper())]
    advice = "build the image again on a patched base, and train and promote again"
    return (f"found {', '.join(found)}", advice) if found else None


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
        commit = self.commit(pinned)
        digest = self._image_digest(pinned)
        report = self._report(pinned)
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
            metrics=dict(report.metrics),
            approved_by=package.changed_by,
            approved_at=f"{package.changed_at:%Y-%m-%dT%H:%M:%SZ}",
        )

    def _require_approved(self) -> None:
        package = self.package
        if package.status != "Completed":
            what = f"its status is {package.status}, not Completed"
            raise self._refusal(what, "promote another version")
        if package.approval != APPROVED:
            command = f"shoal release approve {self.names.environment.title} {package.version}"
            what = f"it is {package.approval}, not {APPROVED}"
            raise self._refusal(what, f"an approver runs `{command}`")

    def _definition(self, pinned: Release | None) -> str:
        """Return the hash of the definition that the execution ran.

        It must be the deployed one or, with `pinned`, the pinned one.
        """
        execution, pipeline = self._metadata_value("execution_id"), self.names.pipeline
        try:
            actual = executed_definition(self.target, self.names.pipeline_arn, execution)
            if pinned:
                expected, which = pinned.definition_sha256, "pinned"
            else:
                client = self.target.client("sagemaker")
                deployed = client.describe_pipeline(PipelineName=pipeline)["PipelineDefinition"]
                expected = definition_sha256(deployed)
                which = f"deployed in {self.names.environment.title} now"
        except ClientError as error:
            if error_code(error) not in _NO_EXECUTION:
                raise
            raise self._refusal(
                f"pipeline {pipeline} has no execution {execution} that could have trained it",
                "promote a version that this pipeline trained",
            ) from error
        if actual != expected:
            raise self._refusal(
                f"hash mismatch: the definition that trained it is {actual}, the one {which} is"
                f" {expected}",
                "train, approve and promote a version of the definition as it is",
            )
        return actual

    def commit(self, pinned: Release | None = None) -> str:
        """Return the newest commit whose source_dir equals the archive that trained the version;
        with `pinned`, the pinned one, whose source_dir must.
        """
        folder = self.names.environment.training.source_dir
        archive, head = self._metadata_value("code_uri"), self.repository.head()
        with tempfile.TemporaryFile() as file:
            self._download(archive, file)
            try:
                # an upgrade since may have another watch; the first promotion compared it
                files = files_of(file, archive, head, any_watch=pinned is not None)
            except ArchiveError as error:
                raise self._refusal(
                    f"its code {archive} cannot be read, or is not what was deployed ({error})",
                    "promote a version that a deployed archive trained",
                ) from error
        if pinned:
            try:
                if has_files(self.repository, pinned.code_commit, folder, files):
                    return pinned.code_commit
            except AnswerError as error:
                raise self._refusal(
                    f"its code cannot be compared: the commit {pinned.code_commit}, which is"
                    f" pinned, is not in this repository ({error})",
                    "fetch the whole history",
                ) from error
            which, advice = f"the commit {pinned.code_commit}, which is pinned, does not have", _ASK
        elif commit := newest_commit(self.repository, folder, files):
            return commit
        else:
            which = "no commit up to the one checked out has"
            advice = "commit the code, deploy it and train again"
        raise self._refusal(
            f"hash mismatch: {which} the files in {folder} that trained it ({archive})", advice
        )

    def require_scan(self, limit: Severity | None, digest: str) -> None:
        """Raise PromotionError if the scan of the image with this digest found something as bad as
        `limit`, or is not there.

        Source: Amazon ECR API reference, ImageScanStatus and ImageScanFindings.
        """
        image = EcrImage.of(f"{self.package.image_uri}@{digest}")
        if limit is None or image is None:
            return
        where = f"serving.refuse_findings: {limit}"
        if image.account == tables.registry(image.region, image.repository):
            raise self._refusal(
                f"AWS's own image {self.package.image_uri} tells no scan, and {where} asks for one",
                "serve from an image of your own (endpoint.build_image)",
            )
        if doubt := doubt_of_scan(*image.scan(self.target), limit):
            what, advice = doubt
            raise self._refusal(f"the scan of its image {image.digest} {what}, and {where}", advice)

    def _image_digest(self, pinned: Release | None) -> str:
        """Return the digest of the serving image, which must still be in its repository."""
        uri = self.package.image_uri
        digest = pinned.image_digest if pinned else self.package.image_digest
        uri = f"{uri}@{digest}" if digest else uri
        image = EcrImage.of(uri)
        if image is None:
            raise self._refusal(
                f"its image {uri} is not in ECR", "register it with an image in ECR"
            )
        for actual in image.digests(self.target):
            return actual
        what = f"its image is gone: ECR has no {uri}"
        raise self._refusal(what, "promote a version whose image is there")

    def _report(self, pinned: Release | None) -> Evaluation:
        """Return what the evaluation wrote, which must still be as pinned."""
        url = self.package.statistics_url
        if url is None:
            what = "it has no report of an evaluation (ModelMetrics)"
            raise self._refusal(what, "register it with one")
        folder = f"{self.names.folder('evaluation')}/{self._metadata_value('execution_id')}"
        if not url.startswith(f"s3://{self.names.bucket('artifacts')}/{folder}/"):
            raise self._refusal(
                f"its evaluation {url} is not that of the execution that it names",
                "promote a version that the pipeline registered",
            )
        with tempfile.TemporaryFile() as file:
            self._download(url, file)
            try:
                report = Evaluation.of(file.read(MAX_BYTES))
            except ValueError as error:
                what = f"its evaluation {url} {error}"
                raise self._refusal(what, "mend what wrote it, and train again") from error
        evaluated = report.archive_sha256, report.content_sha256
        if pinned and evaluated != (pinned.model_data_sha256, pinned.content_sha256):
            raise self._refusal(
                f"hash mismatch: the evaluation now says {evaluated[0]} with the content"
                f" {evaluated[1]}, pinned is {pinned.model_data_sha256} with"
                f" {pinned.content_sha256}",
                _ASK,
            )
        if pinned and pinned.metrics != report.metrics:
            what = f"the evaluation says {report.metrics}, pinned is {pinned.metrics}"
            raise self._refusal(what, _ASK)
        return report

    def _model_data(self, report: Evaluation, commit: str, pinned: Release | None) -> str | None:
        """Return the S3 version of the archive, None for files.

        It must be the model that was evaluated, registered and pinned, with the commit's code. A
        model package names a URL without a version (API reference,
        ModelPackageContainerDefinition), so a deployment brings the newest object there.
        """
        url, s3 = self.package.model_data_url, self.target.client("s3")
        # A job may write again what is not sealed.
        sealed = f"s3://{self.names.bucket('artifacts')}/{self.names.folder(SEALED)}/"
        if not url.startswith(sealed):
            what = f"{url} is not sealed, so a job may write it again"
            raise self._refusal(what, "register what the step Seal returns")
        if url.endswith("/"):
            if mistake := mistake_in_files(s3, url, report):
                raise self._refusal(mistake, _ASK)
            self._require_code(members_of(s3, url), commit)
            return None
        with tempfile.TemporaryFile() as file:
            version_id = self._download(url, file)
            if pinned and version_id != pinned.model_data_version_id:
                raise self._refusal(
                    f"{url} was written again after it was pinned, and a deployment brings the"
                    f" newest version: its newest version is {version_id}, pinned is"
                    f" {pinned.model_data_version_id}",
                    _ASK,
                )
            self._require_evaluated(file, report)
            self._require_code(files_in(file), commit)
        if version_id is None:
            what = f"{url} has no versions, so its bytes cannot be pinned"
            raise self._refusal(what, "turn on the versions of its bucket, and train again")
        return version_id

    def _require_evaluated(self, archive: IO[bytes], report: Evaluation) -> None:
        """Raise PromotionError unless the archive's bytes and content are the evaluated ones."""
        url, evaluated = self.package.model_data_url, report.archive_sha256
        if (actual := sha256(archive)) != evaluated:
            what = f"hash mismatch: the sha256 of {url} is {actual}, evaluated was {evaluated}"
            raise self._refusal(what, _ASK)
        try:
            mistake = digest_mistake(hashes_in(archive), report.content_sha256)
        except ArchiveError as error:
            raise self._refusal(f"{url} cannot be read ({error})", _ASK) from error
        if mistake:
            raise self._refusal(f"hash mismatch in {url}: {mistake}", _ASK)

    def _require_code(self, members: Members, commit: str) -> None:
        """Raise PromotionError unless the code that serves is in the commit.

        It runs with the project's rights, and only git was reviewed.
        """
        if variable := foreign_code_variable(self.package.environment):
            raise self._refusal(
                "its container takes its code from elsewhere than code/ of the archive:"
                f" {variable}",
                _AS_SHOAL,
            )
        folder = self.names.environment.training.source_dir.rstrip("/")
        files = archived_files(self.repository, commit, folder)
        if difference := CommittedCode(folder, commit, files).difference(members):
            raise self._refusal(
                f"hash mismatch in {self.package.model_data_url}: {difference}",
                "find out who wrote it; promote a version whose train.py copied it from the commit",
            )

    def _metadata_value(self, key: str) -> str:
        """Return a value that the pipeline gave the registry with the version."""
        if value := self.package.metadata.get(key):
            return value
        what = f"it does not say where it comes from: no {key} in CustomerMetadataProperties"
        raise self._refusal(what, _AS_SHOAL)

    def _download(self, url: str, file: IO[bytes]) -> str | None:
        """Write the newest object at a URL into `file`; return its version."""
        try:
            answer = self.target.client("s3").get_object(**object_at(url))
        except ClientError as error:
            if error_code(error) not in NO_OBJECT:
                raise
            raise self._refusal(f"{url} is gone", "promote another version") from error
        shutil.copyfileobj(answer["Body"], file)
        file.seek(0)
        version = answer.get("VersionId")
        return None if version in {None, "null"} else str(version)

    def _refusal(self, what: str, advice: str) -> PromotionError:
        return PromotionError(
            f"version {self.package.version} of {self.names.model_package_group} is not promoted:"
            f" {what}; {advice}"
        )


def executed_definition(target: Target, pipeline_arn: str, execution: str | None) -> str:
    """Return the hash of the definition that an execution ran; raise ClientError."""
    arn = f"{pipeline_arn}/execution/{execution}"
    answer = target.client("sagemaker").describe_pipeline_definition_for_execution(
        PipelineExecutionArn=arn
    )
    return definition_sha256(answer["PipelineDefinition"])


def definition_sha256(text: str) -> str:
    """Return a pipeline definition's hash, independent of key order and spaces."""
    return hashlib.sha256(
        json.dumps(json.loads(text), sort_keys=True, separators=(",", ":")).encode()
    ).hexdigest()
