"""What a workload says of its ranks and channels decides where they run and what they read."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from local_kit.tables import rows, table
from shoal.cli.main import main
from shoal.costs import prices
from shoal.pipelines.checks.check import check
from shoal.pipelines.checks.needs import Unknown, place_of
from shoal.settings.loading.loader import load_environment
from shoal.settings.parsing.errors import ConfigError, Risk
from tests.cli.trained import document_in
from tests.pipelines.inputs import steps_by_name
from tests.repository import BASE_MODEL, ENVIRONMENT, FOLDER, IMAGE, add_letters, write_environment

PLAN, RANKS, LISTED = table(__file__, "checked.yaml")["files"].values()


def repository(root: Path, gib: int, *, shared: bool = False, plan: str = PLAN) -> Path:
    """Return a repository with one workload that says what it needs."""
    folder = root / "training_code" / "letters"
    shutil.copytree(FOLDER, folder)
    with (folder / "workload.yaml").open("a") as file:
        file.write("plan: needs.py\n")
    (folder / "needs.py").write_text(plan)
    (root / "environments").mkdir()
    text = RANKS.replace("GIB", str(gib)).replace("SHARED", str(shared).lower())
    (root / "environments" / "lab.yaml").write_text(text)
    return root


def lines(root: Path) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        check(load_environment("lab", root), root)
    return list(caught.value.lines)


def test_what_cannot_fit_is_refused_with_what_would(tmp_path: Path) -> None:
    (line,) = lines(repository(tmp_path, 100))
    assert line.startswith('environments/lab.yaml:9: training.instance_type = "ml.p4d.24xlarge":')
    assert "needs about 101.0 GiB (100.0 weights, 1.0 buffers), and a GPU of" in line
    assert line.endswith(
        "what would fit: hyperparameters shared: true; instance_type ml.p5e.48xlarge"
    )


def test_more_nodes_are_an_advice_where_they_share(tmp_path: Path) -> None:
    (line,) = lines(repository(tmp_path, 800, shared=True))
    assert "what would fit: hyperparameters gib: 400; instance_count 4; instance_type ml." in line


def test_what_nothing_would_make_fit_is_too_large(tmp_path: Path) -> None:
    plan = PLAN.replace('[{"gib": options["gib"] // 2}, {"shared": True}]', "[]")
    (line,) = lines(repository(tmp_path, 900, plan=plan))
    assert line.endswith("has 40; make the model smaller")


def test_each_type_that_a_run_may_choose_must_fit(tmp_path: Path) -> None:
    file = repository(tmp_path, 60) / "environments" / "lab.yaml"
    other = "instance_type: ml.p4de.24xlarge\n  other_instance_types: [ml.p4d.24xlarge]"
    file.write_text(file.read_text().replace("instance_type: ml.p4d.24xlarge", other))
    (line,) = lines(tmp_path)
    assert "other_instance_types" in line
    assert "cannot run there: each rank needs about 61.0 GiB" in line


def test_what_may_fit_is_a_risk(tmp_path: Path) -> None:
    notices = check(load_environment("lab", repository(tmp_path, 41)), tmp_path).notices
    (risk,) = [each for each in notices if isinstance(each, Risk) and "GiB" in each]
    assert risk.endswith("ml.p4d.24xlarge has 40; the estimate may be 10 % off")


@pytest.mark.parametrize(("max_runtime_s", "is_told"), [(7199, True), (7200, False)])
def test_steps_that_take_longer_than_the_job_may_are_a_risk(
    tmp_path: Path, max_runtime_s: int, is_told: bool
) -> None:
    environment = load_environment("lab", repository(tmp_path, 1))
    training = environment.training.model_copy(update={"max_runtime_s": max_runtime_s})
    notices = check(environment.model_copy(update={"training": training}), tmp_path).notices
    told = (
        "training.max_runtime_s: the steps alone take about 7,200 s, and SageMaker stops the job"
        " after 7,199; set more than 7200, or fewer steps"
    )
    assert (told in notices) is is_told


@pytest.mark.parametrize(
    ("gib", "plan", "says"),
    [
        (0, PLAN, "environments/lab.yaml:11: training.hyperparameters: gib 0 is below 1; correct"),
        (1, "def plan(job):\n    return job['size']\n", "needs.py: plan: failed: KeyError: 'size'"),
        (1, "def needs(job): ...\n", "needs.py: plan: failed: KeyError: 'plan'"),
        (
            1,
            "def plan(job): return {}\n",
            "returned something else than it should at memory: Field",
        ),
        (1, "def plan(job):", "training_code/letters/needs.py: plan: failed: IndentationError: "),
    ],
)
def test_a_mistake_is_one_line(tmp_path: Path, gib: int, plan: str, says: str) -> None:
    (line,) = lines(repository(tmp_path, gib, plan=plan))
    assert says in line


@pytest.mark.parametrize(("training", "smddp", "backend"), rows(__file__, "checked.yaml", "smddp"))
def test_a_plan_learns_whether_the_strategy_that_runs_is_smddps(
    tmp_path: Path, training: str, smddp: bool, backend: str
) -> None:
    plan = "def plan(job): raise ValueError((job['smddp'], job['hyperparameters']['backend']))"
    file = repository(tmp_path, 1, plan=plan) / "environments" / "lab.yaml"
    text = file.read_text().replace("{gib: 1,", "{gib: 1, backend: smddp,")
    training += '\n  framework_version: "2.5.1"'
    file.write_text(text.replace("strategy: torchrun", training))
    (line,) = lines(tmp_path)
    assert f"training.hyperparameters: ({smddp}, '{backend}'); correct" in line


def test_a_plan_that_is_missing_is_told(tmp_path: Path) -> None:
    (repository(tmp_path, 1) / "training_code" / "letters" / "needs.py").unlink()
    (line,) = lines(tmp_path)
    assert "workload.yaml:" in line
    assert 'plan = "needs.py": there is no such file in letters; write it, or remove' in line


@pytest.mark.parametrize(("changes", "why"), rows(__file__, "checked.yaml", "unknown"))
def test_what_no_table_has_is_unknown(tmp_path: Path, changes: dict[str, object], why: str) -> None:
    environment = load_environment("lab", repository(tmp_path, 1))
    training = environment.training.model_copy(update=changes)
    with pytest.raises(Unknown, match=why):
        place_of(environment.model_copy(update={"training": training}), tmp_path)


def test_what_a_plan_does_not_count_is_unknown_and_not_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = "def plan(job): raise NotImplementedError(f'none counts {job[\"channels\"]}')"
    root = repository(tmp_path, 900, plan=plan)
    assert not any("GiB" in each for each in check(load_environment("lab", root), root).notices)
    assert main(["--root", str(root), "plan", "lab"]) == 0
    told = "memory of each GPU\n  unknown: none counts ['pages', 'holdout']\n"
    assert told in capsys.readouterr().out


def test_the_plan_says_where_it_would_run_how_long_and_for_how_much(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = repository(tmp_path, 30)
    file = root / "environments" / "lab.yaml"
    file.write_text(file.read_text() + LISTED)
    assert main(["--root", str(root), "plan", "lab"]) == 0
    printed = capsys.readouterr().out.splitlines()
    rows = {line.split()[0]: line.split()[1:] for line in printed if line.strip()}
    assert any(line.startswith("note: training.max_runtime_s: the steps") for line in printed)
    assert rows["together"] == ["31.0"]
    assert rows["ml.g5.48xlarge"] == ["2", "A10G", "22", "31.0", "too", "small"]
    assert rows["ml.p4d.24xlarge"] == ["2", "A100", "40", "31.0", "2.00", "~101.01"]  # 2 h
    assert rows["ml.p4de.24xlarge"][0] == "1"
    assert rows["ml.p6-b200.48xlarge"] == ["2", "B200", "179", "31.0", "unknown", "unknown"]
    assert rows["a"] == ["step", "on", "ml.p4de.24xlarge:", "a", "stopwatch"]
    price = prices.instance("ml.p4de.24xlarge", "us-east-1")
    assert price is not None
    assert f"  {price.date}: {price.source}" in printed  # of no other line than p4de's


def test_json_has_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = repository(tmp_path, 30)
    assert main(["--root", str(root), "plan", "lab", "--json"]) == 0
    memory = document_in(capsys.readouterr().out)["gpu_memory"]
    assert (memory["gib_of_a_rank"], memory["steps"]) == (31.0, 3600)
    places = {place["instance_type"]: place for place in memory["places"]}
    assert (places["ml.g5.48xlarge"]["fits"], places["ml.p4d.24xlarge"]["usd"]) == (False, 101.0051)
    assert places["ml.p4de.24xlarge"]["price"]["date"] == "2026-07-01"


DATASET = "s3://shoal-letters-lab-data-111122223333-us-east-1/datasets/letters"
SEALED = f"s3://shoal-letters-lab-artifacts-111122223333-us-east-1/models/{'0' * 64}/"


def checked(root: Path, text: str = ENVIRONMENT) -> dict[str, Any]:
    """Return the definition of the environment `lab` with this text, once `shoal check` is past."""
    add_letters(root)
    write_environment(root, text)
    return check(load_environment("lab", root), root).definition


def channels(definition: dict[str, Any]) -> dict[str, dict[str, Any]]:
    training = steps_by_name(definition)["Train"]["Arguments"]
    return {each["ChannelName"]: each for each in training["InputDataConfig"]}


def defaults(definition: dict[str, Any]) -> dict[str, Any]:
    return {each["Name"]: each.get("DefaultValue") for each in definition["Parameters"]}


def test_training_gets_the_channels_of_the_map(tmp_path: Path) -> None:
    definition = checked(tmp_path)
    assert list(channels(definition)) == ["pages", "holdout"]
    source = channels(definition)["pages"]["DataSource"]["S3DataSource"]
    assert source["S3Uri"] == {"Get": "Parameters.PagesDataUri"}
    assert channels(definition)["pages"]["ContentType"] == "text/plain"
    assert defaults(definition)["PagesDataUri"] == f"{DATASET}/pages/"
    assert "BaseModelDataUri" not in defaults(definition)


def test_an_optional_channel_is_one_more_input_and_parameter(tmp_path: Path) -> None:
    definition = checked(tmp_path, BASE_MODEL)
    assert list(channels(definition)) == ["pages", "holdout", "base_model"]
    assert defaults(definition)["BaseModelDataUri"] == f"{DATASET}/base_model/"


def test_the_evaluation_reads_the_channel_that_it_names(tmp_path: Path) -> None:
    evaluation = steps_by_name(checked(tmp_path))["Evaluate"]["Arguments"]
    (holdout,) = [each for each in evaluation["ProcessingInputs"] if each["InputName"] == "holdout"]
    assert holdout["S3Input"]["S3Uri"] == {"Get": "Parameters.HoldoutDataUri"}
    assert evaluation["AppSpecification"]["ImageUri"] == IMAGE
    arguments = evaluation["AppSpecification"]["ContainerArguments"]
    position = arguments.index("--test-dir")
    assert arguments[position + 1] == holdout["S3Input"]["LocalPath"]


def test_beside_a_file_system_a_channel_with_a_uri_is_copied_from_s3(tmp_path: Path) -> None:
    data = f"data: {{input_mode: FSx, channels: {{base_model: {{uri: {SEALED}}}}}}}\n"
    found = checked(tmp_path, f"{ENVIRONMENT}file_system: {{}}\n{data}")
    assert "FileSystemDataSource" in channels(found)["pages"]["DataSource"]
    assert "S3DataSource" in channels(found)["base_model"]["DataSource"]
    assert defaults(found)["PagesDataPath"] == "/00000000/datasets/letters/pages"
    assert defaults(found)["BaseModelDataUri"] == SEALED


@pytest.mark.parametrize(("change", "line"), rows(__file__, "checked.yaml", "needs_refused"))
def test_what_is_missing_or_wrong_is_one_line(tmp_path: Path, change: str, line: str) -> None:
    small = 'name: lab\nworkload: letters\naccount: "111122223333"\n'
    if "training" not in change:
        small += "training: {strategy: none, instance_type: ml.m5.large}\n"
    with pytest.raises(ConfigError) as error:
        checked(tmp_path, f"{small}{change}\n")
    (told,) = error.value.lines
    assert told.startswith("environments/lab.yaml:")
    assert line in told
