"""Tables of cases in YAML, next to the tests that run them."""

from pathlib import Path
from typing import Any

import pytest

from shoal_local.tables import read_table


def table(test: str, name: str) -> Any:
    """Return what the file `name` in the folder of the module `test`, its `__file__`, has."""
    return read_table(Path(test).with_name(name))


def rows(test: str, name: str, key: str) -> list[Any]:
    """Return the rows below `key` in such a file, as pytest.mark.parametrize takes them: the values
    of each row in the order of the first one's keys, which all have; `id` is the name of its case.
    """
    found = table(test, name)[key]
    names = [each for each in found[0] if each != "id"]
    assert all(row.keys() - {"id"} == {*names} for row in found), f"{name}: {key} has other rows"
    values = [tuple(map(row.get, names)) for row in found]
    return [
        pytest.param(*each, id=row["id"]) if "id" in row else each
        for each, row in zip(values, found, strict=True)
    ]
