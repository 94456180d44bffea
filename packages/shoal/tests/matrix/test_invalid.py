"""Every invalid combination gives its one error: file, key, value, what is allowed.

Nothing here starts the CDK.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from shoal.pipelines.checks.check import check
from shoal.settings.loading.loader import load
from shoal.settings.parsing.errors import ConfigError
from shoal.settings.sections.regions import az_id_prefixes
from tests.matrix.invalid import CASES, Wrong
from tests.matrix.valid import zones
from tests.repository import ROOT


def _lines(folder: Path, wrong: Wrong) -> list[str]:
    """Return what `shoal check` would print of the environment."""
    written = {
        "name": "test",
        "workload": "mnist",
        "account": "111122223333",
        "region": "us-east-1",
        "protect": False,
        **wrong.changes,
    }
    if written["region"] in az_id_prefixes():
        written["network"] = zones(written["region"], {}) | written.get("network", {})
    file = folder / "test.yaml"
    file.write_text(yaml.safe_dump(written), encoding="utf-8")
    try:
        check(load(file, "environments/test.yaml", ROOT), root=ROOT)
    except ConfigError as error:
        return str(error).splitlines()
    return []


@pytest.mark.parametrize(
    "wrong", CASES, ids=[f"{wrong.key[:40]}-{number}" for number, wrong in enumerate(CASES)]
)
def test_the_combination_is_one_line_with_file_key_value_and_what_is_allowed(
    tmp_path: Path, wrong: Wrong
) -> None:
    (line,) = _lines(tmp_path, wrong)
    assert line.startswith("environments/test.yaml")
    assert f": {wrong.key}" in line
    assert wrong.allowed in line


def test_the_matrix_is_as_large_as_it_should_be() -> None:
    assert len({str(wrong.changes) for wrong in CASES}) >= 60
