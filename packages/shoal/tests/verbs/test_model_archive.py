"""Archives that jobs wrote are read within bounds, and have one digest however they are packed."""

from __future__ import annotations

import gzip
import hashlib
import io
import random
import tarfile

import pytest

from shoal.aws.model_archive import ArchiveError, content_sha256, files_in, read, sha256
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


def test_two_files_of_one_name_have_no_digest() -> None:
    twice = gzip.compress(gzip.decompress(archive(FILES)) * 2)
    with pytest.raises(ArchiveError, match="it has two files model"):
        digest(twice)


@pytest.mark.parametrize(
    "content",
    [b"", b"no archive", archive(FILES)[:50]],
    ids=["empty", "text", "cut off"],  # gzip notes the time
)
def test_what_is_no_archive_is_refused(content: bytes) -> None:
    with pytest.raises(ArchiveError):
        digest(content + b"x")


def test_a_header_that_would_fill_the_memory_is_refused() -> None:
    with pytest.raises(ArchiveError, match="a header of it has more than 65536 bytes"):
        digest(with_header(1024 * 1024))


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
