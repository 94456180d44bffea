"""The code archive: same files, same bytes, wherever and whenever it is made."""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import aws_cdk as cdk
import pytest

from local_kit.tables import rows
from shoal.aws.model_archive import ArchiveError, deployed_name
from shoal.constructs.pipeline.code_archive import CodeArchive, deterministic_tar
from shoal.launch import watch
from shoal.page.commit import commit_of
from shoal.repository import Repository
from shoal.settings.parsing.errors import ConfigError
from shoal.settings.parsing.plain_files import archive_files, carried_folder
from tests.repository import begin_git, git

if TYPE_CHECKING:
    from shoal.aws.target import Target

CODE = "training_code/mine/pytorch"
SHARED = ["__init__.py", "deep/x.txt", "ranks.py"]
_CONFIG = json.dumps({"script": "train.py"}).encode()
WATCHES = {
    "ours": {watch.CONFIG: _CONFIG},
    "another program": {watch.CONFIG: _CONFIG, watch.PROGRAM: b"print(1)"},
    "one more": {watch.CONFIG: _CONFIG, "shoal_watch/json.py": b"print(1)"},
    "a script of a channel": {watch.CONFIG: b'{"script": "../../input/data/train.py"}'},
    "no configuration": {watch.CONFIG: b"[]"},
}
"""What an archive may have beside its watch's programs."""


@pytest.fixture
def source_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    (folder / "nested" / "__pycache__").mkdir(parents=True)
    (folder / "train.py").write_text("print('training')\n")
    (folder / "nested" / "data.py").write_text("SIZE = 28\n")
    (folder / "nested" / "__pycache__" / "data.cpython-311.pyc").write_bytes(b"compiled")
    (folder / ".hidden").write_text("of an editor")
    return folder


@pytest.mark.parametrize(("own", "carried"), rows(__file__, "cases.yaml", "carried"))
def test_modules_that_workloads_share_are_carried_where_a_script_imports_them(
    tmp_path: Path, own: dict[str, str], carried: list[str]
) -> None:
    shared = tmp_path / "training_code/common"
    source_dir = tmp_path / CODE
    files = {source_dir / name: text for name, text in own.items()}
    for file, text in (files | dict.fromkeys((shared / each for each in SHARED), "")).items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (shared / ".hidden").write_text("of an editor")
    names = sorted(
        {name for name in own if "/" not in name} | {f"common/{each}" for each in carried}
    )
    with tarfile.open(fileobj=io.BytesIO(deterministic_tar(source_dir))) as archive:
        assert archive.getnames() == names
    (shared / "workload.yaml").write_text("a workload of this name")
    assert [name for name in archive_files(source_dir) if name not in own] == []


@pytest.mark.timeout(20)
def test_what_is_carried_lies_in_the_checkout_and_is_found_in_any_text(tmp_path: Path) -> None:
    source_dir, shared = tmp_path / "top" / CODE, tmp_path / "top/training_code/common"
    above = tmp_path / "training_code/common"
    for folder in (source_dir, above, tmp_path / "top/environments"):
        folder.mkdir(parents=True)
    (above / "secret.py").write_text("")
    (source_dir / "train.py").write_text("from common.secret import x\n")
    assert list(archive_files(source_dir)) == ["train.py"]
    shared.symlink_to(above)
    with pytest.raises(ConfigError, match="training_code/common is a link"):
        archive_files(source_dir)
    for text in ("\n" * 300_000, "from common import (\n" * 50_000):
        (source_dir / "train.py").write_text(f"{text}x")
        carried_folder(source_dir)


def _uri(source_dir: Path) -> str:
    stack = cdk.Stack(env=cdk.Environment(account="111122223333", region="us-east-1"))
    return str(stack.resolve(CodeArchive(stack, "Code", source_dir=source_dir).uri))


def test_times_and_permissions_of_the_files_do_not_matter(source_dir: Path) -> None:
    before = deterministic_tar(source_dir)
    os.utime(source_dir / "train.py", (1, 1))
    (source_dir / "train.py").chmod(0o700)
    assert deterministic_tar(source_dir) == before


def test_the_sources_are_at_the_root_belong_to_nobody_and_have_no_time(source_dir: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(deterministic_tar(source_dir))) as archive:
        assert archive.getnames() == ["nested/data.py", "train.py"]
        owners = {(each.uid, each.gid, each.uname, each.mtime, each.mode) for each in archive}
    assert owners == {(0, 0, "", 0, 0o644)}


def test_a_changed_file_gives_another_uri(source_dir: Path) -> None:
    before = _uri(source_dir)
    (source_dir / "train.py").write_text("print('training better')\n")
    assert _uri(source_dir) != before


def test_the_staged_archive_opens_as_tar_gz(source_dir: Path, tmp_path: Path) -> None:
    app = cdk.App(outdir=str(tmp_path / "cdk.out"))
    CodeArchive(cdk.Stack(app, "Stack"), "Code", source_dir=source_dir)
    (staged,) = Path(app.synth().directory).glob("asset.*.tar.gz")
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(staged.read_bytes()))) as archive:
        assert "train.py" in archive.getnames()
    assert staged.name == f"asset.{deployed_name(io.BytesIO(staged.read_bytes()))}.tar.gz"


@dataclass
class Deployed:
    """A repository that has the code, and a target whose bucket has one archive."""

    root: Path
    content: bytes = b""

    def client(self, _: str) -> Deployed:
        return self

    def get_object(self, **_: str) -> dict[str, io.BytesIO]:
        return {"Body": io.BytesIO(self.content)}

    def commit(self, file: str, text: str) -> str:
        (self.root / file).write_text(text)
        git(self.root, "add", ".")
        git(self.root, "commit", "-m", file)
        return git(self.root, "rev-parse", "HEAD")

    def tar(self, more: Mapping[str, bytes] | None = None) -> bytes:
        return deterministic_tar(self.root / CODE, more)

    def commit_of(self, content: bytes, name: str = "") -> str | None:
        """Return the commit that has the files of this archive, which is named for its content."""
        self.content = gzip.compress(content, mtime=0)
        name = name or f"{deployed_name(io.BytesIO(self.content))}.gz"
        repository = Repository(self.root, os.environ)
        return commit_of(repository, CODE, cast("Target", self), f"s3://b/{name}")


@pytest.fixture
def deployed(tmp_path: Path) -> Deployed:
    (tmp_path / CODE).mkdir(parents=True)
    deployed = Deployed(tmp_path)
    assert deployed.commit_of(deployed.tar()) is None  # no repository
    (tmp_path / CODE / ".hidden").write_text("of an editor")
    begin_git(tmp_path)
    return deployed


def test_the_commit_of_a_run_is_the_one_that_has_the_very_files_of_its_archive(
    deployed: Deployed,
) -> None:
    first = deployed.commit(f"{CODE}/train.py", "print(1)")
    archive = deployed.tar()
    second = deployed.commit(f"{CODE}/train.py", "print(2)")
    deployed.commit("README.md", "words alone")
    assert deployed.commit_of(archive) == first
    assert deployed.commit_of(deployed.tar()) == second
    (deployed.root / "training_code/common").mkdir()
    deployed.commit(f"{CODE}/train.py", "from common.ranks import joined")
    third = deployed.commit("training_code/common/ranks.py", "joined = 1")
    with_shared = deployed.tar()
    deployed.commit("training_code/common/ranks.py", "joined = 2")
    assert deployed.commit_of(with_shared) == third
    assert deployed.commit_of(archive) == first
    (deployed.root / CODE / "train.py").write_text("print('in no commit')")
    foreign = deployed.tar()
    assert deployed.commit_of(foreign) is None
    # tar and AWS's toolkit unpack what is before the first end, and nothing behind it
    with pytest.raises(ArchiveError, match=r"it has two files train\.py"):
        deployed.commit_of(foreign + archive)
    with pytest.raises(ArchiveError, match="it is named other; a deployment names its content"):
        deployed.commit_of(archive, "other.tar.gz")


def test_the_commit_of_a_run_is_known_with_the_watch_in_its_archive(deployed: Deployed) -> None:
    (deployed.root / "training_code/common").mkdir()
    deployed.commit("training_code/common/ranks.py", "joined = 1")
    deployed.commit(f"{CODE}/train.py", "from common.ranks import joined")
    for case, files in WATCHES.items():
        is_known = deployed.commit_of(deployed.tar({**watch.sources(), **files})) is not None
        assert (case, is_known) == (case, case == "ours")
    (deployed.root / CODE / "train.py").write_text("print('in no commit')")
    for files in WATCHES.values():
        assert deployed.commit_of(deployed.tar({**watch.sources(), **files})) is None
    git(deployed.root, "checkout", "--quiet", "--", CODE)
    deployed.commit(f"{CODE}/requirements.txt", "einops")
    moved = {watch.MOVED: b"einops", watch.CONFIG: b'{"index": {}, "script": "train.py"}'}
    installing = deployed.tar({**watch.sources(["index"]), **moved})
    assert deployed.commit_of(installing) is not None
    with tarfile.open(fileobj=io.BytesIO(installing)) as opened:
        assert "requirements.txt" not in opened.getnames()
    other = {**watch.sources(["index"]), **moved, watch.MOVED: b"another"}
    assert deployed.commit_of(deployed.tar(other)) is None


def test_a_pinned_release_may_have_the_watch_of_another_version() -> None:
    files = {**watch.sources(), **WATCHES["ours"], "train.py": b""}
    files[f"{watch.FOLDER}/run.py"] = b"older"
    assert watch.without(files) == files
    assert watch.without(files, any_version=True) == {"train.py": b""}
