"""Environment files as they are read: YAML, every mistake with its line, names, and overlays of
strategies.
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from local_kit.tables import rows
from shoal.settings.frameworks import CLASSICAL, Framework, defaults, strategies_of
from shoal.settings.loading.loader import (
    environment_names,
    load,
    load_environment,
    places,
    strategy_names,
)
from shoal.settings.parsing.errors import ConfigError
from shoal.settings.parsing.yaml_file import parse
from shoal.settings.settings import Strategy, Training
from tests.repository import ROOT
from tests.settings.environment_file import copy_workloads, lines_of, write

HEAD = 'name: test\nworkload: mnist\naccount: "111122223333"\n'


def test_values_arrive_typed_and_defaults_fill_the_rest(tmp_path: Path) -> None:
    environment = load(
        write(
            tmp_path,
            HEAD
            + "training:\n  strategy: torchrun\n  hyperparameters: {lr: 1e-3, flag: true, mode:"
            " yes}\n",
        )
    )
    assert environment.training.strategy is Strategy.TORCHRUN
    assert environment.training.hyperparameters == {"lr": 0.001, "flag": True, "mode": "yes"}
    assert environment.training.instance_count == 1
    with pytest.raises(ValueError, match="frozen"):
        environment.region = "eu-west-1"


@pytest.mark.parametrize(("text", "begin"), rows(__file__, "sections.yaml", "texts"))
def test_each_mistake_is_a_line_at_its_place(tmp_path: Path, text: str, begin: list[str]) -> None:
    """In the order of the file; a rule is silent when a key that it reads is itself wrong."""
    lines = lines_of(tmp_path, text)
    assert [line[: len(start)] for line, start in zip(lines, begin, strict=True)] == begin


def test_a_file_that_cannot_be_read_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load(tmp_path)


def test_a_file_in_another_encoding_is_a_config_error(tmp_path: Path) -> None:
    path = tmp_path / "test.yaml"
    path.write_bytes("name: é".encode("latin-1"))
    with pytest.raises(ConfigError, match="is not UTF-8 text"):
        load(path)


HOSTILE = {
    "a comment of 30 MB": ("#" + "x" * 30_000_000, ": has more than the 65536 bytes"),
    "aliases of aliases": (
        "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
        + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10)),
        ":1: not valid YAML: a file has at most 2000 values, aliases counted",
    ),
    "one long text, a thousand times": (
        f"a: &a {'x' * 9000}\nb: [{', '.join(['*a'] * 1000)}]\n",
        ":1: not valid YAML: a file has at most 65536 characters, aliases counted",
    ),
    "deep lists": ("a: " + "[" * 5000, ":1: not valid YAML: a file has at most 20 levels"),
    "deep mappings": (
        "".join(f"{' ' * n}a:\n" for n in range(300)),
        ":21: not valid YAML: a file has at most 20 levels",
    ),
    "a type of instance many times": (
        HEAD + f"training: {{other_instance_types: [{', '.join(['ml.p4d.24xlarge'] * 1500)}]}}\n",
        ":4: training.other_instance_types = [ml.p4d.24xlarge",
    ),
    "many items": (
        "a: [" + "0," * 30_000 + "0]",
        ":1: not valid YAML: a file has at most 2000 keys and values",
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_file_is_one_mistake(tmp_path: Path, case: str) -> None:
    text, expected = HOSTILE[case]
    (line,) = lines_of(tmp_path, text)
    assert line.startswith(f"environments/test.yaml{expected}")


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.symlink_to("nothing")])
def test_what_is_no_file_is_said_to_be_none(tmp_path: Path, make: Callable[[Path], None]) -> None:
    (tmp_path / "environments").mkdir()
    make(tmp_path / "environments" / "dev.yaml")
    with pytest.raises(ConfigError, match=r"environments/dev\.yaml: is no file: a folder, a pipe"):
        load_environment("dev", tmp_path)


def test_environments_are_found_by_their_files(tmp_path: Path) -> None:
    (tmp_path / "environments").mkdir()
    for name in ("b", "a"):
        write(tmp_path / "environments", HEAD, name)
    assert environment_names(tmp_path) == ["a", "b"]


def test_loading_brings_neither_botocore_nor_the_cdk() -> None:
    program = "import shoal.settings.loading.loader, sys; print(*sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert {"boto3", "botocore", "aws_cdk"} & {*result.stdout.split()} == set()


@pytest.mark.parametrize(("text", "value"), rows(__file__, "sections.yaml", "scalars"))
def test_scalars_follow_yaml_1_2(text: str, value: Any) -> None:
    read = parse(f"key: {text}").data["key"]
    assert (read, type(read)) == (value, type(value))


def test_every_key_knows_its_line() -> None:
    assert parse("a:\n  b: 1\n  c:\n    - x: 2\n").lines == {
        "a": 1,
        "a.b": 2,
        "a.c": 3,
        "a.c[0].x": 4,
    }


def test_a_key_given_twice_names_both_lines() -> None:
    (problem,) = parse("a:\n  b: 1\n  b: 2\n").problems
    assert (problem.key, problem.message) == ("a.b", "the key is given twice, on lines 2 and 3")


@pytest.mark.parametrize(("text", "line", "message"), rows(__file__, "sections.yaml", "syntax"))
def test_a_syntax_error_is_one_problem_at_its_line(text: str, line: int, message: str) -> None:
    document = parse(text)
    (problem,) = document.problems
    assert message in problem.message
    assert document.lines[""] == line


OVERLAYS = strategy_names(ROOT)
DISTRIBUTED = [framework for framework in Framework if framework not in CLASSICAL]
OVERLAID = (
    'name: test\nworkload: mnist\naccount: "111122223333"\ntraining:\n  strategy: smddp\n'
    "  hyperparameters:\n    epochs: 2\n    seed: 1\n"
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with one environment and two overlays."""
    copy_workloads(tmp_path)
    folder = tmp_path / "environments" / "strategies"
    folder.mkdir()
    (folder.parent / "test.yaml").write_text(OVERLAID, encoding="utf-8")
    (folder / "horovod.yaml").write_text(
        "training:\n  strategy: horovod\n  hyperparameters: {seed: 7}\n", encoding="utf-8"
    )
    (folder / "wrong.yaml").write_text(
        "# first\ntraining:\n  strategy: horovid\n", encoding="utf-8"
    )
    return tmp_path


@pytest.mark.parametrize(
    ("framework", "strategy"),
    [(framework, name) for framework in DISTRIBUTED for name in strategies_of(framework)],
)
def test_the_default_script_of_every_strategy_is_in_the_repository(
    framework: Framework, strategy: str
) -> None:
    row = defaults(framework, strategy)
    assert (ROOT / "training_code" / "mnist" / framework / row["entry_point"]).is_file()


def test_every_strategy_belongs_to_a_framework() -> None:
    assert {name for framework in Framework for name in strategies_of(framework)} == set(Strategy)


def test_tensorflow_brings_its_script_and_version() -> None:
    training = Training(framework=Framework.TENSORFLOW)
    assert (training.entry_point, training.framework_version) == ("train_smddp.py", "2.11.0")


def test_what_the_file_says_wins_over_the_defaults() -> None:
    training = Training(strategy=Strategy.HOROVOD, entry_point="mine.py", framework_version="2.3.0")
    assert (training.entry_point, training.framework_version) == ("mine.py", "2.3.0")


def test_the_overlays_show_every_strategy_of_every_framework() -> None:
    shown = {
        (settings.framework, settings.strategy)
        for settings in (load_environment("dev", ROOT, name).training for name in OVERLAYS)
    }
    expected = {
        (framework, Strategy(name))
        for framework in DISTRIBUTED
        for name in strategies_of(framework)
    }
    assert expected - shown == {(Framework.TENSORFLOW, Strategy.NONE)}


@pytest.mark.parametrize("name", OVERLAYS)
def test_an_overlay_says_nothing_but_how_to_train(name: str) -> None:
    text = (ROOT / "environments" / "strategies" / f"{name}.yaml").read_text()
    assert yaml.safe_load(text).keys() == {"training"}


def test_an_overlay_changes_its_keys_and_keeps_the_others(root: Path) -> None:
    training = load_environment("test", root, "horovod").training
    assert (training.strategy, training.hyperparameters) == (
        Strategy.HOROVOD,
        {"epochs": 2, "seed": 7},
    )


def test_without_an_overlay_the_environment_is_as_its_file_says(root: Path) -> None:
    assert load_environment("test", root).training.strategy is Strategy.SMDDP


@pytest.mark.parametrize(
    ("name", "overlay", "line"), rows(__file__, "sections.yaml", "files_with_mistakes")
)
def test_a_mistake_names_the_file_that_has_it(
    root: Path, name: str, overlay: str | None, line: str
) -> None:
    spoilt = OVERLAID.replace("name: test", "name: spoilt") + "protect: maybe\n"
    write(root / "environments", spoilt, "spoilt")
    with pytest.raises(ConfigError, match=re.escape(line)):
        load_environment(name, root, overlay)


def test_places_are_those_of_the_file_with_the_last_word(root: Path) -> None:
    lines = places("test", root, "horovod")
    assert lines["training.strategy"] == "environments/strategies/horovod.yaml:2"
    assert lines["training.hyperparameters.epochs"] == "environments/test.yaml:7"


def test_places_of_what_is_not_there_are_none(root: Path) -> None:
    assert places("elsewhere", root) == {}
