"""Every invalid combination gives its one error: file, key, value, what is allowed.

invalid.yaml has what only `shoal check` finds, with the files of a repository, and a case of each
kind that tests/settings and tests/pipelines/launch have in full. Nothing here starts the CDK.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from shoal.pipelines.checks.check import check
from shoal.settings.loading.loader import load
from shoal.settings.parsing.errors import ConfigError
from shoal.settings.regions import az_id_prefixes
from tests.matrix.valid import zones
from tests.repository import ROOT
from tests.settings.environment_file import VALID, write
from tests.tables import table

ROWS: list[dict[str, Any]] = table(__file__, "invalid.yaml")


def _lines(folder: Path, changes: dict[str, Any]) -> list[str]:
    """Return what `shoal check` would print of the environment."""
    written = VALID | {"protect": False} | changes
    if written["region"] in az_id_prefixes():
        written["network"] = zones(written["region"], {}) | written.get("network", {})
    file = write(folder, yaml.safe_dump(written))
    try:
        check(load(file, "environments/test.yaml", ROOT), root=ROOT)
    except ConfigError as error:
        return str(error).splitlines()
    return []


@pytest.mark.parametrize("row", ROWS, ids=[f"{row['key'][:40]}-{n}" for n, row in enumerate(ROWS)])
def test_the_combination_is_one_line(tmp_path: Path, row: dict[str, Any]) -> None:
    changes = {key: row[key] for key in row if key not in ("key", "allowed")}
    (line,) = _lines(tmp_path, changes)
    assert line.startswith("environments/test.yaml")
    assert f": {row['key']}" in line
    assert row["allowed"] in line
