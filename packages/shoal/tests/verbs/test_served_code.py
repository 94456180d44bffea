"""The code in a model archive against that of a commit: as train.py writes it, and changed."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile

import pytest

from shoal.aws.model_archive import files_in
from shoal.verbs.promote.served_code import CommittedCode
from tests.cli.trained import archive

FILES = {"inference.py": b"serve", "model.py": b"network", "train.py": b"train"}
GOOD = {
    "model.pt": b"weights",
    "model.json": b"{}",
    "code/inference.py": b"serve",
    "code/model.py": b"network",
}


NO_DATA = (
    "config.properties",
    "MAR-INF/MANIFEST.json",
    "requirements.txt",
    "deep/requirements.txt",
    "model-config.yaml",
    "x.zip",
    "x.egg-link",
    "libx.so.1",
    "x.whl",
    "run.sh",
    ".env",
    "lib.dylib",
)
DATA = (
    "vocab.txt",
    "labels.json",
    "model.pth",
    "tokenizer.model",
    "xgboost-model",
    "1/variables/variables.data-00000-of-00001",
    "1/fingerprint.pb",
    "adapter/adapter_model.safetensors",
    "chat_template.jinja",
)


def committed(**changes: bytes) -> CommittedCode:
    hashes = {
        path: hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
        for path, content in {**FILES, **changes}.items()
    }
    return CommittedCode("training_code/mnist/pytorch", "abc", hashes)


def linked(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> bytes:
    """Return a good archive with a link in it."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for each, content in GOOD.items():
            member = tarfile.TarInfo(each)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        link = tarfile.TarInfo(name)
        link.type, link.linkname = kind, target
        tar.addfile(link)
    return buffer.getvalue()


def with_more_behind(gap: bytes) -> bytes:
    """Return a good archive, then `gap`, then an archive with a file that is in no commit."""
    good = gzip.decompress(archive(GOOD)).rstrip(b"\0")
    more = gzip.decompress(archive({"code/sitecustomize.py": b"other"}))
    return gzip.compress(good + bytes(-len(good) % tarfile.BLOCKSIZE) + gap + more)


def difference(content: bytes) -> str | None:
    return committed().difference(files_in(io.BytesIO(content)))


@pytest.mark.parametrize("prefix", ["", "./"])
def test_code_that_was_copied_from_the_commit_is_no_difference(prefix: str) -> None:
    files = {f"{prefix}{name}": content for name, content in GOOD.items()}
    assert difference(archive(files)) is None


@pytest.mark.parametrize("name", DATA)
def test_data_may_lie_beside_the_code(name: str) -> None:
    assert difference(archive({**GOOD, name: b"data"})) is None


def test_a_commit_in_a_repository_of_sha256_is_compared_by_it() -> None:
    hashes = {"inference.py": hashlib.sha256(b"blob 5\0serve").hexdigest()}
    of_sha256 = CommittedCode("training_code/mnist/pytorch", "abc", hashes)
    archives = (archive({"code/inference.py": code}) for code in (b"serve", b"other"))
    same, other = (of_sha256.difference(files_in(io.BytesIO(each))) for each in archives)
    assert (same is None, other is None) == (True, False)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        (
            {"code/model.py": b"other"},
            "code/model.py is not training_code/mnist/pytorch/model.py of the commit abc",
        ),
        (
            {"./code/model.py": b"other"},
            "code/model.py is not training_code/mnist/pytorch/model.py of the commit abc",
        ),
        (
            {"code/extra/more.py": b""},
            (
                "code/extra/more.py is not in the commit abc, which has no"
                " training_code/mnist/pytorch/extra/more.py"
            ),
        ),
        ({"x/../code/model.py": b"other"}, "code/model.py is not"),
        ({"sitecustomize.py": b"other"}, "sitecustomize.py is code outside of code/"),
        ({"torch/__init__.pyc": b"other"}, "torch/__init__.pyc is code outside of code/"),
        *(({name: b"other"}, f"{name} is no data that a model has") for name in NO_DATA),
        (
            {"../model/code/model.py": b"other"},
            "../model/code/model.py is a link, a device or a way out of the archive",
        ),
        (
            {"/opt/ml/model/code/model.py": b"other"},
            "/opt/ml/model/code/model.py is a link, a device or a way out",
        ),
    ],
)
def test_the_file_that_differs_is_named(changed: dict[str, bytes], says: str) -> None:
    message = difference(archive({**GOOD, **changed}))
    assert message is not None
    assert message.startswith(says)


def test_an_archive_without_the_code_that_serving_begins_with_is_a_difference() -> None:
    assert (
        difference(archive({"model.pt": b"weights"}))
        == "code/inference.py is missing, which the commit abc has in training_code/mnist/pytorch"
    )


@pytest.mark.parametrize(
    ("name", "target", "kind"),
    [
        ("code/model.py", "../other.py", tarfile.SYMTYPE),
        ("other", "code", tarfile.SYMTYPE),
        ("hard.py", "code/model.py", tarfile.LNKTYPE),
    ],
)
def test_a_link_is_a_difference_wherever_it_lies(name: str, target: str, kind: bytes) -> None:
    assert str(difference(linked(name, target, kind))).startswith(f"{name} is a link")


@pytest.mark.parametrize(
    "gap",
    [b"damaged!" * 64, bytes(1024), bytes(10240)],
    ids=["a damaged header", "an end", "a padded end"],
)
def test_what_lies_behind_a_damaged_header_or_an_end_is_compared_too(gap: bytes) -> None:
    message = difference(with_more_behind(gap))
    assert str(message).startswith("code/sitecustomize.py is not in the commit abc")


@pytest.mark.parametrize("content", [b"", b"this is not gzip", archive(GOOD)[:-20]])
def test_what_cannot_be_unpacked_is_a_difference(content: bytes) -> None:
    assert str(difference(content)).startswith("the archive cannot be read (")
