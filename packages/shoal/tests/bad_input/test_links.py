"""What leads out of the checkout is read nowhere: by no check, into no archive, from no commit."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from shoal.constructs.pipeline.code_archive import deterministic_tar
from shoal.errors import AnswerError
from shoal.launch import recipes
from shoal.page.commit import archived_files, newest_commit
from shoal.pipelines.checks.check import check
from shoal.repository import Repository
from shoal.settings.loading.loader import load_environment
from shoal.settings.parsing.errors import ConfigError
from tests.repository import begin_git, git, link_checkout

CODE = "training_code/mnist/pytorch"
IMAGE = f"{recipes.FOLDER}/pytorch-smddp/Dockerfile"
SERVING_IMAGE = "images/pytorch-serving/serve.py"
SECRET = "hidden: value\nanother: value\n"
TRAINING, SCRIPTS = "training_code", ("train.py", "evaluate.py", "inference.py")
OF_CODE = ("notes.txt", "deep/er/weights.bin", *SCRIPTS, "requirements.txt")
OF_MNIST = ("workload.yaml", "prepare.py", "smoke_test/0.json", "helper.py")
OF_ENVIRONMENTS = ("dev.yaml", "base.yaml", "dev.release.yaml", "strategies/ours.yaml")
PLACES = (
    *(CODE, *(f"{CODE}/{name}" for name in OF_CODE)),
    *(TRAINING, f"{TRAINING}/common", f"{TRAINING}/common/notes.txt"),
    *(f"{TRAINING}/mnist", *(f"{TRAINING}/mnist/{name}" for name in OF_MNIST)),
    *("environments", *(f"environments/{name}" for name in OF_ENVIRONMENTS)),
    *("pipelines", "pipelines/training.py", "pipelines/extra.py"),
    *(IMAGE, SERVING_IMAGE),
)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return link_checkout(tmp_path_factory.mktemp("checkout"))


@pytest.fixture
def root(checkout: Path, tmp_path: Path) -> Path:
    """A checkout of the test's own, with a file elsewhere."""
    (tmp_path / "elsewhere").write_text(SECRET)
    shutil.copytree(checkout, tmp_path / "root", symlinks=True)
    file = tmp_path / "root/environments/dev.yaml"
    (tmp_path / "root/environments/base.yaml").write_text("protect: false\n")
    text = file.read_text().replace("protect: false\n", "")
    file.write_text(f"extends: base.yaml\n{text}")
    return tmp_path / "root"


def judged(root: Path) -> list[str]:
    """Return the lines of a check of `dev` that finds mistakes."""
    with pytest.raises(ConfigError) as caught:
        _check(root)
    return list(caught.value.lines)


def _check(root: Path) -> None:
    overlay = "ours" if (root / "environments/strategies/ours.yaml").is_symlink() else None
    environment = load_environment("dev", root, overlay)
    if (root / IMAGE).is_symlink():
        training = environment.training.model_copy(update={"build_image": "pytorch-smddp"})
        environment = environment.model_copy(update={"training": training})
    if (root / SERVING_IMAGE).is_symlink() and environment.endpoint:
        endpoint = environment.endpoint.model_copy(update={"build_image": "pytorch-serving-gpu"})
        environment = environment.model_copy(update={"endpoint": endpoint})
    check(environment, root)


@pytest.mark.parametrize("place", PLACES)
def test_a_link_anywhere_is_one_line_that_shows_nothing_of_what_it_leads_to(
    root: Path, place: str
) -> None:
    path = root / place
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        path.rename(root.parent / "moved")
        path.symlink_to(root.parent / "moved")
    else:
        path.unlink(missing_ok=True)
        path.symlink_to(root.parent / "elsewhere")
    (line,) = judged(root)
    assert f"{place} is a link, which is not read; put the file or the folder itself there" in line
    assert "hidden" not in line


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as unix:
        before = Path.cwd()
        os.chdir(path.parent)  # the name of a socket has at most 108 characters
        unix.bind(path.name)
        os.chdir(before)


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda path: path.symlink_to("/proc/self/environ"), "a link"),
        (lambda path: path.symlink_to("../../../elsewhere"), "a link"),
        (lambda path: path.symlink_to("nowhere"), "a link"),
        (lambda path: path.symlink_to("."), "a link"),
        (os.mkfifo, "a pipe, a socket or a device"),
        (_socket, "a pipe, a socket or a device"),
    ],
)
def test_no_kind_of_link_or_special_file_is_packed(
    root: Path, make: Callable[[Path], None], kind: str
) -> None:
    make(root / CODE / "notes.txt")
    (line,) = judged(root)
    assert f"training_code/mnist: {CODE}/notes.txt is {kind}" not in line
    assert f"{CODE}/notes.txt is {kind}, which is not read" in line
    with pytest.raises(ConfigError, match=f"notes.txt is {kind}"):
        deterministic_tar(root / CODE)


def test_what_is_not_packed_may_be_a_link_and_a_hard_link_is_a_file(root: Path) -> None:
    (root / CODE / ".venv").symlink_to(root.parent)
    (root / CODE / "hard.txt").hardlink_to(root.parent / "elsewhere")
    assert check(load_environment("dev", root), root).launch
    assert SECRET.encode() in deterministic_tar(root / CODE)


def test_a_commit_with_a_link_is_that_of_no_archive(tmp_path: Path) -> None:
    repository = Repository(tmp_path, os.environ)
    (tmp_path / "code").mkdir()
    (tmp_path / "code/train.py").write_text("print()")
    begin_git(tmp_path)
    first = repository.head()
    files = frozenset(archived_files(repository, first, "code").items())
    (tmp_path / "code/notes.txt").symlink_to("../elsewhere")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "--message", "Add a link")
    with pytest.raises(AnswerError, match=r"code/notes.txt is a link in "):
        archived_files(repository, repository.head(), "code")
    assert newest_commit(repository, "code", files) == first


def test_of_another_file_taken_for_ours_a_message_shows_little(root: Path) -> None:
    (root / "environments/x.yaml").write_text("".join(f"{'k' * 200}{n}: v\n" for n in range(120)))
    with pytest.raises(ConfigError) as caught:
        load_environment("x", root)
    assert len(caught.value.lines) < 30
    assert all("k" * 150 not in line for line in caught.value.lines)
    assert "more mistakes; correct these first" in caught.value.lines[-1]
