"""The configuration on each page of docs/strategies is the overlay's."""

from __future__ import annotations

import re

import pytest
import yaml

from shoal.launch import resolve, tables
from shoal.settings.loading.loader import load_environment, strategy_names
from shoal.settings.settings import Training
from tests.repository import ROOT

NAMES = strategy_names(ROOT)


def page(name: str) -> str:
    return (ROOT / "docs" / "strategies" / f"{name}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_a_pages_line_of_configuration_starts_what_its_overlay_starts(name: str) -> None:
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", page(name), re.DOTALL | re.MULTILINE)
    shown, overlay = (
        Training(**yaml.safe_load(block)["training"]),
        load_environment("dev", ROOT, name).training,
    )
    shown = shown.model_copy(
        update={
            "instance_count": max(shown.instance_count, tables.strategy(shown.strategy).hosts.min)
        }
    )
    contracts = [type(resolve(each, "us-east-1").contract) for each in (shown, overlay)]
    assert (shown.framework, contracts[0]) == (overlay.framework, contracts[1])
