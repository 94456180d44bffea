"""`shoal new`: what it writes is checked and typed; what it does not write it says in a line."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from shoal.errors import UsageError
from shoal.launch import resolve
from shoal.pipelines.checks.check import check
from shoal.settings.loading.loader import load_environment
from shoal.settings.loading.workload import load_workload
from shoal.settings.parsing.errors import LaunchError
from shoal.verbs.new_workload import (
    FRAMEWORKS,
    MAX_NAME_CHARACTERS,
    TASKS,
    TRAINERS,
    write_workload,
)
from tests.repository import CHECKOUT

KINDS = [*((task, framework) for task in TASKS for framework in FRAMEWORKS)]
KINDS += [(trainer, "pytorch") for trainer in TRAINERS]


def files(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


@pytest.mark.parametrize(("task", "framework"), KINDS)
def test_an_environment_with_it_is_right(tmp_path: Path, task: str, framework: str) -> None:
    shutil.copytree(CHECKOUT / "images", tmp_path / "images")  # those of trainers build one
    write_workload(tmp_path, "fresh", task, framework)
    environment = load_environment("fresh", tmp_path)
    checked = check(environment, tmp_path)
    assert (environment.workload, environment.training.framework) == ("fresh", framework)
    assert checked.launch.entry_point == "train.py"
    assert list(load_workload("fresh", tmp_path).frameworks) == [framework]


@pytest.mark.parametrize(("task", "framework"), KINDS)
def test_its_scripts_have_types(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, task: str, framework: str
) -> None:
    write_workload(tmp_path, "fresh", task, framework)
    source = tmp_path / "training_code" / "fresh" / framework
    cache = tmp_path_factory.getbasetemp() / "mypy"
    options = ("--config-file", CHECKOUT / "pyproject.toml", "--cache-dir", cache)
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "--allow-untyped-decorators", source],
        cwd=tmp_path,
        env={"MYPYPATH": str(source)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.parametrize("trainer", TRAINERS)
def test_the_container_that_a_trainers_environment_names_fits(tmp_path: Path, trainer: str) -> None:
    shutil.copytree(CHECKOUT / "images", tmp_path / "images")
    _, file = write_workload(tmp_path, "fresh", trainer)
    text = (tmp_path / file).read_text().replace("image_of: endpoint", "image_of: training")
    text = re.sub(r"^  build_image: trainers-.*\n", "", text, flags=re.MULTILINE)
    (tmp_path / file).write_text(re.sub(r"^  # (\w+: )", r"  \1", text, flags=re.MULTILINE))
    environment = load_environment("fresh", tmp_path)
    checked = check(environment, tmp_path)
    assert '"HF_MODEL_ID": "/opt/ml/model"' in json.dumps(checked.definition)
    assert [each for each in checked.notices if each.startswith("endpoint.")] == []


def test_an_image_whose_python_is_too_old_is_refused(tmp_path: Path) -> None:
    write_workload(tmp_path, "fresh", "regression")
    environment = load_environment("fresh", tmp_path)
    training = environment.training.model_copy(update={"framework_version": "1.13.1"})
    with pytest.raises(LaunchError, match=r"has Python 3\.9, and .*fresh/.* needs 3\.10"):
        resolve(training, environment.region, root=tmp_path)


def test_nothing_of_the_templates_own_name_is_left(tmp_path: Path) -> None:
    write_workload(tmp_path, "fresh", "regression")
    texts = [(tmp_path / path).read_text() for path in files(tmp_path)]
    assert [text for text in texts if re.search("my-(model|framework|empty)", text)] == []


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_an_empty_cell_is_nan_where_trees_take_it_and_an_error_elsewhere(
    tmp_path: Path, framework: str
) -> None:
    write_workload(tmp_path, "fresh", "regression", framework)
    row_of = runpy.run_path(str(tmp_path / f"training_code/fresh/{framework}/table.py"))["row_of"]
    assert row_of([0, "1.5", 2]) == [0, 1.5, 2]
    for empty in ("", None):
        if framework == "pytorch":
            with pytest.raises(ValueError, match="could not convert"):
                row_of([empty, 1, 2])
        else:
            assert str(row_of([empty, 1, 2])) == "[nan, 1.0, 2.0]"


def test_the_longest_name_has_an_environment(tmp_path: Path) -> None:
    name = "m" * MAX_NAME_CHARACTERS
    shutil.copytree(CHECKOUT / "images", tmp_path / "images")
    write_workload(tmp_path, name, "regression")
    assert check(load_environment(name, tmp_path), tmp_path)


@pytest.mark.parametrize(
    "name", ["", "Fresh", "1st", "a_b", "a--b", "-a", "../x", "a/b", "é", "a\n", "m" * 21]
)
def test_a_wrong_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="is no name for a workload: give lower case") as error:
        write_workload(tmp_path, name, "regression")
    assert str(error.value).isprintable()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", ["training_code/fresh", "environments/fresh.yaml"])
def test_what_is_there_stays(tmp_path: Path, path: str) -> None:
    (tmp_path / path).parent.mkdir()
    (tmp_path / path).symlink_to("nowhere")  # a link to nothing is there, too
    with pytest.raises(UsageError, match=f"{path} is there already; give another name"):
        write_workload(tmp_path, "fresh", "regression")
    assert files(tmp_path) == []


@pytest.mark.parametrize("folder", ["training_code", "environments"])
def test_a_place_that_takes_no_files_is_named(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).write_text("a file")
    with pytest.raises(UsageError, match=f"{folder}.* cannot be written: "):
        write_workload(tmp_path, "fresh", "regression")
    assert files(tmp_path) == [folder]
