"""No user meets a regular expression: every form has words and an example that fits."""

from __future__ import annotations

import json
import re

import pytest

from shoal.settings.loading.schema import schema
from shoal.settings.loading.workload import Workload
from shoal.settings.parsing.expected import FORMS
from shoal.settings.sections.release import Release
from shoal.settings.settings import Environment


def test_every_pattern_of_the_settings_has_words_and_no_other_has() -> None:
    text = json.dumps([schema(Environment), schema(Workload), Release.model_json_schema()])
    string = r'("(?:[^"\\]|\\.)*")'
    of_values = {json.loads(each) for each in re.findall(rf'"pattern": {string}', text)}
    of_names = {json.loads(each) for each in re.findall(rf'"patternProperties": {{{string}', text)}
    assert of_values <= set(FORMS) <= of_values | of_names


@pytest.mark.parametrize("pattern", FORMS)
def test_the_example_is_of_its_form(pattern: str) -> None:
    example = FORMS[pattern].partition(" as in ")[2].strip('"')
    assert re.fullmatch(pattern, example)
