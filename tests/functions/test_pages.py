"""The function that keeps pages, as it is packed; tests/end_to_end/test_verbs.py runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from config.errors import ConfigError
from config.loader import load_environment
from config.names import Names
from shoal.verbs.target import Target
from shoal.verbs.workspace import Session, Workspace
from stacks.constructs.page_keeper import packed_files
from tests.functions.invocation import FUNCTIONS
from tests.repository import ROOT

WHAT_LAMBDA_HAS_NOT = ("click", "pydantic", "rich", "yaml")
LOOK = f"""
import json, sys
sys.modules.update(dict.fromkeys({WHAT_LAMBDA_HAS_NOT}))  # an import of None fails
sys.path.insert(0, sys.argv[1])
import handler
place = handler.own_place()
shown = {{name: getattr(place, name) for name in sys.argv[2:]}}
shown["metrics"] = {{name: vars(each) for name, each in place.metrics.items()}}
shown["price"] = vars(place.price_of("ml.c5.xlarge"))
shown["pipeline"], shown["account"] = place.pipeline.name, place.target.account
shown["modules"] = [name for name in sys.modules if name.split(".")[0] in ("shoal", "config")]
print(json.dumps(shown))
"""
SAME = (
    "environment",
    "workload",
    "arguments",
    "model_package_group",
    "cleaners",
    "bucket",
    "folder",
)


@pytest.fixture(scope="module")
def environment() -> Any:
    return load_environment("dev", ROOT)


@pytest.fixture(scope="module")
def packed(environment: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    files = packed_files(Names(environment), ROOT)
    files["handler.py"] = (FUNCTIONS / "pages" / "handler.py").read_bytes()
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def test_what_is_packed_needs_boto3_alone_and_knows_what_a_session_knows(
    packed: Path, environment: Any
) -> None:
    command = [sys.executable, "-I", "-c", LOOK, str(packed), *SAME]
    answer = subprocess.run(command, cwd=packed, check=True, capture_output=True, text=True)
    shown = json.loads(answer.stdout)
    target = Target(environment.account, environment.region)
    place = Session(Workspace(ROOT, os.environ), environment, target).place
    assert {name: shown[name] for name in SAME} == {name: getattr(place, name) for name in SAME}
    assert (shown["pipeline"], shown["account"]) == (place.pipeline.name, target.account)
    assert shown["metrics"] == {
        name: each.model_dump(mode="json") for name, each in place.metrics.items()
    }
    price = place.price_of("ml.c5.xlarge")
    assert price is not None
    assert shown["price"] == {**vars(price), "date": str(price.date)}
    modules = {each.replace(".", "/") for each in shown["modules"]}
    files = {str(each.relative_to(packed))[:-3] for each in packed.rglob("*.py")} - {"handler"}
    assert {each.removesuffix("/__init__") for each in files} == modules


def test_without_the_library_that_draws_curves_nothing_is_synthesised(
    environment: Any, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=r"uPlot\.iife.min\.js: is missing.*; run `make install`"):
        packed_files(Names(environment), tmp_path)
