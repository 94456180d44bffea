"""The tutorial, typed as it is written: daily up to the check, nightly to its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import text_of
from tests.docs.tutorials import typed, writable_checkout
from tests.training_code.table_job import prepare

PAGE = "docs/guides/your-own-model.md"
EDITS, _, RUN = text_of(PAGE).partition("## Run\n")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout to write into."""
    return writable_checkout(tmp_path)


def test_its_edits_make_a_workload_that_is_checked(checkout: Path) -> None:
    output = typed(checkout, EDITS)
    assert "\n  shoal demo heat  " in output
    assert "training_code/heat/workload.yaml: ok (2 requests)" in output
    assert "environments/heat.yaml: ok (torchrun on 2 x ml.m5.xlarge)" in output
    assert "may fail (" not in output
    assert "601 mine/channels/test/heat.csv" in output
    model = (checkout / "training_code" / "heat" / "pytorch" / "model.py").read_text()
    assert "self.layers = Net(len(FEATURES))\n" in model
    assert "from net import Net\n" in model
    assert prepare(checkout, "heat", checkout / "again").is_dir()


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_all_of_it_works(checkout: Path) -> None:
    typed(checkout, EDITS)
    output = typed(checkout, RUN, timeout_s=800)
    assert "endpoint        answered cold-morning.json" in output
