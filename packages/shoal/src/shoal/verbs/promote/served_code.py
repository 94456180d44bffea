"""Compare the code in a model archive, which an endpoint would run, with the files of a commit."""

import posixpath
import re
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any, cast

from shoal.aws import model_archive
from shoal.aws.model_archive import ArchiveError, read
from shoal.aws.objects import object_at
from shoal.page.results import Evaluation
from shoal.repository import hash_as
from shoal.settings.sections.release import ENTRY_POINT

CODE = "code/"
Members = Iterable[tuple[tarfile.TarInfo, IO[bytes] | None]]
"""The members of an archive, or as if of one, each with its content if it is a file of code/."""
_IMPORTED = (".py", ".pyc", ".so")
"""What Python imports. TorchServe's path has a model's whole folder (`getEnvString`; read)."""
_DATA = re.compile(
    r"[^.]+|.+\.(arrow|bin|bpe|ckpt|codes|csv|data-\d+-of-\d+|gguf|h5|index|jinja|joblib|json|jsonl"
    r"|keras|md|meta|model|msgpack|npy|npz|onnx|parquet|pb|pbtxt|pickle|pkl|pt|pth|safetensors|spm"
    r"|tflite|tiktoken|tsv|txt|ubj|vocab|xml|yaml|yml)"
)
"""Names of the data that models have beside their code: weights, vocabularies, labels, settings. A
`.pth` counts as a list of paths only where Python's `site` looks, which is no model's folder.
"""
_READ_BY_SERVERS = ("requirements.txt", "model-config.yaml")
"""TorchServe installs the packages of the one, and takes settings from the other."""


def _is_data(name: str) -> bool:
    folder, _, file = name.casefold().rpartition("/")
    is_read = file in _READ_BY_SERVERS or folder.startswith("mar-inf")
    return _DATA.fullmatch(file) is not None and not is_read


@dataclass(frozen=True)
class CommittedCode:
    """The files of `folder`, a SageMaker source_dir, in `commit`: git's hash by path."""

    folder: str
    commit: str
    files: Mapping[str, str]

    def difference(self, members: Members) -> str | None:
        """Return the first file of a model that differs from the commit, and how; None if
        all agree.

        Only files under code/ are compared: there the serving containers look for code
        (sagemaker-pytorch-inference-toolkit, README: "code/inference.py"). A file of source_dir
        that the archive lacks is no difference, unless it is the entry point. Links and names that
        lead outside are differences anywhere, because code could be reached through them, and so
        are names that are code/ on some machines only, and all elsewhere that is no data. What
        follows the end of the archive or a damaged header is compared too.
        """
        seen: set[str] = set()
        try:
            if difference := next(self._differences(members, seen), None):
                return difference
        except ArchiveError as error:
            return f"the archive cannot be read ({error})"
        if ENTRY_POINT in seen or ENTRY_POINT not in self.files:
            return None
        missing = f"{CODE}{ENTRY_POINT} is missing"
        return f"{missing}, which the commit {self.commit} has in {self.folder}"

    def _differences(self, members: Members, seen: set[str]) -> Iterator[str]:
        for member, file in members:
            name = posixpath.normpath(member.name)
            if not (member.isfile() or member.isdir()) or name.startswith(("/", "..")):
                yield (
                    f"{member.name} is a link, a device or a way out of the archive, behind which"
                    " other code could lie"
                )
            elif member.isfile() and name.startswith(CODE):
                path = name.removeprefix(CODE)
                seen.add(path)
                if difference := self._file_difference(path, file):
                    yield f"{name} {difference}"
            elif name.casefold().endswith(_IMPORTED):
                yield f"{name} is code outside of {CODE}, which a container may import"
            elif member.isfile() and not _is_data(name):
                yield f"{name} is no data that a model has beside {CODE}, such as .pt, .json, .txt"
            elif "\\" in name or (name.casefold().startswith(CODE) and not name.startswith(CODE)):
                yield f"{name} is {CODE} for some programs and not for others"

    def _file_difference(self, path: str, file: IO[bytes] | None) -> str | None:
        committed_hash = self.files.get(path)
        if committed_hash is None:
            return f"is not in the commit {self.commit}, which has no {self.folder}/{path}"
        if file is None or hash_as(committed_hash, read(file)) != committed_hash:
            return f"is not {self.folder}/{path} of the commit {self.commit}"
        return None


def mistake_in_files(s3: Any, url: str, report: Evaluation) -> str | None:
    """Return what is not as evaluated below a prefix; None if all is. S3 has the hash of each file;
    only what it stores in parts, and so has no whole hash of, is read.
    """
    try:
        checksums = model_archive.checksums_below(s3, *object_at(url).values())
    except ValueError as error:
        return str(error)
    if (actual := model_archive.digest_of(checksums)) != report.archive_sha256:
        wrong = f"hash mismatch: the list of files below {url} is {actual}"
        return f"{wrong}, evaluated was {report.archive_sha256}"
    in_parts = [name for name, checksum in checksums.items() if "-" in checksum]
    hashes = checksums | {name: model_archive.sha256(_body(s3, url + name)) for name in in_parts}
    mistake = model_archive.digest_mistake(hashes, report.content_sha256)
    return f"hash mismatch in {url}: {mistake}" if mistake else None


def members_of(s3: Any, url: str) -> Members:
    """Return the files below a prefix as if they were those of an archive."""
    for name in model_archive.checksums_below(s3, *object_at(url).values()):
        yield tarfile.TarInfo(name), _body(s3, url + name) if name.startswith(CODE) else None


def _body(s3: Any, url: str) -> IO[bytes]:
    return cast(IO[bytes], s3.get_object(**object_at(url))["Body"])
