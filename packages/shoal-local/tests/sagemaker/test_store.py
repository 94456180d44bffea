"""The store of SageMaker's documents: what looking at one costs does not depend on how many there
are.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from local_kit.counting import calls_of
from shoal_local.sagemaker.hosting.models import Models
from shoal_local.sagemaker.pipelines.execution.executions import Executions
from shoal_local.sagemaker.pipelines.execution.records import KIND
from shoal_local.sagemaker.store import Store


@dataclass
class Core:
    """The part of the service's core that looking at documents needs."""

    store: Store


def copies(count: int) -> int:
    """Return how much is copied to describe the third of so many executions."""
    store = Store()
    for number in range(count):
        document = {
            "_name": f"p/{number}",
            "PipelineExecutionArn": f"arn/{number}",
            "_steps": {f"step-{each}": {} for each in range(20)},
        }
        store.create(KIND, f"p/{number}", document, ValueError)
    executions = Executions(Core(store), None)  # type: ignore[arg-type]
    calls = calls_of(lambda: executions.describe({"PipelineExecutionArn": "arn/2"}))
    return calls["copy.py:deepcopy"]


def test_describing_an_execution_copies_as_much_among_many_as_among_few() -> None:
    few, many = copies(3), copies(100)
    assert 20 < few == pytest.approx(many, abs=1)


def looks(count: int) -> tuple[int, int]:
    """Return how many models are compared with the filters, and how much is copied, for a page."""
    store = Store()
    for number in range(count):
        model = {"ModelName": f"m-{number}", "CreationTime": number, "Containers": [{}]}
        store.create("model", f"m-{number}", model, ValueError)
    models = Models(Core(store))  # type: ignore[arg-type]
    calls = calls_of(lambda: models.list({"MaxResults": 5}))
    return calls["listing.py:_matches"], calls["copy.py:deepcopy"]


def test_a_page_of_a_list_costs_as_much_among_many_as_among_few() -> None:
    few, many = looks(10), looks(200)
    assert few == many
    assert few[0] == 6
