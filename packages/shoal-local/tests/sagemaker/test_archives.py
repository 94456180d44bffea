"""What is unpacked of archives that somebody else made, and what is refused before anything of it
is written elsewhere.
"""

import gzip
import io
import os
import re
import tarfile
import zipfile
from pathlib import Path

import pytest

from shoal_local.archives import BadArchiveError, unpack_tar, unpack_zip
from shoal_local.sagemaker.jobs.base import storage
from shoal_local.sagemaker.jobs.base.storage import DataError, archive, files_in

OUTSIDE = ["../escaped", "a/../../escaped", "/escaped", "..", "..\\escaped", "C:/escaped"]


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, target
    return entry


def tar_of(path: Path, *members: tarfile.TarInfo, content: bytes = b"") -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for each in members:
            each.size = len(content)
            tar.addfile(each, io.BytesIO(content))
    return path


def zip_of(
    entry: zipfile.ZipInfo | str, content: str = "x", method: int = zipfile.ZIP_DEFLATED
) -> io.BytesIO:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.writestr(entry, content)
    return buffer


def below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def unpack_members(folder: Path, *members: tarfile.TarInfo) -> list[str]:
    """Unpack an archive of these members into `there`; return what is there then."""
    unpack_tar(tar_of(folder / "a.tar.gz", *members), folder / "there")
    return below(folder / "there")


@pytest.mark.parametrize(
    "members",
    [
        # as `add(folder, arcname="/")` writes it, with which SageMaker's SDK packs a model again
        (member("", tarfile.DIRTYPE), member("model.pth")),
        (member(".", tarfile.DIRTYPE), member("./model.pth")),
    ],
)
def test_an_archive_of_the_folder_itself_is_unpacked(
    tmp_path: Path, members: tuple[tarfile.TarInfo, ...]
) -> None:
    assert unpack_members(tmp_path, *members) == ["model.pth"]


def test_what_links_inside_of_a_packed_folder_point_to_is_unpacked_in_their_place(
    tmp_path: Path,
) -> None:
    model = tmp_path / "model"
    (model / "code").mkdir(parents=True)
    (model / "code" / "step-1.pt").write_text("weights")
    (model / "code" / "first.pt").symlink_to("step-1.pt")
    (model / "best").symlink_to("code")
    (model / "latest.pt").symlink_to("best/first.pt")
    (model / "model.pt").hardlink_to(model / "code" / "step-1.pt")
    assert archive(model, tmp_path / "model.tar.gz")
    unpack_tar(tmp_path / "model.tar.gz", tmp_path / "there")
    files = [each for each in (tmp_path / "there").rglob("*") if each.is_file()]
    names = sorted(str(each.relative_to(tmp_path / "there")) for each in files)
    linked = ["best/first.pt", "best/step-1.pt", "latest.pt", "model.pt"]
    assert names == sorted([*linked, "code/first.pt", "code/step-1.pt"])
    assert {each.read_text() for each in files} == {"weights"}


@pytest.mark.parametrize(
    "target", ["../secret", "/etc/hostname", "gone.pt", "link", ".", "../model"]
)
def test_a_link_that_leads_to_no_content_of_a_packed_folder_stays_a_link(
    tmp_path: Path, target: str
) -> None:
    (tmp_path / "secret").write_text("x")
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "link").symlink_to(target)
    assert archive(tmp_path / "model", tmp_path / "model.tar.gz")
    with tarfile.open(tmp_path / "model.tar.gz") as tar:
        (link,) = tar
    assert (link.name, link.type, link.linkname) == ("link", tarfile.SYMTYPE, target)


@pytest.mark.parametrize("target", ["/proc/self/environ", "../../secret"])
def test_a_link_out_of_the_folder_that_a_job_has_filled_is_not_followed(
    tmp_path: Path, target: str
) -> None:
    (tmp_path / "output" / "deep").mkdir(parents=True)
    (tmp_path / "secret").write_text("x")
    (tmp_path / "output" / "deep" / "link").symlink_to(target)
    with pytest.raises(DataError, match="deep/link is a link that leads out of its folder"):
        files_in(tmp_path / "output")


def test_a_name_that_can_be_no_key_is_an_error_that_shows_it(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / os.fsdecode(b"\xff\xfe")).touch()
    with pytest.raises(DataError, match=re.escape(r"The file name b'deep/\xff\xfe' is not UTF-8")):
        files_in(tmp_path)


def test_a_folder_whose_links_multiply_is_not_packed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "MAX_UNPACKED_BYTES", 1000)
    folder, target = tmp_path / "model", tmp_path / "model.tar.gz"
    for number in range(4):
        (folder / str(number)).mkdir(parents=True)
        (folder / str(number) / "weights").write_bytes(bytes(100))
        for other in range(4):
            (folder / str(number) / f"link{other}").symlink_to(f"../{other}")
    with pytest.raises(DataError, match="The archive of model: it unpacks to more than 1000 bytes"):
        archive(folder, target)
    assert not target.exists()


def test_links_inside_of_the_folder_that_a_job_has_filled_are_followed(tmp_path: Path) -> None:
    (tmp_path / "step-1.pt").write_text("x")
    (tmp_path / "latest.pt").symlink_to("step-1.pt")
    (tmp_path / "of-another-machine.pt").symlink_to("/opt/ml/checkpoints/there-is-none.pt")
    assert files_in(tmp_path) == [tmp_path / "latest.pt", tmp_path / "step-1.pt"]


def test_a_link_in_the_place_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "model").symlink_to("/etc")
    for look in (files_in, lambda folder: archive(folder, tmp_path / "model.tar.gz")):
        with pytest.raises(DataError, match="a link in the place of its folder model"):
            look(tmp_path / "model")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        *((member(name), "outside the folder") for name in OUTSIDE),
        *(
            (member("link", kind, target), "'link' is a link")
            for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE)
            for target in ("/etc/passwd", "../..", "weights.pt")
        ),
        *(
            (member("null", kind), "'null' is a device")
            for kind in (tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE)
        ),
    ],
)
def test_a_member_that_is_no_file_inside_of_the_folder_is_refused(
    tmp_path: Path, entry: tarfile.TarInfo, message: str
) -> None:
    (tmp_path / "in").mkdir()
    with pytest.raises(BadArchiveError, match=message):
        unpack_members(tmp_path / "in", entry, member("link/escaped"))
    assert below(tmp_path / "in") == ["a.tar.gz", "there"]


LARGE = bytes(10_000_000)


@pytest.mark.parametrize(
    ("kind", "content", "times", "message"),
    [
        (tarfile.REGTYPE, LARGE, 1, "more than 3000000 bytes"),
        # as large as a model, and not read into memory
        (tarfile.XHDTYPE, LARGE, 1, "a header of 10000384 bytes"),
        (tarfile.XGLTYPE, LARGE, 1, "a header of 10000384 bytes"),
        (tarfile.GNUTYPE_LONGNAME, LARGE, 1, "a header of 10000384 bytes"),
        # headers of headers without end
        (tarfile.XGLTYPE, b"12 comment=\n", 3000, "Recursion"),
    ],
)
def test_a_model_archive_that_is_too_much_stops_at_the_limit(
    tmp_path: Path, kind: bytes, content: bytes, times: int, message: str
) -> None:
    members = [member("zeros", kind) for _ in range(times)]
    bomb = tar_of(tmp_path / "bomb.tar.gz", *members, content=content)
    assert bomb.stat().st_size < 20_000
    with pytest.raises(BadArchiveError, match=message):
        unpack_tar(bomb, tmp_path / "there", max_bytes=3_000_000)
    assert sum(each.stat().st_size for each in (tmp_path / "there").iterdir()) <= 3_000_000


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"", "EOF|ReadError", id="empty"),
        pytest.param(b"not gzip", "BadGzipFile", id="text"),
        pytest.param(gzip.compress(b"not tar"), "ReadError", id="no tar"),
        pytest.param(gzip.compress(LARGE)[:60], "EOFError", id="cut short"),
        pytest.param(b"\x1f\x8b\x08" + bytes(100), "error", id="no deflate"),
        pytest.param(gzip.compress(bytes(100_000))[:-8] + bytes(8), "CRC check", id="checksum"),
        pytest.param(gzip.compress(LARGE), "more than 3000000 bytes", id="behind the members"),
    ],
)
def test_a_damaged_model_archive_is_one_error(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "model.tar.gz").write_bytes(content)
    with pytest.raises(BadArchiveError, match=message):
        unpack_tar(tmp_path / "model.tar.gz", tmp_path / "there", max_bytes=3_000_000)


def test_neither_owner_nor_special_bits_of_a_member_are_taken_over(tmp_path: Path) -> None:
    entry = member("run")
    entry.mode, entry.uid = 0o6777, 12345
    unpack_members(tmp_path, entry)
    status = (tmp_path / "there" / "run").stat()
    assert (status.st_mode & 0o7777, status.st_uid) == (0o755, os.getuid())


LINK_IN_ZIP = zipfile.ZipInfo("main.py")
LINK_IN_ZIP.create_system, LINK_IN_ZIP.external_attr = 3, 0o120777 << 16


@pytest.mark.parametrize(
    ("entry", "method", "message"),
    [
        *((name, zipfile.ZIP_DEFLATED, "outside the folder") for name in OUTSIDE),
        (LINK_IN_ZIP, zipfile.ZIP_DEFLATED, "'main.py' is a link"),
        *(
            ("main.py", method, rf"'main.py' is compressed with method {method}; 0 \(stored\) or 8")
            for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)  # could only be unpacked at once
        ),
    ],
)
def test_a_functions_zip_with_what_is_no_plain_file_is_refused(
    tmp_path: Path, entry: zipfile.ZipInfo | str, method: int, message: str
) -> None:
    with pytest.raises(BadArchiveError, match=message):
        unpack_zip(zip_of(entry, method=method), tmp_path / "in" / "there", 1000)
    assert not [name for name in below(tmp_path) if "escaped" in name]


def test_a_functions_zip_that_unpacks_to_too_much_stops_at_the_limit(tmp_path: Path) -> None:
    bomb = zip_of("zeros", content="0" * 10_000_000)
    with pytest.raises(BadArchiveError, match="more than 3000000 bytes"):
        unpack_zip(bomb, tmp_path / "there", 3_000_000)
    assert (tmp_path / "there" / "zeros").stat().st_size <= 3_000_000
