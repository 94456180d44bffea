"""The tutorial of the language model, typed as it is written: daily up to the check, nightly to its
end.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.docs.pages import text_of
from tests.docs.tutorials import typed, writable_checkout
from tests.repository import CHECKOUT
from tests.training_code.table_job import prepare

PAGE = "docs/guides/language-model.md"
EDITS, _, RUN = text_of(PAGE).partition("## Your text\n")[2].partition("## Run\n")
WHERE = text_of(PAGE).partition("## Where larger ones would run\n")[2]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout to write into, where the folder that is copied is no link to ours."""
    checkout = writable_checkout(tmp_path)
    folder = checkout / "training_code" / "language"
    folder.unlink()
    shutil.copytree(CHECKOUT / "training_code" / "language", folder)
    return checkout


def test_its_edits_make_a_workload_that_is_checked(checkout: Path) -> None:
    output = typed(checkout, EDITS)
    assert "training_code/pages/workload.yaml: ok (1 request)" in output
    assert "environments/pages.yaml: ok (torchrun on 2 x ml.m5.xlarge)" in output
    assert "may fail (" not in output
    first = (checkout / "mine" / "channels" / "test" / "text.jsonl").read_text().splitlines()[0]
    assert json.loads(first)["text"].startswith("# All pages")
    again = prepare(checkout, "pages", checkout / "again") / "test" / "text.jsonl"
    assert again.read_text().splitlines()[0] == first


def test_larger_ones_would_run_where_it_says(checkout: Path) -> None:
    printed = typed(checkout, WHERE).splitlines()
    shown = [
        line
        for block in re.findall(r"```text\n(.*?)```", WHERE, re.S)
        for line in block.splitlines()
    ]
    assert len(shown) > 30
    assert [line for line in shown if line not in printed] == []


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_all_of_it_works(checkout: Path) -> None:
    typed(checkout, EDITS)
    output = typed(checkout, RUN, timeout_s=1700)
    assert "environments/programs.yaml: ok (torchrun on 2 x ml.m5.xlarge)" in output
    assert output.count("bits_per_byte") >= 2
