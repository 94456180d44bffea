"""Links that lead outside, and whatever people write, in files and as --parameter: it is used, or
is one line per mistake.
"""

import copy
import os
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from local_kit.tables import table
from local_kit.values import TEXT, json_safe, spoilt
from shoal.constructs.pipeline.code_archive import deterministic_tar
from shoal.errors import AnswerError, ParameterError
from shoal.launch import recipes
from shoal.page.commit import archived_files, newest_commit
from shoal.pipelines.checks.check import check
from shoal.repository import Repository
from shoal.settings.loading.loader import environment_names, load, load_environment
from shoal.settings.loading.workload import load_workload
from shoal.settings.parsing.errors import ConfigError
from shoal.settings.settings import Environment
from shoal.verbs.parameters import check_declared, check_values, parse_parameters
from tests.repository import ROOT, begin_git, git, link_checkout

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
def linked(checkout: Path, tmp_path: Path) -> Path:
    """A checkout of the test's own, with a file elsewhere."""
    (tmp_path / "elsewhere").write_text(SECRET)
    shutil.copytree(checkout, tmp_path / "root", symlinks=True)
    file = tmp_path / "root/environments/dev.yaml"
    (tmp_path / "root/environments/base.yaml").write_text("protect: false\n")
    text = file.read_text().replace("protect: false\n", "")
    file.write_text(f"extends: base.yaml\n{text}")
    return tmp_path / "root"


def judged(linked: Path) -> list[str]:
    """Return the lines of a check of `dev` that finds mistakes."""
    with pytest.raises(ConfigError) as caught:
        _check(linked)
    return list(caught.value.lines)


def _check(linked: Path) -> None:
    overlay = "ours" if (linked / "environments/strategies/ours.yaml").is_symlink() else None
    environment = load_environment("dev", linked, overlay)
    if (linked / IMAGE).is_symlink():
        training = environment.training.model_copy(update={"build_image": "pytorch-smddp"})
        environment = environment.model_copy(update={"training": training})
    if (linked / SERVING_IMAGE).is_symlink() and environment.endpoint:
        endpoint = environment.endpoint.model_copy(update={"build_image": "pytorch-serving-gpu"})
        environment = environment.model_copy(update={"endpoint": endpoint})
    check(environment, linked)


@pytest.mark.parametrize("place", PLACES)
def test_a_link_anywhere_is_one_line_that_shows_nothing_of_what_it_leads_to(
    linked: Path, place: str
) -> None:
    path = linked / place
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        path.rename(linked.parent / "moved")
        path.symlink_to(linked.parent / "moved")
    else:
        path.unlink(missing_ok=True)
        path.symlink_to(linked.parent / "elsewhere")
    (line,) = judged(linked)
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
    linked: Path, make: Callable[[Path], None], kind: str
) -> None:
    make(linked / CODE / "notes.txt")
    (line,) = judged(linked)
    assert f"training_code/mnist: {CODE}/notes.txt is {kind}" not in line
    assert f"{CODE}/notes.txt is {kind}, which is not read" in line
    with pytest.raises(ConfigError, match=f"notes.txt is {kind}"):
        deterministic_tar(linked / CODE)


def test_what_is_not_packed_may_be_a_link_and_a_hard_link_is_a_file(linked: Path) -> None:
    (linked / CODE / ".venv").symlink_to(linked.parent)
    (linked / CODE / "hard.txt").hardlink_to(linked.parent / "elsewhere")
    assert check(load_environment("dev", linked), linked).launch
    assert SECRET.encode() in deterministic_tar(linked / CODE)


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


def test_of_another_file_taken_for_ours_a_message_shows_little(linked: Path) -> None:
    (linked / "environments/x.yaml").write_text("".join(f"{'k' * 200}{n}: v\n" for n in range(120)))
    with pytest.raises(ConfigError) as caught:
        load_environment("x", linked)
    assert len(caught.value.lines) < 30
    assert all("k" * 150 not in line for line in caught.value.lines)
    assert "more mistakes; correct these first" in caught.value.lines[-1]


GOOD = {
    name: yaml.safe_load((ROOT / "environments" / f"{name}.yaml").read_text())
    for name in environment_names(ROOT)
}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("environments") / "dev.yaml"


def read(file: Path) -> str:
    """Return how the text is refused; nothing when it is not."""
    try:
        check(load(file, "environments/dev.yaml"), root=ROOT)
    except ConfigError as error:
        return str(error)
    return ""


def require_lines(refused: str) -> None:
    """Assert that each line names the file and a mistake."""
    assert all(
        line.startswith("environments/dev.yaml") and ": " in line for line in refused.splitlines()
    ), refused


@given(document=st.sampled_from(sorted(GOOD)).flatmap(lambda name: spoilt(GOOD[name])))
def test_a_spoilt_environment_is_refused_line_by_line_or_used(file: Path, document: Any) -> None:
    file.write_text(yaml.safe_dump(json_safe(document), allow_unicode=True), encoding="utf-8")
    require_lines(read(file))


TEXTS = st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace"))


@given(content=st.one_of(st.binary(max_size=200), TEXTS))
def test_what_is_no_environment_at_all_is_refused(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    refused = read(file)
    assert refused
    require_lines(refused)


SCRIBBLES = [b"", b"\t", b"*a", b"&a", b"{", b"\xff", b"\x00", b"<<: *x", b": :"]


@given(
    cut=st.integers(0, 4000),
    inserted=st.sampled_from([*SCRIBBLES, b"!!python/object:os.system"]),
)
def test_a_file_that_was_cut_or_scribbled_on_is_refused_or_used(
    file: Path, cut: int, inserted: bytes
) -> None:
    text = (ROOT / "environments" / "dev.yaml").read_bytes()
    file.write_bytes(text[: cut % len(text)] + inserted)
    require_lines(read(file))


KNOWN = "Epochs BatchSize LearningRate InstanceCount InstanceType MinAccuracy CodeUri"
NAMES = st.one_of(TEXT, st.sampled_from(KNOWN.split()))
VALUES = st.one_of(
    TEXT,
    st.integers().map(str),
    st.floats().map(str),
    st.sampled_from(["1_000", "٣", "+5", "0x10", "1e3", "inf", "true"]),
)
ENTRIES = st.one_of(TEXT, st.tuples(NAMES, VALUES).map("=".join))


@pytest.fixture(scope="module")
def environment() -> Environment:
    return load_environment("dev", ROOT)


def refusal(environment: Environment, entries: list[str]) -> str:
    """How they are refused; empty when they are not."""
    try:
        given_parameters = parse_parameters(tuple(entries))
        check_declared(environment, given_parameters, ROOT)
        check_values(environment, given_parameters, ROOT)
    except ParameterError as error:
        return str(error)
    return ""


@given(entries=st.lists(ENTRIES, max_size=4))
def test_a_parameter_is_taken_or_refused_in_one_line(
    environment: Environment, entries: list[str]
) -> None:
    assert len(refusal(environment, entries).splitlines()) <= 1


FILE = "training_code/prices/workload.yaml"
VALID: dict[str, Any] = table(__file__, "workload.yaml")
SCALARS = (None, True, -1, float("nan"), "", "../x", "\u202e", "a" * 600, "`")
INVALID_VALUES: tuple[Any, ...] = (*SCALARS, [], {}, [[None]])
LONGEST_LINE = 700


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield where each value stands, at any depth."""
    pairs: Any = ()
    if isinstance(value, dict):
        pairs = value.items()
    elif isinstance(value, list):
        pairs = enumerate(value)
    for key, inner in pairs:
        yield (*place, key)
        yield from places(inner, (*place, key))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "training_code" / "prices"
    (folder / "pytorch").mkdir(parents=True)
    (folder / "row.json").write_text("[1]")
    (folder / "prepare.py").touch()
    (folder / "plan.py").touch()
    (folder / "pytorch" / "measure.py").touch()
    return tmp_path


def lines_of(root: Path, content: bytes) -> tuple[str, ...]:
    (root / FILE).write_bytes(content)
    try:
        load_workload("prices", root)
    except ConfigError as error:
        return error.lines
    return ()


@pytest.mark.parametrize("place", list(places(VALID)), ids=lambda place: ".".join(map(str, place)))
def test_another_value_is_never_a_traceback(root: Path, place: tuple[Any, ...]) -> None:
    for value in INVALID_VALUES:
        document = copy.deepcopy(VALID)
        section = document
        for key in place[:-1]:
            section = section[key]
        section[place[-1]] = value
        for line in lines_of(root, yaml.safe_dump(document).encode()):
            assert line.startswith(FILE)
            assert line.isprintable()
            assert len(line) <= LONGEST_LINE
