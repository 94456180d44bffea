"""What the scripts lack is told before a job is paid for."""

import re
from pathlib import Path
from typing import Any

import pytest

from local_kit.tables import rows, table
from shoal.pipelines.checks.check import check
from shoal.pipelines.checks.scripts import checkpoint_problems
from shoal.settings.loading.loader import load_environment
from shoal.settings.parsing.errors import ConfigError, Risk
from shoal.settings.sections.serving import Endpoint
from shoal.settings.settings import Environment, Training
from shoal.verbs.new_workload import TASKS, TRAINERS, write_workload
from tests.pipelines.inputs import environment
from tests.repository import CHECKOUT, ROOT, copy_folder

SCRIPTS: dict[str, str] = table(__file__, "checked.yaml")["scripts"]
MAIN, EVALUATE, OWN, OTHER_EVALUATION, NO_HOSTING = SCRIPTS.values()
CONTRACT = "# evaluation.json archive_sha256 content_sha256 training_job_name\n"
VALID = {"train.py": MAIN, "evaluate.py": EVALUATE, "inference.py": CONTRACT}


def settings(**more: Any) -> Environment:
    """Return an environment whose scripts are in code/."""
    base = environment()
    own = {"source_dir": "code", "hyperparameters": {}, "spot": False, "max_wait_s": None}
    training = base.training.model_copy(update=own)
    return base.model_copy(update={"training": training, **more})


def write(root: Path, **changed: str | bytes | None) -> Path:
    """Write the scripts into code/; None leaves one out."""
    (root / "code").mkdir(exist_ok=True)
    scripts = VALID | {f"{name}.py": text for name, text in changed.items()}
    for name, text in scripts.items():
        if text is not None:
            content = text.encode() if isinstance(text, str) else text
            (root / "code" / name).write_bytes(content)
    return root


def lines(root: Path) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        check(settings(), root)
    return str(caught.value).splitlines()


def notices(root: Path) -> list[str]:
    return [each for each in check(settings(), root).notices if each.startswith("no script in")]


def test_scripts_that_keep_the_contract_are_right(tmp_path: Path) -> None:
    assert notices(write(tmp_path)) == []


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"train": ""}, 'training.entry_point = "train.py": calls nothing: a job with it would'),
        ({"train": "def main(): print()"}, "end it with `if __name__ == "),
        (
            {"evaluate": "import json # accuracy rmse"},
            'evaluation.entry_point = "evaluate.py": calls nothing',
        ),
        ({"train": "a = 1\nprint("}, "cannot read line 2: '(' was never closed; correct it"),
        ({"train": b"\xff"}, "cannot read it: 'utf-8' codec can't decode byte 0xff"),
        ({"train": "print()\0"}, "cannot read"),
        ({"train": "x = 1" + "+1" * 100_000}, "an expression of it is nested too deeply"),
        (
            {"train": f"import net\n{MAIN}", "net": "(", "evaluate": f"import net\n{EVALUATE}"},
            "training.source_dir: net.py: Python ",
        ),
        ({"evaluate": EVALUATE.replace("test-", "")}, "takes no --test-dir, which the pipeline"),
        ({"evaluate": None}, 'evaluation.entry_point = "evaluate.py": there is no such file'),
        ({"inference": None}, 'training.source_dir = "code": there is no inference.py in it'),
    ],
)
def test_what_a_script_lacks_is_one_line(
    tmp_path: Path, changed: dict[str, Any], line: str
) -> None:
    (told,) = lines(write(tmp_path, **changed))
    assert told.startswith("environments/golden.yaml: ")
    assert line in told
    assert told.isprintable()


@pytest.mark.parametrize("text", table(__file__, "checked.yaml")["working_scripts"])
def test_a_script_that_does_something_is_right(tmp_path: Path, text: str) -> None:
    assert notices(write(tmp_path, train=text, evaluate=f"{text} # accuracy rmse")) == []


def test_a_script_may_start_what_it_imports(tmp_path: Path) -> None:
    assert notices(write(tmp_path, train="import loop", loop="print()")) == []


@pytest.mark.parametrize("word", CONTRACT.split()[1:])
def test_a_word_that_no_script_says_is_a_risk(tmp_path: Path, word: str) -> None:
    (notice,) = notices(write(tmp_path, inference=CONTRACT.replace(word, "")))
    assert notice.startswith(f"no script in code says {word}, which ")
    assert isinstance(notice, Risk)


def test_all_words_that_no_script_says_are_one_line(tmp_path: Path) -> None:
    (notice,) = notices(write(tmp_path, inference=""))
    assert ", ".join(CONTRACT.split()[1:]) in notice


def test_a_metric_that_the_evaluation_never_says_is_a_mistake(tmp_path: Path) -> None:
    write(tmp_path, evaluate=EVALUATE.replace("rmse", "rsme"), train=f"{MAIN}# rmse")
    (told,) = lines(tmp_path)
    assert "evaluation.gates: name rmse, which evaluate.py never says: " in told
    assert "in training_code/mnist/workload.yaml); if evaluate.py computes it, name it in" in told


@pytest.mark.parametrize("module", ["score", "score/means"])
def test_a_metric_may_come_from_what_the_evaluation_imports(tmp_path: Path, module: str) -> None:
    (tmp_path / "code" / module).parent.mkdir(parents=True)
    text = EVALUATE.replace("# accuracy rmse", "import between")
    scripts = write(tmp_path, evaluate=text, between="import score", **{module: "# accuracy rmse"})
    assert notices(scripts) == []


def test_a_pipeline_of_ones_own_needs_no_inference(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def build(*_): return {'Steps': []}")
    write(tmp_path, train="", inference=None)
    with pytest.raises(ConfigError) as caught:
        check(settings(pipeline="mine:build"), tmp_path)
    assert "inference" not in str(caught.value)
    assert "calls nothing" not in str(caught.value)


def test_a_container_that_answers_by_itself_needs_no_inference(tmp_path: Path) -> None:
    own = settings(endpoint=Endpoint(image_uri="mine/server:1"))
    assert check(own, write(tmp_path, inference=None)).launch


def test_the_shipped_scripts_say_all_of_it() -> None:
    told = check(load_environment("dev", ROOT), ROOT).notices
    assert [notice for notice in told if notice.startswith("no script in")] == []


UNCHANGED = "return pipeline"


@pytest.mark.parametrize(
    ("function", "changed", "told"),
    [
        (UNCHANGED, {}, ""),
        (UNCHANGED, {"evaluate": EVALUATE.replace("rmse", "rsme")}, "name rmse, which evaluate.py"),
        (UNCHANGED, {"evaluate": EVALUATE.replace("test-", "")}, "takes no --test-dir"),
        (UNCHANGED, {"inference": None}, "there is no inference.py"),
        (UNCHANGED, {"train": ""}, "calls nothing"),
        (NO_HOSTING, {"inference": None, "evaluate": f"{EVALUATE}{CONTRACT}"}, ""),
        (NO_HOSTING, {"evaluate": EVALUATE.replace("rmse", "")}, "name rmse, which evaluate.py"),
        (OTHER_EVALUATION, {"evaluate": "print()"}, ""),
        (OTHER_EVALUATION, {"train": ""}, "calls nothing"),
    ],
)
def test_steps_that_stay_as_they_are_keep_their_contract(
    tmp_path: Path, function: str, changed: dict[str, Any], told: str
) -> None:
    copy_folder(CHECKOUT / "pipelines", tmp_path / "pipelines")
    name = f"own_{abs(hash((function, told)))}"
    (tmp_path / f"{name}.py").write_text(OWN.format(function))
    write(tmp_path, **changed)
    if not told:
        assert check(settings(pipeline=f"{name}:build"), tmp_path).definition
        return
    with pytest.raises(ConfigError, match=re.escape(told)):
        check(settings(pipeline=f"{name}:build"), tmp_path)


@pytest.mark.parametrize(("text", "told"), rows(__file__, "checked.yaml", "read_channels"))
def test_what_a_script_reads_and_does_not_get_is_a_risk(
    tmp_path: Path, text: str, told: str
) -> None:
    root = write(tmp_path, train=text, other="import os; print(os.environ['SM_CHANNEL_DEEP'])")
    risks = [each for each in check(settings(), root).notices if isinstance(each, Risk)]
    mine = [each for each in risks if each.startswith("data.channels")]
    assert [told in each for each in mine] == ([True] if told else [])


@pytest.mark.parametrize(
    ("scripts", "training", "told"), rows(__file__, "checked.yaml", "interrupted")
)
def test_a_job_that_may_be_interrupted_names_where_it_goes_on(
    tmp_path: Path, scripts: dict[str, str], training: dict[str, Any], told: str
) -> None:
    base, root = settings(), write(tmp_path, **scripts)
    own = base.model_copy(update={"training": base.training.model_copy(update=training)})
    if not told:
        assert check(own, root).definition
        return
    with pytest.raises(ConfigError) as caught:
        check(own, root)
    (line,) = str(caught.value).splitlines()
    assert told in line
    assert line.endswith("set training.own_checkpoints: true")


def test_the_workloads_of_the_checkout_and_of_new_name_it(tmp_path: Path) -> None:
    folders = {
        *CHECKOUT.glob("training_code/*/pytorch"),
        *CHECKOUT.glob("training_code/*/tensorf*"),
    }
    for kind in (*TASKS, *TRAINERS):
        write_workload(tmp_path, kind, kind)
        folders.add(tmp_path / "training_code" / kind / "pytorch")
    for folder in folders:
        training = Training(source_dir=str(folder), spot=True, max_wait_s=3600)
        assert list(checkpoint_problems(training, folder)) == [], folder


@pytest.mark.parametrize(
    ("text", "compression", "is_told"), rows(__file__, "checked.yaml", "opened_archives")
)
def test_an_evaluation_that_opens_an_archive_that_there_is_not_is_a_risk(
    tmp_path: Path, text: str, compression: str, is_told: bool
) -> None:
    base = settings()
    training = base.training.model_copy(update={"output_compression": compression})
    root = write(tmp_path, evaluate=f"{EVALUATE}\n{text}\n")
    notices = check(base.model_copy(update={"training": training}), root).notices
    assert any("evaluate.py seems to open" in each for each in notices) == is_told
