"""The store of SageMaker's documents: what looking at one costs does not depend on how many there
are.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from local_kit.counting import calls_of
from shoal_local.sagemaker.hosting.models import Models
from shoal_local.sagemaker.pipelines.execution.executions import Executions
from shoal_local.sagemaker.pipelines.execution.records import KIND
from shoal_local.sagemaker.store import Store


class Core:
    """The part of the service's core that looking at executions needs."""

    def __init__(self, store: Store) -> None:
        self.store = store


def executions(folder: Path, count: int) -> Executions:
    """With so many executions, of which the third is one."""
    store = Store(folder)
    for number in range(count):
        document = {
            "_name": f"p/{number}",
            "PipelineExecutionArn": f"arn/{number}",
            "_steps": {f"step-{each}": {} for each in range(20)},
        }
        store.create(KIND, f"p/{number}", document, ValueError)
    return Executions(Core(store), None)  # type: ignore[arg-type]


def copies(looked_into: Executions) -> int:
    """How much is copied to describe one execution."""
    return calls_of(lambda: looked_into.describe({"PipelineExecutionArn": "arn/2"}))[
        "copy.py:deepcopy"
    ]


def test_describing_an_execution_copies_as_much_among_many_as_among_few(tmp_path: Path) -> None:
    few, many = copies(executions(tmp_path / "few", 3)), copies(executions(tmp_path / "many", 100))
    assert 20 < few == pytest.approx(many, abs=1)


def looks(folder: Path, count: int) -> tuple[int, int]:
    """How many models are compared with the filters, and how much is copied, to list a page."""
    store = Store(folder)
    for number in range(count):
        model = {"ModelName": f"m-{number}", "CreationTime": number, "Containers": [{}]}
        store.create("model", f"m-{number}", model, ValueError)
    models = Models(Core(store))  # type: ignore[arg-type]
    calls = calls_of(lambda: models.list({"MaxResults": 5}))
    return calls["listing.py:_matches"], calls["copy.py:deepcopy"]


def test_a_page_of_a_list_costs_as_much_among_many_as_among_few(tmp_path: Path) -> None:
    few, many = looks(tmp_path / "few", 10), looks(tmp_path / "many", 200)
    assert few == many
    assert few[0] == 6
