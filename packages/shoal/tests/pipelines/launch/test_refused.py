"""Combinations that are refused, and those that run with a notice."""

import datetime
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from local_kit.tables import rows, table
from shoal.launch import tables
from shoal.launch.case import Case, SourceCode, patch_warnings
from shoal.settings.frameworks import CLASSICAL, Framework, strategies_of
from shoal.settings.settings import Strategy, Training
from tests.pipelines.inputs import launch, refusals
from tests.repository import CHECKOUT

CASES = table(__file__, "refused.yaml")
ROWS = [(code, row["keys"], row["line"]) for code, rows in CASES["refused"].items() for row in rows]
TENSORFLOW: dict[str, Any] = {"framework": "tensorflow"}
BY_MPIRUN: dict[str, Any] = {"collective": "allgather", "launcher": "mpirun"}
DISTRIBUTED = [framework for framework in Framework if framework not in CLASSICAL]
COMBINATIONS = [(framework, name) for framework in DISTRIBUTED for name in strategies_of(framework)]


@pytest.mark.parametrize(("code", "keys", "line"), ROWS, ids=[line[:60] for _, _, line in ROWS])
def test_what_cannot_run_is_one_line(code: str, keys: dict[str, Any], line: str) -> None:
    (refusal,) = refusals(code, **keys)
    assert line in refusal


@pytest.mark.parametrize(
    ("length", "keys", "characters"), [(2494, {}, 2501), (2460, BY_MPIRUN, 2503)]
)
def test_options_are_no_longer_than_a_hyperparameter(
    length: int, keys: dict[str, Any], characters: int
) -> None:
    (line,) = refusals(custom_mpi_options=f"-x A={'b' * length}", **keys)
    assert f"is sent as {characters} characters, quotes and what Shoal adds included; S" in line


@pytest.mark.parametrize(("framework", "name"), COMBINATIONS)
def test_every_strategy_runs_with_its_defaults(framework: Framework, name: str) -> None:
    fewest, _ = tables.hosts(name)
    launched = launch("shipped_code", framework=framework, strategy=name, instance_count=fewest)
    repository = tables.image_tags(framework)[launched.case.version].repository
    assert f"/{repository}:" in launched.image_uri


@pytest.mark.parametrize(
    ("framework", "name"), sorted({*product(DISTRIBUTED, Strategy)} - {*COMBINATIONS})
)
def test_a_strategy_of_the_other_framework_is_one_line(
    framework: Framework, name: Strategy
) -> None:
    (line,) = refusals("shipped_code", framework=framework, strategy=name)
    assert (
        f'training.strategy = "{name}": is not a strategy of {framework}; these are: smddp' in line
    )


def test_multi_worker_mirrored_before_2_9_is_refused_as_sdk_v2_does() -> None:
    keys = TENSORFLOW | {"strategy": "multi_worker_mirrored", "framework_version": "2.7.1"}
    sdk, python = refusals("shipped_code", **keys)
    assert "SDK v2 refuses multi_worker_mirrored before TensorFlow 2.9.0, and so does Shoal" in sdk
    assert "AWS's image of it has Python 3.8" in python


def source_dir(root: Path, **files: str) -> Path:
    """Return a repository whose folder `mine` has these files; `_` stands for the point."""
    (root / "mine").mkdir()
    for name, text in files.items():
        (root / "mine" / ".".join(name.rsplit("_", 1))).write_text(text, encoding="utf-8")
    return root


HOROVOD: dict[str, Any] = {"strategy": "horovod", "framework_version": "2.3.0"}
COMPILED = "horovod in requirements.txt is compiled on every instance at the start: that needs a"


@pytest.mark.parametrize(
    ("line", "is_horovod"), rows(__file__, "refused.yaml", "horovod_requirements")
)
def test_a_requirement_brings_horovod_and_its_price_is_a_notice(
    tmp_path: Path, line: str, is_horovod: bool
) -> None:
    root = source_dir(tmp_path, requirements_txt=f"# what we need\nnumpy\n{line}\n")
    keys = HOROVOD | {"source_dir": "mine"}
    told = launch(root=root, **keys).notices if is_horovod else refusals(root=root, **keys)
    says = COMPILED if is_horovod else "does not contain Horovod"
    assert [says in each for each in told] == [True]


def test_a_requirement_brings_legacy_keras(tmp_path: Path) -> None:
    keys: dict[str, Any] = {**TENSORFLOW, "strategy": "mirrored", "framework_version": "2.21.0"}
    root = source_dir(tmp_path, train_py="TF_USE_LEGACY_KERAS = 1\n", requirements_txt="")
    (line,) = refusals(root=root, source_dir="mine", **keys)
    assert "lacks tf_keras~=2.21.0, which mine needs" in line
    (root / "mine" / "requirements.txt").write_text("tf-keras>=2.21\n", encoding="utf-8")
    assert refusals(root=root, source_dir="mine", **keys) == []


@pytest.mark.parametrize(
    ("keys", "is_refused"),
    [({"strategy": "torchrun"}, True), ({"collective": "allgather"}, True), ({}, False)],
)
def test_torchrun_cannot_start_a_package_and_mpirun_can(
    tmp_path: Path, keys: dict[str, Any], is_refused: bool
) -> None:
    told = refusals(root=source_dir(tmp_path, setup_py=""), source_dir="mine", **keys)
    says = "contains setup.py: the training toolkit then installs it as a package, which torchrun"
    assert [says in each for each in told] == [True] * is_refused


def test_a_script_of_another_strategy_beside_the_right_one_is_refused_in_any_folder(
    tmp_path: Path,
) -> None:
    keys = {"source_dir": "mine", "strategy": "torchrun", "entry_point": "train_horovod.py"}
    root = source_dir(tmp_path)
    assert refusals(root=root, **keys) == []
    (root / "mine" / "train.py").touch()
    (line,) = refusals(root=root, **keys)
    assert "is mine's script for horovod; for torchrun it is" in line


def _offers(lines: list[str]) -> Iterator[dict[str, str]]:
    """Yield the keys that the lines offer instead."""
    text = " ".join(lines)
    versions = re.findall(r"framework_version: ([\d.]+) with training\.strategy: (\w+)", text)
    for version, name in versions:
        yield {"framework_version": version, "strategy": name}
    for names in [] if versions else re.findall(r"training\.strategy: (\w+(?: or \w+)*)", text):
        yield from ({"strategy": name} for name in names.split(" or "))


GRID: dict[str, dict[str, tuple[Any, ...]]] = CASES["grid"]


@pytest.mark.parametrize("framework", DISTRIBUTED)
def test_every_offer_of_a_grid_is_accepted(framework: Framework) -> None:
    """Who follows an offer is not refused for it; what has nothing to do with it may stay."""
    offer_count = 0
    for values in product(*({**GRID["any"], **GRID[framework]}).values()):
        instance_type, more, version, strategy = values
        keys = {"framework": framework, "framework_version": version, "strategy": strategy, **more}
        keys["instance_type"] = instance_type
        lines = refusals(**keys, instance_count=1 if strategy == "mirrored" else 2)
        others = [line for line in lines if not list(_offers([line]))]
        for change in _offers(lines):
            offer_count += 1
            again = refusals(**{**keys, "instance_count": 2, **change})
            assert [line for line in again if line not in others] == [], (keys, change)
    assert offer_count > 100


NOTICES = [
    (code, row["keys"], row["notices"]) for code, rows in CASES["told"].items() for row in rows
]


@pytest.mark.parametrize(
    ("code", "keys", "notices"), NOTICES, ids=[str(keys)[1:60] for _, keys, _ in NOTICES]
)
def test_notices(code: str, keys: dict[str, Any], notices: list[str]) -> None:
    assert list(launch(code, **keys).notices) == notices


@pytest.mark.parametrize(("keys", "today", "told"), rows(__file__, "refused.yaml", "unpatched"))
def test_images_without_patches_are_a_warning_with_what_is_patched(
    keys: dict[str, Any], today: datetime.date, told: list[str]
) -> None:
    """From the day after their last one, and not of images that are not AWS's."""
    lines = list(patch_warnings(Case.of(Training(**keys), "us-east-1", SourceCode()), today))
    assert len(lines) == bool(told)
    assert [part for part in told if part not in "".join(lines)] == []


def test_nothing_that_makes_a_template_reads_the_clock() -> None:
    clock = re.compile(r"\.(today|now|utcnow)\(|\btime\.(time|monotonic)\(")
    library = CHECKOUT / "packages" / "shoal" / "src" / "shoal"
    folders = [library / name for name in ("settings", "launch", "pipelines", "constructs")]
    sources = [
        path
        for folder in (*folders, CHECKOUT / "pipelines", CHECKOUT / "stacks")
        for path in folder.rglob("*.py")
        if path.parent.name != "watch"  # runs in the job
    ]
    assert [path.name for path in sources if clock.search(path.read_text(encoding="utf-8"))] == []
