"""A model archive and the files of a commit go in; how the code that an endpoint would run differs
from it comes out, in words.
"""

from __future__ import annotations

import posixpath
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO

from shoal.verbs.repository import hash_as

_CODE = "code/"
_UNPACKED = "/opt/ml/model/code"
_ENTRY_POINT = "inference.py"
_LOADERS = ("LD_", "PYTHON")
"""How variables begin by which the dynamic linker and Python find other code (ld.so(8),
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


def elsewhere(environment: Mapping[str, str]) -> str | None:
    """The variable by which a container takes code from somewhere else than the archive's code/,
    with its value; None if none does.

    sagemaker-inference-toolkit, environment.py: SAGEMAKER_SUBMIT_DIRECTORY is the folder,
    SAGEMAKER_PROGRAM the module in it.
    """
    for name, value in environment.items():
        if name.startswith(_LOADERS) and name not in _HARMLESS:
            return f"{name}={value}"
    folder = environment.get("SAGEMAKER_SUBMIT_DIRECTORY", _UNPACKED)
    program = environment.get("SAGEMAKER_PROGRAM", _ENTRY_POINT)
    if posixpath.normpath(folder) != _UNPACKED:
        return f"SAGEMAKER_SUBMIT_DIRECTORY={folder}"
    return (
        f"SAGEMAKER_PROGRAM={program}"
        if posixpath.normpath(program).startswith(("/", ".."))
        else None
    )


@dataclass(frozen=True)
class Committed:
    """What `folder`, a SageMaker source_dir, has in `commit`: path below it -> git's hash of its
    content.
    """

    folder: str
    commit: str
    files: Mapping[str, str]

    def difference(self, archive: IO[bytes]) -> str | None:
        """The first file of a model.tar.gz that is not as committed, and how; None when there is
        none.

        Compared is what lies under code/, where the serving containers look for code
        (sagemaker-pytorch-inference-toolkit, README: "code/inference.py"). A file of source_dir
        that is not there is no difference, unless serving begins with it. Links and names that lead
        elsewhere are, wherever they lie: code could be reached through them. So is what comes after
        the end of the archive, or after a header that is damaged: there are programs that unpack it
        (tar: "Skipping to next header").
        """
        try:
            with tarfile.open(fileobj=archive, mode="r:gz", ignore_zeros=True) as tar:
                seen: set[str] = set()
                return next(self._differences(tar, seen), None) or self._missing(seen)
        except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
            return f"the archive cannot be read ({error})"

    def _differences(self, tar: tarfile.TarFile, seen: set[str]) -> Iterator[str]:
        for member in tar:
            name = posixpath.normpath(member.name)
            if not (member.isfile() or member.isdir()) or name.startswith(("/", "..")):
                yield (
                    f"{member.name} is a link, a device or a way out of the archive, behind which"
                    " other code could lie"
                )
            elif member.isfile() and name.startswith(_CODE):
                path = name.removeprefix(_CODE)
                seen.add(path)
                if how := self._compared(path, tar.extractfile(member)):
                    yield f"{name} {how}"

    def _compared(self, path: str, file: IO[bytes] | None) -> str | None:
        known = self.files.get(path)
        if known is None:
            return f"is not in the commit {self.commit}, which has no {self.folder}/{path}"
        if file is None or hash_as(known, file.read()) != known:
            return f"is not {self.folder}/{path} of the commit {self.commit}"
        return None

    def _missing(self, seen: set[str]) -> str | None:
        if _ENTRY_POINT in seen or _ENTRY_POINT not in self.files:
            return None
        return (
            f"{_CODE}{_ENTRY_POINT} is missing, which the commit {self.commit} has in {self.folder}"
        )
