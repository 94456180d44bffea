"""What `shoal init` and `shoal new` write is small and right; what is wrong writes nothing."""

import json
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from local_kit.commands import ended, printed
from local_kit.tables import rows, table
from shoal.constructs.app import feature_flags
from shoal.errors import UsageError
from shoal.launch import resolve
from shoal.pipelines.checks.check import check
from shoal.settings.loading.loader import load_environment, load_workloads
from shoal.settings.loading.workload import load_workload
from shoal.settings.parsing.errors import ConfigError, LaunchError
from shoal.verbs.init import (
    COPIED,
    FILE,
    KINDS,
    WHEELS,
    Answers,
    answers_of,
    folder_of,
    read_answers,
    render,
    take_wheels,
)
from shoal.verbs.new_workload import FRAMEWORKS, TASKS, TRAINERS, write_workload
from tests import forked
from tests.repository import CHECKOUT, git

ACCOUNTS = {"dev": "111122223333", "prod": "333344445555"}
WORKFLOWS = {"github": ".github/workflows/test.yml", "gitlab": ".gitlab-ci.yml"}


def answers(**changed: Any) -> Answers:
    places = {name: {"account": each, "region": "eu-west-1"} for name, each in ACCOUNTS.items()}
    plain = {"project": "acme", "workload": "churn", "kind": "regression", "environments": places}
    return answers_of(plain | changed)


def texts(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {path.relative_to(folder).as_posix(): path.read_text() for path in files}


@pytest.mark.parametrize("ci", ["github", "gitlab", "none"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_rendering_is_right_and_has_the_top_level(tmp_path: Path, kind: str, ci: str) -> None:
    given = answers(kind=kind, ci=ci)
    render(given, tmp_path / "one")
    files = texts(tmp_path / "one")

    own = {name: text for name, text in files.items() if name.split("/")[0] in COPIED}
    assert own == {name: (CHECKOUT / name).read_text() for name in own}
    assert [name for name in WORKFLOWS.values() if name in files] == [
        name for host, name in WORKFLOWS.items() if host == ci
    ]
    assert not [name for name, text in files.items() if "mnist" in text + name or "{%" in name]
    for name in ACCOUNTS:
        for workload in load_workloads(name, tmp_path / "one"):
            assert check(workload, tmp_path / "one").definition

    assert read_answers(tmp_path / "one") == given
    render(given, tmp_path / "two")
    assert texts(tmp_path / "two") == files


def test_all_that_the_top_level_has_is_rendered(tmp_path: Path) -> None:
    render(answers(), tmp_path)
    listed = git(CHECKOUT, "ls-files", *COPIED, ":!tests/snapshots")
    assert set(listed.split()) <= set(texts(tmp_path))


@pytest.mark.parametrize(("changed", "message"), rows(__file__, "cases.yaml", "answers"))
def test_a_wrong_answer_is_one_error(changed: dict[str, Any], message: str) -> None:
    with pytest.raises((ConfigError, UsageError)) as error:
        answers(**changed)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", [None, "", "- a", "a: 1\na: 2", "project: acme"])
def test_a_repository_without_answers_is_refused(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / FILE).write_text(text)
    with pytest.raises((ConfigError, UsageError), match=r"\.shoal-answers\.yaml"):
        read_answers(tmp_path)


def command(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run `shoal init team` in `folder`, without a terminal and without a package index."""
    command = forked.command("init", "team", *options)
    variables = {"UV_OFFLINE": "1", "HOME": str(folder), "PATH": "/usr/bin:/bin"}
    return ended(*command, cwd=folder, env=variables, stdin=subprocess.DEVNULL)


@pytest.mark.parametrize(("file", "options", "message"), rows(__file__, "cases.yaml", "commands"))
def test_what_cannot_be_made_leaves_nothing(
    tmp_path: Path, file: str, options: str, message: str
) -> None:
    if file:
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text("mine")
    before = texts(tmp_path)
    result = command(tmp_path, *options.split())
    assert (result.returncode, result.stdout) == (2, "")
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert texts(tmp_path) == before


def test_without_an_index_all_but_the_lock_is_written_and_said(tmp_path: Path) -> None:
    (tmp_path / "team" / ".git").mkdir(parents=True)
    result = command(tmp_path)
    assert result.returncode == 1
    assert "requirements.txt is missing, because " in result.stderr
    assert "-m shoal.verbs.init" in result.stderr
    assert {"app.py", "requirements.in", FILE} <= set(texts(tmp_path / "team"))
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".shoal")] == []


def test_wheels_of_a_folder_come_along_and_those_of_before_go(tmp_path: Path) -> None:
    source, root = tmp_path / "dist", tmp_path / "team"
    for folder, version in ((source, "1.0"), (source, "2.0"), (root / WHEELS, "1.0")):
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("shoal", "shoal_local"):
            (folder / f"{name}-{version}-py3-none-any.whl").write_text(version)
    (root / WHEELS / "other-1.0-py3-none-any.whl").touch()
    for place in ("", "https://host/simple"):
        assert folder_of(place, tmp_path) is None
    with pytest.raises(UsageError, match="no such folder; give one, or a page"):
        folder_of("dits", tmp_path)
    with pytest.raises(UsageError, match=r"dist has no shoal-3.* and no shoal_local-3.*--wheels"):
        take_wheels(source, root, "3.0")
    for folder in (source, root / WHEELS):  # the second time they are there already
        take_wheels(folder, root, "2.0")
        assert sorted(file.name.partition("-py3")[0] for file in (root / WHEELS).iterdir()) == [
            "other-1.0",
            "shoal-2.0",
            "shoal_local-2.0",
        ]


def test_a_repository_may_set_flags_of_its_own(tmp_path: Path) -> None:
    name = "@aws-cdk/core:explicitStackTags"
    for context, expected in (({}, True), ({name: False}, False)):
        (tmp_path / "cdk.json").write_text(json.dumps({"context": context}))
        assert feature_flags(tmp_path)[name] is expected


WORKLOADS = [*((task, framework) for task in TASKS for framework in FRAMEWORKS)]
WORKLOADS += [(trainer, "pytorch") for trainer in TRAINERS]


@pytest.mark.parametrize(("task", "framework"), WORKLOADS)
def test_an_environment_with_it_is_right(tmp_path: Path, task: str, framework: str) -> None:
    shutil.copytree(CHECKOUT / "images", tmp_path / "images")  # those of trainers build one
    write_workload(tmp_path, "fresh", task, framework)
    environment = load_environment("fresh", tmp_path)
    checked = check(environment, tmp_path)
    assert (environment.workload, environment.training.framework) == ("fresh", framework)
    assert checked.launch.case.training.entry_point == "train.py"
    assert list(load_workload("fresh", tmp_path).frameworks) == [framework]


@pytest.mark.parametrize(("task", "framework"), WORKLOADS)
def test_its_scripts_have_types(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, task: str, framework: str
) -> None:
    write_workload(tmp_path, "fresh", task, framework)
    source = tmp_path / "training_code" / "fresh" / framework
    cache = tmp_path_factory.getbasetemp() / "mypy"
    options = ("--config-file", CHECKOUT / "pyproject.toml", "--cache-dir", cache)
    command = (sys.executable, "-m", "mypy", *options, "--allow-untyped-decorators", source)
    printed(*command, cwd=tmp_path, env={"MYPYPATH": str(source)})


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
    written = texts(tmp_path).values()
    assert [text for text in written if re.search("my-(model|framework|empty)", text)] == []


def rows_py(folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return what a workload's rows.py has, next to its table.py."""
    columns = SimpleNamespace(**runpy.run_path(f"{folder}/table.py"))
    monkeypatch.setitem(sys.modules, "table", columns)
    return runpy.run_path(f"{folder}/rows.py")


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_an_empty_cell_is_nan_where_trees_take_it_and_an_error_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, framework: str
) -> None:
    write_workload(tmp_path, "fresh", "regression", framework)
    row_of = rows_py(tmp_path / f"training_code/fresh/{framework}", monkeypatch)["row_of"]
    assert row_of([0, "1.5", 2]) == [0, 1.5, 2]
    for empty in ("", None):
        if framework == "pytorch":
            with pytest.raises(ValueError, match="could not convert"):
                row_of([empty, 1, 2])
        else:
            assert str(row_of([empty, 1, 2])) == "[nan, 1.0, 2.0]"


BAD = ["{}", "[1]", "[" * 100_000, *table(__file__, "cases.yaml")["bad_requests"]]


@pytest.mark.parametrize("body", BAD)
def test_a_request_that_is_no_rows_of_finite_numbers_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    write_workload(tmp_path, "fresh", "regression")
    rows_of = rows_py(tmp_path / "training_code/fresh/pytorch", monkeypatch)["rows_of"]
    with pytest.raises(ValueError, match="send rows of distance_km, stops, load_kg"):
        rows_of(body, "application/json")


@pytest.mark.parametrize(
    ("task", "row"),
    [
        *(("regression", row) for row in ("1,nan,3,4", "1,2", "1,2,3,x", "1,2,3,1e39")),
        ("classification", "1,2,3,barrel"),
    ],
)
def test_a_bad_cell_is_refused_with_file_and_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: str, row: str
) -> None:
    write_workload(tmp_path, "fresh", task)
    module = rows_py(tmp_path / "training_code/fresh/pytorch", monkeypatch)
    heads = {
        "regression": "distance_km,stops,load_kg,minutes\n1,2,3,4",
        "classification": "width_cm,height_cm,weight_kg,kind\n1,2,3,box",
    }
    (tmp_path / "a.csv").write_text(f"\ufeff{heads[task]}\n{row}\n")
    with pytest.raises(ValueError, match=r"a\.csv, line 3: "):
        module["read"](tmp_path)


def test_one_target_alone_has_no_variance_to_explain(tmp_path: Path) -> None:
    write_workload(tmp_path, "fresh", "regression")
    module = runpy.run_path(str(tmp_path / "training_code/fresh/pytorch/table.py"))
    assert module["measure"]([[5.0]], [4.0])["r2"] == 0


NAMES = table(__file__, "cases.yaml")["names"]


def test_the_longest_name_has_an_environment(tmp_path: Path) -> None:
    shutil.copytree(CHECKOUT / "images", tmp_path / "images")
    write_workload(tmp_path, NAMES["longest"], "regression")
    assert check(load_environment(NAMES["longest"], tmp_path), tmp_path)


@pytest.mark.parametrize("name", NAMES["wrong"])
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
    assert texts(tmp_path) == {}


@pytest.mark.parametrize("folder", ["training_code", "environments"])
def test_a_place_that_takes_no_files_is_named(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).write_text("a file")
    with pytest.raises(UsageError, match=f"{folder}.* cannot be written: "):
        write_workload(tmp_path, "fresh", "regression")
    assert texts(tmp_path) == {folder: "a file"}
