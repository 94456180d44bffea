"""The JSON schema that editors use says what the loader says."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator

from shoal.settings.loading.loader import environment_names, load_environment
from shoal.settings.loading.pydantic_errors import FORMS
from shoal.settings.loading.schema import FILE, WORKLOAD_FILE, schema, schema_texts
from shoal.settings.loading.workload import Workload, workload_file, workload_names
from shoal.settings.parsing.base import Settings
from shoal.settings.sections.release import Release
from shoal.settings.settings import Environment
from tests.repository import CHECKOUT, ENVIRONMENTS

NAMES = environment_names(CHECKOUT)
OWN = [file for file in CHECKOUT.glob("environments/*.yaml") if not file.stem.endswith(".release")]
"""The files in `environments/` as the user has edited them; other tests read files of their own."""


def _descriptions(model: type[Settings]) -> Iterator[tuple[str, str]]:
    """Yield every key with its description: its own, or that of the section it leads to."""
    document = schema(model)
    for part in (document, *document["$defs"].values()):
        for name, described in part.get("properties", {}).items():
            section = document["$defs"].get(described.get("$ref", "").rpartition("/")[2], {})
            yield name, described.get("description") or section.get("description", "")


@pytest.mark.parametrize("file", [FILE, WORKLOAD_FILE])
def test_the_committed_schema_is_current(file: str) -> None:
    assert (CHECKOUT / file).read_text(encoding="utf-8") == schema_texts()[file], (
        "run `make reference`"
    )


@pytest.mark.parametrize("model", [Environment, Workload])
def test_every_key_is_described(model: type[Settings]) -> None:
    undescribed = [name for name, text in _descriptions(model) if not text.endswith(".")]
    assert undescribed == []


def test_unknown_keys_are_errors_in_the_editor_too() -> None:
    sections = [part for part in (schema(), *schema()["$defs"].values()) if "properties" in part]
    assert all(part["additionalProperties"] is False for part in sections)


@pytest.mark.parametrize("file", [*sorted(ENVIRONMENTS.glob("*.yaml")), *sorted(OWN)], ids=str)
def test_the_schema_accepts_environments(file: Path) -> None:
    content = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert list(Draft202012Validator(schema()).iter_errors(content)) == []


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({"name": "dev", "workload": "mnist"}, ["'account' is a required property"]),
        ({"name": "dev", "extends": "base.yaml"}, []),
        ({"workload": "mnist"}, []),  # base.yaml, which has no name
    ],
)
def test_the_schema_asks_for_keys_that_no_other_file_may_have(
    content: dict[str, str], says: list[str]
) -> None:
    assert [each.message for each in Draft202012Validator(schema()).iter_errors(content)] == says


def test_the_users_own_environments_load() -> None:
    assert [load_environment(name, CHECKOUT).name for name in NAMES] == NAMES


def test_a_comment_that_points_an_editor_to_a_schema_leads_to_it() -> None:
    text = "\n".join(file.read_text(encoding="utf-8") for file in OWN)
    files = re.findall(r"^# yaml-language-server: \$schema=(.*)$", text, re.MULTILINE)
    folder = (CHECKOUT / FILE).parent
    assert {(folder / file).resolve() for file in files} <= {CHECKOUT / FILE}


@pytest.mark.parametrize("name", workload_names(CHECKOUT))
def test_the_schema_accepts_workloads(name: str) -> None:
    content = yaml.safe_load((CHECKOUT / workload_file(name)).read_text(encoding="utf-8"))
    assert list(Draft202012Validator(schema(Workload)).iter_errors(content)) == []


def test_the_schema_finds_what_an_editor_should_underline() -> None:
    wrong = {
        "name": "dev",
        "workload": "churn",
        "account": 1,
        "training": {"strategy": "smdp", "instance_typ": "x"},
        "evaluation": {"max_runtime_s": 1},
    }
    descriptions = {
        ".".join(map(str, error.absolute_path))
        for error in Draft202012Validator(schema()).iter_errors(wrong)
    }
    assert descriptions == {"account", "training", "training.strategy", "evaluation.max_runtime_s"}


@pytest.mark.parametrize("key", ["workload", "workloads", "extends"])
def test_the_schema_asks_for_a_workload(key: str) -> None:
    named = {"workload": "churn", "workloads": {"churn": {}}, "extends": "base.yaml"}
    content = {"name": "dev", "account": "111122223333"}
    validator = Draft202012Validator(schema())
    assert not validator.is_valid(content)
    assert validator.is_valid(content | {key: named[key]})


def test_every_pattern_of_the_settings_has_words_and_no_other_has() -> None:
    """No user meets a regular expression."""
    text = json.dumps([schema(Environment), schema(Workload), Release.model_json_schema()])
    string = r'("(?:[^"\\]|\\.)*")'
    of_values = {json.loads(each) for each in re.findall(rf'"pattern": {string}', text)}
    of_names = {json.loads(each) for each in re.findall(rf'"patternProperties": {{{string}', text)}
    assert of_values <= set(FORMS) <= of_values | of_names


@pytest.mark.parametrize("pattern", FORMS)
def test_the_example_is_of_its_form(pattern: str) -> None:
    example = FORMS[pattern].partition(" as in ")[2].strip('"')
    assert re.fullmatch(pattern, example)
