"""What a version of the registry really consists of, looked at before it is promoted: a `Package`
in, a `Release` out.

Nothing is taken on trust that can be looked at: the archive's bytes are read and hashed, the image
is asked for by its digest, the definition is the one that the execution ran, and the commit is the
one whose files are those that trained and those that will serve.
"""

from __future__ import annotations

import hashlib
import json
import tarfile
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any, TypeVar
from urllib.parse import urlsplit

from botocore.exceptions import ClientError

from config.names import Names
from config.release import Release
from shoal.verbs.errors import AnswerError, PromotionError, error_code
from shoal.verbs.evaluation import Evaluation
from shoal.verbs.model_data import written_again
from shoal.verbs.registry import APPROVED, Package
from shoal.verbs.repository import Repository, hash_as
from shoal.verbs.served_code import Committed, elsewhere
from shoal.verbs.target import Target

_BLOCK_BYTES = 1024 * 1024
_COMMITS = 200
_GONE = frozenset({"NoSuchKey", "NoSuchBucket", "NoSuchVersion", "404"})
Found = TypeVar("Found")
_NOT_AT_HAND = frozenset({"ResourceNotFound", "ResourceNotFoundException", "ValidationException"})


@dataclass(frozen=True)
class Verification:
    """One version of `names`' registry, at the target where it was trained, for the repository of
    the checkout.
    """

    target: Target
    names: Names
    package: Package
    repository: Repository

    def release(self, pinned: Release | None = None) -> Release:
        """The release to pin; with `pinned`, everything must still be as pinned there.

        Raises PromotionError at the first doubt.
        """
        self._require_approved()
        definition = self._definition(pinned)
        commit = pinned.code_commit if pinned else self._commit()
        digest = self._image_digest(pinned)
        report = self._report()
        sha256, version_id = self._model_data(report, commit, pinned)
        weights = self._weights(report, pinned)
        package = self.package
        approved = (
            (pinned.approved_by, pinned.approved_at)
            if pinned and pinned.copied_from
            else _approval(package)
        )
        return Release(
            model_package_arn=package.arn,
            model_package_version=package.version,
            image_uri=package.image_uri,
            image_digest=digest,
            model_data_url=package.model_data_url,
            model_data_version_id=version_id,
            model_data_sha256=sha256,
            weights_sha256=weights,
            definition_sha256=definition,
            code_commit=commit,
            metrics=pinned.metrics if pinned else dict(report.metrics),
            approved_by=approved[0],
            approved_at=approved[1],
            copied_from=pinned.copied_from if pinned else None,
        )

    def _require_approved(self) -> None:
        package = self.package
        if package.status != "Completed":
            raise self._refusal(
                f"its status is {package.status}, not Completed", "promote another version"
            )
        if package.approval != APPROVED:
            what_to_do = (
                f"whoever may judge it runs `shoal approve {self.names.environment.name}"
                f" {package.version}`"
            )
            raise self._refusal(f"it is {package.approval}, not {APPROVED}", what_to_do)

    def _definition(self, pinned: Release | None) -> str:
        """Hash of the definition that the execution ran: the one deployed now, or, later on the
        way, the one pinned.

        A copy carries it: whoever copied had looked, and what trained it need not be there any
        more.
        """
        if pinned and pinned.copied_from:
            return self._copied_definition(pinned)
        client, execution = self.target.client("sagemaker"), self._said("execution_id")
        arn = f"{self.names.pipeline_arn}/execution/{execution}"
        try:
            ran = client.describe_pipeline_definition_for_execution(PipelineExecutionArn=arn)[
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
            if error_code(error) not in _NOT_AT_HAND:
                raise
            what = (
                f"pipeline {self.names.pipeline} has no execution {execution} that could have"
                " trained it"
            )
            raise self._refusal(what, "promote a version that this pipeline trained") from error
        expected = pinned.definition_sha256 if pinned else definition_sha256(str(current))
        if (found := definition_sha256(ran)) != expected:
            which = "pinned" if pinned else f"deployed in {self.names.environment.name} now"
            what = (
                f"hash mismatch: the definition that trained it is {found}, the one {which} is"
                f" {expected}"
            )
            raise self._refusal(
                what, "train, approve and promote a version of the definition as it is"
            )
        return found

    def _copied_definition(self, pinned: Release) -> str:
        said = {key: self._said(key) for key in ("copied_from", "definition_sha256")}
        if (said["copied_from"], said["definition_sha256"]) != (
            pinned.copied_from,
            pinned.definition_sha256,
        ):
            what = (
                f"hash mismatch: the registry says that it is a copy of {said['copied_from']},"
                f" trained by {said['definition_sha256']}"
            )
            wanted = (
                f"pinned is a copy of {pinned.copied_from}, trained by {pinned.definition_sha256}"
            )
            raise self._refusal(
                f"{what}; {wanted}", "find out who wrote it; promote another version"
            )
        return pinned.definition_sha256

    def _commit(self) -> str:
        """The newest commit whose source_dir has exactly the files of the archive that trained
        it.
        """
        folder = self.names.environment.training.source_dir
        archive = self._said("code_uri")
        with tempfile.TemporaryFile() as file:
            self._download(archive, None, file)
            trained = _each(file, lambda member: member.read())
        for commit in self.repository.commits_of(folder, _COMMITS):
            known = self._committed(commit).files
            if known.keys() == trained.keys() and all(
                hash_as(known[path], content) == known[path] for path, content in trained.items()
            ):
                return commit
        what = (
            f"hash mismatch: no commit up to the one checked out has the files in {folder} that"
            f" trained it ({archive})"
        )
        raise self._refusal(what, "commit the code, deploy it and train again")

    def _committed(self, commit: str) -> Committed:
        """The files of source_dir that go into the code archive, as of a commit."""
        folder = self.names.environment.training.source_dir.rstrip("/")
        try:
            files = self.repository.files(commit, folder)
        except AnswerError as error:
            what = (
                f"its code cannot be compared: the commit {commit}, which is pinned, is not in this"
                f" repository ({error})"
            )
            raise self._refusal(what, "fetch the whole history") from error
        return Committed(
            folder, commit, {path: sha for path, sha in files.items() if _is_archived(path)}
        )

    def _image_digest(self, pinned: Release | None) -> str:
        """The digest of the serving image, which its repository must still have."""
        host, _, path = self.package.image_uri.partition("/")
        parts, (repository, _, tag) = host.split("."), path.partition(":")
        if len(parts) < 4 or parts[1:3] != ["dkr", "ecr"]:
            raise self._refusal(
                f"its image {self.package.image_uri} is not in ECR",
                "register it with an image in ECR",
            )
        wanted = pinned.image_digest if pinned else self.package.image_digest
        image = {"imageDigest": wanted} if wanted else {"imageTag": tag or "latest"}
        found = self._images(parts[0], repository, image, parts[3])
        if not found:
            which = f"{self.package.image_uri}@{wanted}" if wanted else self.package.image_uri
            raise self._refusal(
                f"its image is gone: ECR has no {which}", "promote a version whose image is there"
            )
        return str(found[0]["imageId"]["imageDigest"])

    def _images(
        self, registry: str, repository: str, image: dict[str, str], region: str
    ) -> list[dict[str, Any]]:
        ecr = Target(self.target.account, region, self.target.endpoint_url).client("ecr")
        try:
            return list(
                ecr.batch_get_image(
                    registryId=registry, repositoryName=repository, imageIds=[image]
                )["images"]
            )
        except ecr.exceptions.RepositoryNotFoundException:
            return []

    def _report(self) -> Evaluation:
        """What the evaluation wrote."""
        url = self.package.statistics_url
        if url is None:
            raise self._refusal(
                "it has no report of an evaluation (ModelMetrics)", "register it with one"
            )
        with tempfile.TemporaryFile() as file:
            self._download(url, None, file)
            try:
                return Evaluation.of(file.read())
            except ValueError as error:
                raise self._refusal(
                    f"its evaluation {url} {error}", "mend what wrote it, and train again"
                ) from error

    def _model_data(
        self, report: Evaluation, commit: str, pinned: Release | None
    ) -> tuple[str, str]:
        """Hash and S3 version of the archive, which must be the one that was registered, evaluated
        and pinned, with the commit's code.
        """
        with tempfile.TemporaryFile() as file:
            etag, version_id = self._download(
                self.package.model_data_url, pinned.model_data_version_id if pinned else None, file
            )
            found = _sha256(file)
            file.seek(0)
            self._require_evaluated(file, report)
            file.seek(0)
            self._require_code(file, commit)
        if version_id is None:
            what = f"{self.package.model_data_url} has no versions, so its bytes cannot be pinned"
            raise self._refusal(what, "turn on the versions of its bucket, and train again")
        noted = self.package.model_data_etag
        if noted is not None and noted.strip('"') != etag:
            what = (
                f"hash mismatch: {self.package.model_data_url} has the ETag {etag}, the registry"
                f" noted {noted}"
            )
            raise self._refusal(what, "find out who wrote it; promote another version")
        if pinned and found != pinned.model_data_sha256:
            what = (
                f"hash mismatch: the sha256 of {self.package.model_data_url} is {found}, pinned is"
                f" {pinned.model_data_sha256}"
            )
            raise self._refusal(what, "find out who wrote it; promote another version")
        if changed := written_again(self.target, self.package.model_data_url, version_id):
            raise self._refusal(changed, "find out who wrote it; promote another version")
        return found, version_id

    def _weights(self, report: Evaluation, pinned: Release | None) -> str | None:
        """Hash of the weights that were evaluated; a release that pinned none may be followed by
        one that does.
        """
        measured = report.weights_sha256
        if pinned and pinned.weights_sha256 not in {None, measured}:
            what = (
                f"hash mismatch: the evaluation now says that the weights are {measured}, pinned is"
                f" {pinned.weights_sha256}"
            )
            raise self._refusal(what, "find out who wrote its report; promote another version")
        return measured

    def _require_evaluated(self, archive: IO[bytes], report: Evaluation) -> None:
        """The evaluation notes the hash of the weights that it measured, a file of the archive; a
        report of your own need not.
        """
        measured = report.weights_sha256
        if measured is None:
            return
        if measured not in _each(archive, _sha256).values():
            what = (
                f"hash mismatch: no file of {self.package.model_data_url} has the sha256 {measured}"
                " of the weights that were evaluated"
            )
            raise self._refusal(what, "find out who wrote it; promote another version")

    def _require_code(self, archive: IO[bytes], commit: str) -> None:
        """What serves must be in the commit, as what trains must: both run with the project's
        rights, and only git was reviewed.
        """
        if variable := elsewhere(self.package.environment):
            what = (
                f"its container takes its code from elsewhere than code/ of the archive: {variable}"
            )
            raise self._refusal(what, "register it as Shoal's pipeline does")
        if how := self._committed(commit).difference(archive):
            what = f"hash mismatch in {self.package.model_data_url}: {how}"
            raise self._refusal(
                what,
                "find out who wrote it; promote a version whose train.py copied it from the commit",
            )

    def _said(self, what: str) -> str:
        """What the pipeline told the registry when it registered the version."""
        found = self.package.metadata.get(what)
        if not found:
            says = f"it does not say where it comes from: no {what} in CustomerMetadataProperties"
            raise self._refusal(says, "register it as Shoal's pipeline does")
        return found

    def _download(
        self, url: str, version_id: str | None, file: IO[bytes]
    ) -> tuple[str, str | None]:
        """Writes an S3 object, or a version of it, into `file`; returns its ETag and version."""
        place = urlsplit(url)
        which = {"VersionId": version_id} if version_id else {}
        try:
            answer = self.target.client("s3").get_object(
                Bucket=place.netloc, Key=place.path.lstrip("/"), **which
            )
        except ClientError as error:
            if error_code(error) in _GONE:
                version = f" in the version {version_id}" if version_id else ""
                raise self._refusal(f"{url} is gone{version}", "promote another version") from error
            raise
        for block in answer["Body"].iter_chunks(_BLOCK_BYTES):
            file.write(block)
        file.seek(0)
        version = answer.get("VersionId")
        return str(answer["ETag"]).strip('"'), None if version in {None, "null"} else str(version)

    def _refusal(self, what: str, what_to_do: str) -> PromotionError:
        return PromotionError(
            f"version {self.package.version} of {self.names.model_package_group} is not promoted:"
            f" {what}; {what_to_do}"
        )


def definition_sha256(text: str) -> str:
    """Hash of a pipeline definition, whatever the order of its keys and the spaces between them."""
    return hashlib.sha256(
        json.dumps(json.loads(text), sort_keys=True, separators=(",", ":")).encode()
    ).hexdigest()


def _approval(package: Package) -> tuple[str, str]:
    """Who judged it and when, as the registry says."""
    return package.changed_by, f"{package.changed_at:%Y-%m-%dT%H:%M:%SZ}"


def _is_archived(path: str) -> bool:
    """Whether the code archive takes a file: what is hidden or compiled stays out
    (stacks/constructs/code_archive.py).
    """
    parts = path.split("/")
    return "__pycache__" not in parts and not any(part.startswith(".") for part in parts)


def _each(archive: IO[bytes], read: Callable[[IO[bytes]], Found]) -> dict[str, Found]:
    """Name of every file in a .tar.gz -> what `read` makes of it; nothing when it cannot be
    unpacked.

    Also of those behind an end or a damaged header, as in `served_code`: the last file of a name is
    the one that stays.
    """
    try:
        with tarfile.open(fileobj=archive, mode="r:gz", ignore_zeros=True) as tar:
            opened = ((member.name.removeprefix("./"), tar.extractfile(member)) for member in tar)
            return {name: read(file) for name, file in opened if file is not None}
    except (
        tarfile.TarError,
        EOFError,
        OSError,
        KeyError,
        zlib.error,
    ):  # KeyError: a link to what is not there
        return {}


def _sha256(file: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while block := file.read(_BLOCK_BYTES):
        digest.update(block)
    return digest.hexdigest()
