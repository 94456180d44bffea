"""A workload's file and its own smoke test: what they give, and one line for each mistake."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from local_kit.tables import rows, table
from shoal.settings.loading.loader import load_environment
from shoal.settings.loading.workload import folders_without_a_file, load_workload, workload_names
from shoal.settings.parsing.errors import ConfigError
from shoal.settings.sections.smoke_test import MAX_FUNCTION_BYTES, problems_of_function
from shoal.settings.settings import Environment
from tests.repository import CHECKOUT

REQUEST = {"body": "row.json", "expect": {"predictions[0]": 7}}
VALID: dict[str, Any] = {
    "name": "prices",
    "frameworks": {"pytorch": {}},
    "gates": [{"metric": "rmse", "at_most": 60}],
    "smoke_test": {"requests": [REQUEST]},
}
ONLY_TRAINS = {"smoke_test": None, "endpoint": "none"}
FILE = "training_code/prices/workload.yaml"


def lines_of(root: Path, text: str) -> list[str]:
    """Return what a user reads when the file has this text."""
    folder = root / "training_code" / "prices"
    (folder / "pytorch").mkdir(parents=True, exist_ok=True)
    (folder / "row.json").write_text("[1]")
    (folder / "row.csv").write_text("1,2\n")
    (folder / "workload.yaml").write_text(text)
    try:
        load_workload("prices", root)
    except ConfigError as error:
        return str(error).splitlines()
    return []


def lines_with(root: Path, **changes: Any) -> list[str]:
    """Return what a user reads when the valid file has `changes`; what is None is left out."""
    content = {key: value for key, value in (VALID | changes).items() if value is not None}
    return lines_of(root, yaml.safe_dump(content, sort_keys=False))


def lines_with_test(root: Path, **changes: Any) -> list[str]:
    """Return what a user reads when the smoke test of the valid file has `changes`."""
    return lines_with(root, smoke_test=VALID["smoke_test"] | changes)


@pytest.mark.parametrize("name", workload_names(CHECKOUT))
def test_the_shipped_workloads_are_right(name: str) -> None:
    assert load_workload(name, CHECKOUT).name == name


def test_a_value_alone_is_what_is_expected(tmp_path: Path) -> None:
    assert lines_with(tmp_path) == []
    test = load_workload("prices", tmp_path).smoke_test
    assert test
    assert test.requests[0].expect["predictions[0]"].equals == 7


def test_a_folder_without_the_file_is_known(tmp_path: Path) -> None:
    assert lines_with(tmp_path) == []
    for name in ("barns", "__pycache__", ".new-1"):
        (tmp_path / "training_code" / name).mkdir()
    assert folders_without_a_file(tmp_path) == ["training_code/barns"]


def test_an_unknown_workload_lists_those_that_exist(tmp_path: Path) -> None:
    lines_with(tmp_path)
    with pytest.raises(ConfigError, match='there is no workload "price"; there are: prices'):
        load_workload("price", tmp_path)


@pytest.mark.parametrize(("text", "line"), rows(__file__, "workloads.yaml", "texts"))
def test_a_wrong_text_is_told_line_by_line(tmp_path: Path, text: str, line: str) -> None:
    (told,) = (each for each in lines_of(tmp_path, text) if line in each)
    assert told.startswith(FILE)


@pytest.mark.parametrize(
    "row", table(__file__, "workloads.yaml")["one"], ids=lambda row: row["line"][:60]
)
def test_a_mistake_is_one_line(tmp_path: Path, row: dict[str, Any]) -> None:
    changes = {key: row[key] for key in row if key != "line"}
    (line,) = lines_with(tmp_path, **changes)
    assert row["line"] in line


@pytest.mark.parametrize(("expectation", "line"), rows(__file__, "workloads.yaml", "expectations"))
def test_a_wrong_expectation_is_one_line_with_its_place(
    tmp_path: Path, expectation: Any, line: str
) -> None:
    (told,) = lines_with_test(
        tmp_path, requests=[REQUEST | {"expect": {"predictions[0]": expectation}}]
    )
    assert told.startswith(f"{FILE}:")
    assert "smoke_test.requests[0].expect.predictions[0]" in told
    assert line in told


@pytest.mark.parametrize(
    ("expression", "line"),
    [*rows(__file__, "workloads.yaml", "expressions"), ("!" * 900, "is no JMESPath expression")],
)
def test_an_expression_that_jmespath_refuses_is_one_line(
    tmp_path: Path, expression: str, line: str
) -> None:
    (told,) = lines_with_test(tmp_path, every_answer={expression: 1})
    assert f"smoke_test.every_answer.{expression[:40]}" in told
    assert f": {line}" in told


def test_a_body_that_no_endpoint_takes_is_refused(tmp_path: Path) -> None:
    (file := tmp_path / "training_code" / "prices" / "large.json").parent.mkdir(parents=True)
    file.write_text(f'"{"x" * 6 * 1024 * 1024}"')
    (told,) = lines_with_test(tmp_path, requests=[{"body": "large.json"}])
    assert "has 6,291,458 bytes; an endpoint takes 6,291,456" in told


def environment(root: Path, **changes: Any) -> Environment:
    """Return an environment of the repository at `root`, with `changes` in its file."""
    (root / "environments").mkdir()
    text = yaml.safe_dump({"name": "dev", "account": "111122223333", **changes})
    (root / "environments" / "dev.yaml").write_text(text)
    return load_environment("dev", root)


def test_a_function_of_the_workloads_own_is_read_too(tmp_path: Path) -> None:
    (line,) = lines_with_test(tmp_path, function="smoke.py")
    assert 'smoke_test.function = "smoke.py": there is no such file' in line


def test_an_environment_leaves_out_what_its_workload_says(tmp_path: Path) -> None:
    test = VALID["smoke_test"] | {"max_latency_ms": 700}
    more = {
        "smoke_test": test,
        "content_types": ["text/csv"],
        "metrics": {"loss": {"regex": "loss=([0-9.]+)"}},
        "evaluation": {"entry_point": "measure.py", "instance_type": "ml.g5.xlarge"},
        "secrets": {"HF_TOKEN": "team/hf"},
    }
    script = tmp_path / "training_code" / "prices" / "pytorch" / "measure.py"
    script.parent.mkdir(parents=True)
    script.touch()
    assert lines_with(tmp_path, **more) == []
    found = environment(tmp_path, workload="prices")
    assert (found.project, found.data.dataset) == ("prices", "prices")
    assert found.training.source_dir == "training_code/prices/pytorch"
    assert [(gate.metric, gate.at_most) for gate in found.evaluation.gates] == [("rmse", 60)]
    job = found.evaluation
    assert (job.entry_point, job.instance_type) == ("measure.py", "ml.g5.xlarge")
    assert found.endpoint
    assert found.endpoint.content_types == ("text/csv",)
    assert found.endpoint.max_latency_ms == 700
    assert found.training.metrics["loss"].regex == "loss=([0-9.]+)"
    assert found.training.secrets == {"HF_TOKEN": "team/hf"}


def test_what_an_environment_says_counts_more(tmp_path: Path) -> None:
    script = tmp_path / "training_code" / "prices" / "pytorch" / "own.py"
    script.parent.mkdir(parents=True)
    script.touch()
    job = {"entry_point": "own.py", "image_uri": "theirs/own:1"}
    assert lines_with(tmp_path, evaluation=job) == []
    found = environment(
        tmp_path,
        workload="prices",
        project="lab",
        data={"input_mode": "FastFile"},
        evaluation={"gates": [{"metric": "r2", "at_least": 0.5}], "image_uri": "mine/own:1"},
    )
    assert (found.project, found.data.dataset) == ("lab", "prices")
    assert [gate.metric for gate in found.evaluation.gates] == ["r2"]
    assert (found.evaluation.entry_point, found.evaluation.image_uri) == ("own.py", "mine/own:1")


def test_other_scripts_than_the_workloads_may_run_with_an_older_python(tmp_path: Path) -> None:
    frameworks = {"pytorch": {"min_python": "3.10"}}
    assert lines_with(tmp_path, frameworks=frameworks) == []
    settings = environment(tmp_path, workload="prices", training={"source_dir": "mine"})
    assert settings.training.min_python is None


@pytest.mark.parametrize(("changes", "line"), rows(__file__, "workloads.yaml", "misfits"))
def test_an_environment_that_does_not_fit_its_workload_is_one_line(
    tmp_path: Path, changes: dict[str, Any], line: str
) -> None:
    assert lines_with(tmp_path) == []
    with pytest.raises(ConfigError) as error:
        environment(tmp_path, **changes)
    assert [each for each in error.value.lines if line in each] == list(error.value.lines)
    assert len(error.value.lines) == 1


def test_an_environment_of_a_workload_that_only_trains_has_no_endpoint(tmp_path: Path) -> None:
    assert lines_with(tmp_path, **ONLY_TRAINS) == []
    assert environment(tmp_path, workload="prices").endpoint is None


def test_an_endpoint_of_a_workload_that_only_trains_is_one_line(tmp_path: Path) -> None:
    assert lines_with(tmp_path, **ONLY_TRAINS) == []
    with pytest.raises(ConfigError) as error:
        environment(tmp_path, workload="prices", endpoint={"instance_count": 2})
    (line,) = error.value.lines
    assert line.startswith("environments/dev.yaml:2: endpoint: training_code/prices/workload.yaml")
    assert "says `endpoint: none`; remove the section" in line


def test_a_file_without_a_workload_is_told_which_there_are(tmp_path: Path) -> None:
    assert lines_with(tmp_path) == []
    with pytest.raises(ConfigError) as error:
        environment(tmp_path, region="us-eastt-1")
    missing, region = error.value.lines
    assert missing == (
        "environments/dev.yaml: workload: the key is missing; training_code/ has: prices; write"
        " `workload: prices`, or `workloads` for several"
    )
    assert "did you mean us-east-1?" in region


def test_a_file_without_a_workload_where_there_is_none_is_told_what_writes_one(
    tmp_path: Path,
) -> None:
    with pytest.raises(ConfigError) as error:
        environment(tmp_path)
    assert "`shoal new NAME` writes one" in error.value.lines[0]
    with pytest.raises(ConfigError, match="the key is missing"):
        load_environment("dev", tmp_path, workload="prices")


FUNCTIONS = table(__file__, "workloads.yaml")["functions"]
CHECK = FUNCTIONS["right"][0]


def lines_about(folder: Path, text: str | bytes) -> list[str]:
    file = folder / "smoke.py"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return [each.line("workload.yaml") for each in problems_of_function(file, "smoke.py")]


@pytest.mark.parametrize("text", FUNCTIONS["right"])
def test_standard_library_and_boto3_are_enough(tmp_path: Path, text: str) -> None:
    assert lines_about(tmp_path, text) == []


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        *FUNCTIONS["wrong"].items(),
        (b"\x00", "source code string cannot contain null bytes"),
        (b"# \xff\n", "cannot read it: 'utf-8' codec"),
        (f"x = {'(' * 500}", "cannot read line 1: "),
        (f"{CHECK}#{'x' * MAX_FUNCTION_BYTES}", "are packed; shorten it"),
    ],
)
def test_what_could_not_run_is_one_line(tmp_path: Path, text: str | bytes, mistake: str) -> None:
    (line,) = lines_about(tmp_path, text)
    assert line.startswith('workload.yaml: smoke_test.function = "smoke.py": ')
    assert mistake in line
