"""What a container imports only when it is used."""

from __future__ import annotations

import importlib
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

from shoal_local.sagemaker.container import host

INSIDE = Path(host.__file__).parent / "inside"


def test_a_module_is_imported_when_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "used_later.py").write_text("value = 7\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    imported_later: Any = runpy.run_path(str(INSIDE / "later.py"))["imported_later"]
    with imported_later("used_later"):
        module: Any = importlib.import_module("used_later")
    assert "used_later" not in sys.modules
    assert module.value == 7
    assert "used_later" in sys.modules


@pytest.mark.parametrize(
    ("code", "needed"),
    [("import torch\n", True), ("import json\n", False), (None, True)],
    ids=["named", "not named", "no code"],
)
def test_a_model_whose_code_does_not_name_pytorch_does_not_wait_for_it(
    tmp_path: Path, code: str | None, needed: bool
) -> None:
    if code is not None:
        (tmp_path / "inference.py").write_text(code)
    needs_pytorch: Any = runpy.run_path(str(INSIDE / "serve_model.py"))["needs_pytorch"]
    assert needs_pytorch(tmp_path) is needed
