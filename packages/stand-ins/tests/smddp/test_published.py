"""The calls of AWS's published smddp examples, in their order, train here on two ranks.

The README says how to run the examples themselves.
"""

from __future__ import annotations

import pytest

from tests.smddp.conftest import Probe

pytestmark = pytest.mark.nightly


def test_awss_pytorch_example_trains_equal_models(probe: Probe) -> None:
    """Weights are saved with the names of torch's own wrapper."""
    example = probe("published_torch")
    assert example["accuracy"][-1] > 0.8
    assert example["equal"]
    assert {name.partition(".")[0] for name in example["names"]} == {"module"}


def test_awss_tensorflow_example_trains_equal_models(probe: Probe) -> None:
    """The model that it saves predicts."""
    example = probe("published_tensorflow")
    assert example["losses"][-1] < example["losses"][0]
    assert example["equal"]
    assert example["accuracy"] > 0.8
