"""`check` finds what would fail at deployment or later, and says it with file, key and value."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from shoal.pipelines.checks.check import check
from shoal.settings.loading.loader import load, load_environment
from shoal.settings.organisation import PackageIndex
from shoal.settings.parsing.errors import ConfigError, LaunchError
from shoal.settings.sections.schedules import Schedule
from shoal.settings.sections.serving import Endpoint
from shoal.settings.settings import Environment
from tests.pipelines.inputs import changed, environment
from tests.repository import ROOT
from tests.settings.environment_file import VALID, write
from tests.settings.releases import RELEASE
from tests.tables import rows, table

CASES = table(__file__, "checked.yaml")


def write_scripts(folder: Path) -> None:
    """Write scripts that keep the contract into a new folder."""
    folder.mkdir()
    for name in ("train", "evaluate", "inference"):
        (folder / f"{name}.py").write_text("print()  # accuracy rmse\n", encoding="utf-8")


def environment_of(row: dict[str, Any]) -> Environment:
    """Return the golden environment with the changes of a row."""
    keys = dict(row["change"])
    if "schedules" in keys:
        keys["schedules"] = tuple(map(Schedule.model_validate, keys["schedules"]))
    if "release" in keys:
        keys["release"] = RELEASE.model_copy(update=keys["release"])
    return changed(**keys)


@pytest.mark.parametrize("row", CASES["refused"], ids=str)
def test_what_cannot_run_is_one_line(row: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        check(environment_of(row))
    (line,) = str(caught.value).splitlines()
    assert [part for part in row["line"] if part not in line] == []


@pytest.mark.parametrize("row", CASES["told"], ids=str)
def test_what_a_user_should_know_is_a_notice(row: dict[str, Any]) -> None:
    notices = check(environment_of(row)).notices
    is_there = any(each.startswith(row["notice"]) for each in notices)
    assert is_there is not row.get("absent", False)


@pytest.mark.parametrize("row", CASES["requirements"], ids=str)
def test_requirements_need_a_way_to_a_package_index(tmp_path: Path, row: dict[str, Any]) -> None:
    write_scripts(tmp_path / "code")
    (tmp_path / "code" / "requirements.txt").write_text(row["text"])
    if "train" in row:
        (tmp_path / "code" / "train.py").write_text(row["train"])
    if "setup" in row:
        (tmp_path / "code" / "setup.py").touch()
    training: dict[str, Any] = {"source_dir": "code", "hyperparameters": {}}
    training |= {
        "strategy": "torchrun",
        "custom_mpi_options": "",
        "spot": False,
        "max_wait_s": None,
    }
    training |= row.get("training", {})
    sections = {"endpoint": row["endpoint"]} if "endpoint" in row else {}
    if "index" in row:
        sections["organisation"] = {"package_index": PackageIndex.model_validate(row["index"])}
    settings = changed(network=row.get("network", {}), training=training, **sections)
    if "refused" in row:
        with pytest.raises(ConfigError, match=row["refused"]):
            check(settings, tmp_path)
        return
    notices = check(settings, tmp_path).notices
    told = [each for each in notices if "VPC needs a way to" in each]
    assert [row["told"] in each for each in told] == ([True] if "told" in row else [])


@pytest.mark.parametrize("name", ["dev", "prod", "staging"])
def test_every_environment_of_the_repository_can_run(name: str) -> None:
    environment = load_environment(name, ROOT)
    assert check(environment).launch.case.training == environment.training


@pytest.mark.parametrize(("keys", "told"), rows(__file__, "checked.yaml", "unnamed_instance"))
def test_an_expensive_instance_that_nobody_wrote_is_a_notice(
    tmp_path: Path, keys: dict[str, Any], told: list[str]
) -> None:
    notices = check(load(write(tmp_path, json.dumps(VALID | keys)))).notices
    assert [each for each in notices if each.startswith("training.instance_t")] == told


@pytest.mark.parametrize(("training", "line"), rows(__file__, "checked.yaml", "language"))
def test_what_the_language_models_scripts_lack_is_one_line(
    tmp_path: Path, training: dict[str, Any], line: str
) -> None:
    keys = {"workload": "language", "training": training}
    with pytest.raises(LaunchError) as caught:
        check(load(write(tmp_path, json.dumps(VALID | keys)), root=ROOT))
    (told,) = str(caught.value).splitlines()
    assert line in told


@pytest.mark.parametrize(
    ("endpoint", "is_told"),
    [(Endpoint(build_image="none"), True), (Endpoint(), False), (None, False)],
)
def test_aws_image_for_the_endpoint_is_a_notice_where_it_answers(
    endpoint: Endpoint | None, is_told: bool
) -> None:
    torchrun = load_environment("dev", ROOT, "torchrun")
    settings = torchrun.model_copy(update={"endpoint": endpoint})
    told = any("image for endpoints" in notice for notice in check(settings).notices)
    assert told is is_told


def test_what_sagemaker_would_refuse_is_told_with_step_and_path() -> None:
    refused = "SageMaker would refuse Train.AlgorithmSpecification.TrainingImage: 261 characters"
    with pytest.raises(ConfigError, match=refused.replace(".", r"\.")):
        check(changed(training={"image_uri": f"r/{'x' * 257}:1"}))


def test_scripts_must_exist_where_the_environment_says(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError,
        match=r'training\.source_dir = "training_code/mnist/pytorch": there is no such folder',
    ):
        check(environment(), root=tmp_path)
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").touch()
    with pytest.raises(ConfigError) as caught:
        check(changed(training={"source_dir": "code"}), root=tmp_path)
    (line,) = str(caught.value).splitlines()
    assert 'evaluation.entry_point = "evaluate.py": there is no such file in code' in line


def test_with_the_repository_at_hand_a_line_names_the_line_of_the_file(tmp_path: Path) -> None:
    write_scripts(tmp_path / "code")
    (tmp_path / "environments").mkdir()
    write(tmp_path / "environments", "name: golden\ntraining:\n  instance_type: x\n", "golden")
    with pytest.raises(LaunchError, match=r"^environments/golden\.yaml:3: training\.instance_type"):
        check(
            changed(training={"source_dir": "code", "instance_type": "ml.p5.48xlarge"}),
            root=tmp_path,
        )


def test_what_an_image_lacks_may_stand_in_requirements_of_the_source_folder(tmp_path: Path) -> None:
    write_scripts(tmp_path / "code")
    training: dict[str, Any] = {"strategy": "horovod", "framework_version": "2.3.0"}
    training |= {"source_dir": "code", "entry_point": "train.py", "hyperparameters": {}}
    training |= {"spot": False, "max_wait_s": None}
    settings = changed(training=training, network={"nat": True})
    with pytest.raises(LaunchError, match=r"does not contain Horovod"):
        check(settings, root=tmp_path)
    (tmp_path / "code" / "requirements.txt").write_text("horovod==0.28.1\n", encoding="utf-8")
    told = "horovod in requirements.txt is compiled on every instance"
    assert any(told in notice for notice in check(settings, root=tmp_path).notices)
