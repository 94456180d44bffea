"""What is unpacked of archives that somebody else made, and what is refused before anything of it
is written elsewhere.
"""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from shoal_local.archives import BadArchiveError, unpack_tar, unpack_zip
from shoal_local.sagemaker.jobs.base import storage
from shoal_local.sagemaker.jobs.base.storage import DataError, archive, files_in, unpack

OUTSIDE = ["../escaped", "a/../../escaped", "/escaped", "..", "..\\escaped", "C:/escaped"]


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, target
    return entry


def tar_of(path: Path, *members: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for each in members:
            tar.addfile(each, io.BytesIO())
    return path


def zip_of(*members: zipfile.ZipInfo | str, content: str = "x") -> io.BytesIO:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for each in members:
            archive.writestr(each, content)
    return buffer


def below(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_what_was_packed_is_unpacked(tmp_path: Path) -> None:
    (tmp_path / "model" / "code").mkdir(parents=True)
    (tmp_path / "model" / "code" / "inference.py").write_text("pass")
    assert archive(tmp_path / "model", tmp_path / "model.tar.gz")
    unpack(tmp_path / "model.tar.gz", tmp_path / "there")
    assert (tmp_path / "there" / "code" / "inference.py").read_text() == "pass"


def test_a_folder_that_was_packed_as_the_root_is_unpacked_into_the_folder(tmp_path: Path) -> None:
    """As `add(folder, arcname="/")` writes it, with which SageMaker's SDK packs a model again."""
    packed = tar_of(tmp_path / "a.tar.gz", member("", tarfile.DIRTYPE), member("model.pth"))
    unpack(packed, tmp_path / "there")
    assert below(tmp_path / "there") == ["model.pth"]


def test_what_links_inside_of_a_packed_folder_point_to_is_unpacked_in_their_place(
    tmp_path: Path,
) -> None:
    model = tmp_path / "model"
    (model / "checkpoint-1").mkdir(parents=True)
    (model / "checkpoint-1" / "step-1.pt").write_text("weights")
    (model / "checkpoint-1" / "first.pt").symlink_to("step-1.pt")
    (model / "best").symlink_to("checkpoint-1")
    (model / "latest.pt").symlink_to("best/first.pt")
    (model / "model.pt").hardlink_to(model / "checkpoint-1" / "step-1.pt")
    assert archive(model, tmp_path / "model.tar.gz")
    unpack(tmp_path / "model.tar.gz", tmp_path / "there")
    there = {
        name: (tmp_path / "there" / name).read_text()
        for name in below(tmp_path / "there")
        if (tmp_path / "there" / name).is_file()
    }
    assert there == dict.fromkeys(
        [
            "best/first.pt",
            "best/step-1.pt",
            "checkpoint-1/first.pt",
            "checkpoint-1/step-1.pt",
            "latest.pt",
            "model.pt",
        ],
        "weights",
    )


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
        assert [(each.name, each.type, each.linkname) for each in tar] == [
            ("link", tarfile.SYMTYPE, target)
        ]


@pytest.mark.parametrize("target", ["/proc/self/environ", "../secret"])
def test_a_link_out_of_the_folder_that_a_job_has_filled_is_not_followed(
    tmp_path: Path, target: str
) -> None:
    (tmp_path / "output" / "deep").mkdir(parents=True)
    (tmp_path / "secret").write_text("x")
    (tmp_path / "output" / "deep" / "link").symlink_to(
        target if target.startswith("/") else f"../{target}"
    )
    with pytest.raises(DataError, match="deep/link is a link that leads out of its folder"):
        files_in(tmp_path / "output")


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


def test_an_archive_of_the_folder_itself_is_unpacked(tmp_path: Path) -> None:
    unpack(
        tar_of(tmp_path / "model.tar.gz", member(".", tarfile.DIRTYPE), member("./weights.pt")),
        tmp_path / "there",
    )
    assert below(tmp_path / "there") == ["weights.pt"]


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_member_of_a_model_archive_that_reaches_outside_is_refused(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "in").mkdir()
    with pytest.raises(DataError, match="outside the folder"):
        unpack(tar_of(tmp_path / "model.tar.gz", member(name)), tmp_path / "in" / "there")
    assert below(tmp_path / "in") == ["there"]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE])
@pytest.mark.parametrize("target", ["/etc/passwd", "../..", "weights.pt"])
def test_a_link_in_a_model_archive_is_refused_wherever_it_points(
    tmp_path: Path, kind: bytes, target: str
) -> None:
    with pytest.raises(DataError, match="'link' is a link"):
        unpack(
            tar_of(tmp_path / "model.tar.gz", member("link", kind, target), member("link/escaped")),
            tmp_path / "there",
        )
    assert below(tmp_path / "there") == []


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_a_device_in_a_model_archive_is_refused(tmp_path: Path, kind: bytes) -> None:
    with pytest.raises(DataError, match="'null' is a device"):
        unpack(tar_of(tmp_path / "model.tar.gz", member("null", kind)), tmp_path / "there")
    assert below(tmp_path / "there") == []


def test_a_model_archive_that_unpacks_to_too_much_stops_at_the_limit(tmp_path: Path) -> None:
    large = tarfile.TarInfo("zeros")
    large.size = 10_000_000
    with tarfile.open(tmp_path / "bomb.tar.gz", "w:gz") as tar:
        tar.addfile(large, io.BytesIO(bytes(large.size)))
    assert (tmp_path / "bomb.tar.gz").stat().st_size < 20_000
    with pytest.raises(BadArchiveError, match="more than 3000000 bytes"):
        unpack_tar(tmp_path / "bomb.tar.gz", tmp_path / "there", max_bytes=3_000_000)
    assert (tmp_path / "there" / "zeros").stat().st_size <= 3_000_000


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_header_that_is_as_large_as_a_model_is_not_read_into_memory(
    tmp_path: Path, kind: bytes
) -> None:
    header = member("header", kind)
    header.size = 10_000_000
    with tarfile.open(tmp_path / "bomb.tar.gz", "w:gz") as tar:
        tar.addfile(header, io.BytesIO(bytes(header.size)))
    with pytest.raises(BadArchiveError, match="a header of 10000384 bytes"):
        unpack_tar(tmp_path / "bomb.tar.gz", tmp_path / "there")


def test_headers_of_headers_without_end_are_one_error(tmp_path: Path) -> None:
    records = b"12 comment=\n"
    with tarfile.open(tmp_path / "nested.tar.gz", "w:gz") as tar:
        for _ in range(3000):
            header = member("header", tarfile.XGLTYPE)
            header.size = len(records)
            tar.addfile(header, io.BytesIO(records))
    with pytest.raises(BadArchiveError, match="Recursion"):
        unpack_tar(tmp_path / "nested.tar.gz", tmp_path / "there")


def test_what_is_behind_the_members_counts_too(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "long.tar.gz", "wb") as stream:
        stream.write(bytes(10_000_000))
    with pytest.raises(BadArchiveError, match="more than 3000000 bytes"):
        unpack_tar(tmp_path / "long.tar.gz", tmp_path / "there", max_bytes=3_000_000)


DAMAGED = {
    "empty": b"",
    "text": b"not gzip",
    "no tar": gzip.compress(b"not tar"),
    "cut short": gzip.compress(bytes(100_000))[:60],
    "no deflate": b"\x1f\x8b\x08" + bytes(100),
    "checksum": gzip.compress(bytes(100_000))[:-8] + bytes(8),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_model_archive_is_one_error(tmp_path: Path, damage: str) -> None:
    (tmp_path / "model.tar.gz").write_bytes(DAMAGED[damage])
    with pytest.raises(DataError):
        unpack(tmp_path / "model.tar.gz", tmp_path / "there")


def test_neither_owner_nor_special_bits_of_a_member_are_taken_over(tmp_path: Path) -> None:
    entry = member("run")
    entry.mode, entry.uid = 0o6777, 12345
    unpack(tar_of(tmp_path / "model.tar.gz", entry), tmp_path / "there")
    status = (tmp_path / "there" / "run").stat()
    assert (status.st_mode & 0o7777, status.st_uid) == (0o755, os.getuid())


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_member_of_a_functions_zip_that_reaches_outside_is_refused(
    tmp_path: Path, name: str
) -> None:
    with pytest.raises(BadArchiveError, match="outside the folder"):
        unpack_zip(zip_of(name), tmp_path / "in" / "there", 1000)
    assert below(tmp_path) == []


def test_a_link_in_a_functions_zip_is_refused(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("main.py")
    link.create_system, link.external_attr = 3, 0o120777 << 16
    with pytest.raises(BadArchiveError, match=r"'main.py' is a link"):
        unpack_zip(zip_of(link, content="/etc/passwd"), tmp_path / "there", 1000)


def test_a_functions_zip_that_unpacks_to_too_much_stops_at_the_limit(tmp_path: Path) -> None:
    bomb = zip_of("zeros", content="0" * 10_000_000)
    with pytest.raises(BadArchiveError, match="more than 3000000 bytes"):
        unpack_zip(bomb, tmp_path / "there", 3_000_000)
    assert (tmp_path / "there" / "zeros").stat().st_size <= 3_000_000


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_functions_zip_that_could_only_be_unpacked_at_once_is_refused(
    tmp_path: Path, method: int
) -> None:
    with zipfile.ZipFile(tmp_path / "code.zip", "w", method) as archive:
        archive.writestr("main.py", "pass")
    with pytest.raises(
        BadArchiveError,
        match=(
            rf"'main.py' is compressed with method {method}; 0 \(stored\) or 8 \(deflate\) is"
            r" needed"
        ),
    ):
        unpack_zip((tmp_path / "code.zip").open("rb"), tmp_path / "there", 1000)
