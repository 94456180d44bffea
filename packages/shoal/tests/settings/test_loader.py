"""A file is read as it is written, and a wrong one gives every mistake, one line each."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from shoal.settings.loading.loader import environment_names, load, load_environment
from shoal.settings.parsing.errors import ConfigError
from shoal.settings.settings import Strategy
from tests.repository import ROOT
from tests.settings.environment_file import lines_of, write

HEAD = 'name: test\nworkload: mnist\naccount: "111122223333"\n'


@pytest.mark.parametrize("name", ["dev", "prod", "staging"])
def test_every_environment_of_the_repository_is_valid(name: str) -> None:
    assert load_environment(name, ROOT).name == name


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


def test_environments_are_frozen(tmp_path: Path) -> None:
    environment = load(write(tmp_path, HEAD))
    with pytest.raises(ValueError, match="frozen"):
        environment.region = "eu-west-1"


def test_all_mistakes_are_reported_together_in_the_order_of_the_file(tmp_path: Path) -> None:
    text = HEAD + "training:\n  instance_count: two\n  strategy: smdp\nevaluaton: {}\n"
    assert [line.split(": ")[0] for line in lines_of(tmp_path, text)] == [
        f"environments/test.yaml:{number}" for number in (5, 6, 7)
    ]


def test_a_line_names_file_line_key_value_and_allowed_values(tmp_path: Path) -> None:
    lines = lines_of(tmp_path, HEAD + "training:\n  strategy: smdp\n")
    expected = (
        'environments/test.yaml:5: training.strategy = "smdp": must be one of: smddp, pytorchddp,'
        " torchrun, horovod,"
    )
    assert len(lines) == 1
    assert lines[0].startswith(expected)
    assert lines[0].endswith("none; did you mean `smddp`?")


def test_an_item_of_a_list_is_reported_at_the_line_of_the_list(tmp_path: Path) -> None:
    lines = lines_of(tmp_path, HEAD + "network:\n  hosting_az_ids: [use1-az1, us-east-1a]\n")
    assert [line.split(" = ")[0] for line in lines] == [
        "environments/test.yaml:5: network.hosting_az_ids[1]"
    ]


def test_rules_between_keys_are_reported_with_type_mistakes(tmp_path: Path) -> None:
    lines = lines_of(tmp_path, HEAD + "protect: maybe\ntraining: {spot: true}\n")
    assert [line.split(": ")[1].split(" =")[0] for line in lines] == [
        "training.max_wait_s",
        "protect",
    ]


def test_a_rule_is_silent_when_a_key_it_reads_is_itself_wrong(tmp_path: Path) -> None:
    lines = lines_of(tmp_path, HEAD + "training: {spot: true, max_wait_s: soon}\n")
    assert len(lines) == 1
    assert "must be a whole number" in lines[0]


def test_a_missing_key_says_what_it_is_for(tmp_path: Path) -> None:
    lines = lines_of(tmp_path, "name: test\nworkload: mnist\n")
    assert lines == [
        "environments/test.yaml: account: the key is missing; add it: AWS account id, in quotes"
    ]


def test_a_section_without_content_is_told_what_it_is_for(tmp_path: Path) -> None:
    assert lines_of(tmp_path, HEAD + "training:\n") == [
        "environments/test.yaml:4: training = null: must be a mapping of keys to values; The"
        " training job"
    ]


def test_an_unknown_environment_lists_those_that_exist() -> None:
    with pytest.raises(
        ConfigError,
        match=(
            r"environments/qa\.yaml: there is no environment \"qa\"; there are: dev, prod, staging"
        ),
    ):
        load_environment("qa", ROOT)


def test_a_file_that_cannot_be_read_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load(tmp_path)


def test_a_file_in_another_encoding_is_a_config_error(tmp_path: Path) -> None:
    path = tmp_path / "test.yaml"
    path.write_bytes("name: é".encode("latin-1"))
    with pytest.raises(ConfigError, match="is not UTF-8 text"):
        load(path)


@pytest.mark.parametrize("text", ["", "- a\n", "just words\n"])
def test_a_file_without_keys_is_one_mistake(tmp_path: Path, text: str) -> None:
    assert [line.split("; ")[0] for line in lines_of(tmp_path, text)] == [
        "environments/test.yaml: an environment file is a mapping of keys to values"
    ]


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
    program = (
        "import shoal.settings.loading.loader, sys; print([name for name in ('boto3', 'botocore',"
        " 'aws_cdk') if"
        " name in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


def test_a_key_with_line_breaks_of_any_kind_stays_on_its_line(tmp_path: Path) -> None:
    (line,) = lines_of(tmp_path, HEAD + '"a\\x1eb\\u2028c": 1\n')
    assert line.startswith(r"environments/test.yaml:4: a\x1eb\u2028c: there is no such key here")
