"""Archives that jobs wrote are read within bounds, have one digest, and serve a commit's code."""

import gzip
import hashlib
import io
import random
import tarfile

import pytest

from local_kit.tables import table
from shoal.aws.model_archive import ArchiveError, content_sha256, files_in, read, sha256
from shoal.verbs.promote.served_code import CommittedCode
from tests.cli.trained import archive

FILES = {"model.pt": b"weights", "code/inference.py": b"serve", "code/model.py": b"network"}


def digest(content: bytes) -> str:
    return content_sha256(io.BytesIO(content))


def with_header(size_bytes: int) -> bytes:
    """Return an archive with a pax header of this size, all spaces: it packs a thousandfold."""
    buffer = io.BytesIO()
    with gzip.open(buffer, "wb") as stream:
        header = tarfile.TarInfo("header")
        header.type, header.size = tarfile.XHDTYPE, size_bytes
        stream.write(header.tobuf(tarfile.USTAR_FORMAT))
        for _ in range(size_bytes // tarfile.BLOCKSIZE):
            stream.write(b" " * tarfile.BLOCKSIZE)
    return buffer.getvalue()


def test_the_digest_is_that_of_what_sha256sum_prints_for_the_sorted_files() -> None:
    lines = [f"{hashlib.sha256(FILES[name]).hexdigest()}  {name}\n" for name in sorted(FILES)]
    assert digest(archive(FILES)) == hashlib.sha256("".join(lines).encode()).hexdigest()


def test_order_time_and_prefix_of_an_archive_do_not_count() -> None:
    packed_otherwise = {f"./{name}": FILES[name] for name in reversed(FILES)}
    assert digest(archive(packed_otherwise)) == digest(archive(FILES))


@pytest.mark.parametrize(
    "changed",
    [{"model.pt": b"other"}, {"1/saved_model.pb": b""}, {"code/more.py": b""}, {"x/model.pt": b""}],
)
def test_every_file_counts(changed: dict[str, bytes]) -> None:
    assert digest(archive({**FILES, **changed})) != digest(archive(FILES))


def test_what_lies_behind_the_end_counts_because_some_programs_unpack_it() -> None:
    behind = b"".join(gzip.decompress(archive(each)) for each in (FILES, {"more": b""}))
    assert digest(gzip.compress(behind)) == digest(archive({**FILES, "more": b""}))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"x", None),
        (b"no archivex", None),
        (archive(FILES)[:50] + b"x", None),
        (gzip.compress(gzip.decompress(archive(FILES)) * 2), "it has two files model"),
        # it would fill the memory
        (with_header(1024 * 1024), "a header of it has more than 65536 bytes"),
    ],
    ids=["empty", "text", "cut off", "twice", "header"],  # gzip notes the time
)
def test_what_is_no_archive_of_a_model_has_no_digest(content: bytes, says: str | None) -> None:
    with pytest.raises(ArchiveError, match=says):
        digest(content)


def test_what_unpacks_to_more_than_an_honest_archive_does_is_refused() -> None:
    content = archive({"zeros": bytes(4 * 1024 * 1024)})
    with pytest.raises(ArchiveError, match="it unpacks to more than 1048576 bytes"):
        list(files_in(io.BytesIO(content), max_bytes=1024 * 1024))


def test_content_that_is_too_large_or_damaged_is_refused_while_it_is_read() -> None:
    content = archive({"zeros": bytes(4 * 1024 * 1024)})
    limited = files_in(io.BytesIO(content), max_bytes=1024 * 1024)
    noise = archive({"noise": random.Random(0).randbytes(1024 * 1024)})
    hashed, compared = (files_in(io.BytesIO(noise[: len(noise) // 2])) for _ in range(2))
    for files, function in ((limited, sha256), (hashed, sha256), (compared, read)):
        _, file = next(files)
        assert file is not None
        with pytest.raises(ArchiveError):
            function(file)


def test_more_files_than_an_honest_archive_has_are_refused() -> None:
    content = archive({str(number): b"" for number in range(10_001)})
    with pytest.raises(ArchiveError, match="it has more than 10000 files"):
        digest(content)


COMMITTED = {"inference.py": b"serve", "model.py": b"network", "train.py": b"train"}
GOOD = FILES | {"model.json": b"{}"}
CASES = table(__file__, "cases.yaml")["model_archive"]


def committed(**changes: bytes) -> CommittedCode:
    hashes = {
        path: hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
        for path, content in {**COMMITTED, **changes}.items()
    }
    return CommittedCode("training_code/mnist/pytorch", "abc", hashes)


def linked(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> bytes:
    """Return a good archive with a link, or another kind of member, in it."""
    buffer = io.BytesIO(gzip.decompress(archive(GOOD)))
    with tarfile.open(fileobj=buffer, mode="a") as tar:
        link = tarfile.TarInfo(name)
        link.type, link.linkname = kind, target
        tar.addfile(link)
    return gzip.compress(buffer.getvalue())


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


@pytest.mark.parametrize("name", CASES["data"])
def test_data_may_lie_beside_the_code(name: str) -> None:
    assert difference(archive({**GOOD, name: b"data"})) is None


def test_a_commit_in_a_repository_of_sha256_is_compared_by_it() -> None:
    hashes = {"inference.py": hashlib.sha256(b"blob 5\0serve").hexdigest()}
    of_sha256 = CommittedCode("training_code/mnist/pytorch", "abc", hashes)
    archives = (archive({"code/inference.py": code}) for code in (b"serve", b"other"))
    same, other = (of_sha256.difference(files_in(io.BytesIO(each))) for each in archives)
    assert (same is None, other is None) == (True, False)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        *CASES["differing"].items(),
        *((name, f"{name} is no data that a model has") for name in CASES["no_data"]),
    ],
)
def test_the_file_that_differs_is_named(name: str, says: str) -> None:
    assert str(difference(archive({**GOOD, name: b"other"}))).startswith(says)


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
    ("name", "is_same"),
    [("code", True), ("code/common", True), ("Code/common", False), ("code\\common", False)],
)
def test_a_folder_is_a_difference_where_it_is_code_for_some_programs(
    name: str, is_same: bool
) -> None:
    assert (difference(linked(name, "", tarfile.DIRTYPE)) is None) == is_same


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
