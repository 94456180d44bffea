"""The files in `environments/` as the user has edited them; other tests read files of their own."""

from __future__ import annotations

import re

import yaml
from jsonschema import Draft202012Validator

from shoal.settings.loading.loader import environment_names, load_environment
from shoal.settings.loading.schema import FILE, schema
from tests.repository import CHECKOUT

FOLDER = (CHECKOUT / FILE).parent
NAMES = environment_names(CHECKOUT)
TEXTS = {name: (FOLDER / f"{name}.yaml").read_text(encoding="utf-8") for name in NAMES}


def test_they_load() -> None:
    assert [load_environment(name, CHECKOUT).name for name in NAMES] == NAMES


def test_the_schema_accepts_them() -> None:
    validator = Draft202012Validator(schema())
    errors = {name: list(validator.iter_errors(yaml.safe_load(TEXTS[name]))) for name in NAMES}
    assert {name: each for name, each in errors.items() if each} == {}


def test_a_comment_that_points_an_editor_to_a_schema_leads_to_it() -> None:
    files = re.findall(r"^# yaml-language-server: \$schema=(.*)$", "\n".join(TEXTS.values()), re.M)
    assert {(FOLDER / file).resolve() for file in files} <= {CHECKOUT / FILE}
