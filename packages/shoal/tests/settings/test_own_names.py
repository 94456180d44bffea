"""Two environments of one account and region whose names would begin alike are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.settings.loading.consumers import require_own_names
from shoal.settings.loading.loader import load_workloads
from shoal.settings.parsing.errors import ConfigError
from tests.settings.test_several_workloads import root, write

__all__ = ["root"]


def test_a_workload_of_one_has_the_names_of_another_of_the_other(root: Path) -> None:
    (root / "training_code").unlink()
    for name in ("fraud", "fraud-eu"):
        folder = root / "training_code" / name / "pytorch"
        folder.mkdir(parents=True)
        text = f"name: {name}\nframeworks: {{pytorch: {{}}}}\nendpoint: none\n"
        (folder.parent / "workload.yaml").write_text(f"{text}gates: [{{metric: m, at_least: 1}}]\n")
        (folder / "evaluate.py").touch()
    write(root, "dev", workloads={"fraud-eu": {}}, project="first")
    write(root, "eu-dev", workloads={"fraud": {}}, project="second")
    both = [*load_workloads("dev", root), *load_workloads("eu-dev", root)]
    with pytest.raises(ConfigError, match="begin with shoal-fraud-eu-dev, as those of dev do"):
        require_own_names(both)
    elsewhere = both[1].model_copy(update={"region": "eu-west-1"})
    require_own_names([both[0], elsewhere])
