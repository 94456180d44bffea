"""The calls of AWS's published smddp examples, in their order, train here on two ranks.

The README says how to run the examples themselves.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.smddp.conftest import Probe

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def torch_example(probe: Probe) -> dict[str, Any]:
    return probe("published_torch", "mpirun")


@pytest.fixture(scope="module")
def tensorflow_example(tensorflow_probe: Probe) -> dict[str, Any]:
    return tensorflow_probe("published_tensorflow")


def test_the_calls_of_awss_pytorch_example_train_equal_models(
    torch_example: dict[str, Any],
) -> None:
    assert torch_example["accuracy"][-1] > 0.8
    assert torch_example["equal"]


def test_saved_weights_are_named_as_those_of_torchs_own_wrapper(
    torch_example: dict[str, Any],
) -> None:
    assert {name.partition(".")[0] for name in torch_example["names"]} == {"module"}


@pytest.mark.nightly
def test_the_calls_of_awss_tensorflow_example_train_equal_models(
    tensorflow_example: dict[str, Any],
) -> None:
    assert tensorflow_example["losses"][-1] < tensorflow_example["losses"][0]
    assert tensorflow_example["equal"]


@pytest.mark.nightly
def test_the_model_that_the_tensorflow_example_saves_predicts(
    tensorflow_example: dict[str, Any],
) -> None:
    assert tensorflow_example["accuracy"] > 0.8
