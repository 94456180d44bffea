"""The defaults of each framework and strategy, and overlays over an environment."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from shoal.settings.frameworks import CLASSICAL, Framework, defaults, strategies_of
from shoal.settings.loading.loader import load_environment, places, strategy_names
from shoal.settings.parsing.errors import ConfigError
from shoal.settings.settings import Strategy, Training
from tests.repository import ROOT
from tests.settings.environment_file import copy_workloads

NAMES = strategy_names(ROOT)
DISTRIBUTED = [framework for framework in Framework if framework not in CLASSICAL]
ENVIRONMENT = (
    'name: test\nworkload: mnist\naccount: "111122223333"\ntraining:\n  strategy: smddp\n'
    "  hyperparameters:\n    epochs: 2\n    seed: 1\n"
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with one environment and two overlays."""
    copy_workloads(tmp_path)
    folder = tmp_path / "environments" / "strategies"
    folder.mkdir()
    (folder.parent / "test.yaml").write_text(ENVIRONMENT, encoding="utf-8")
    (folder / "horovod.yaml").write_text(
        "training:\n  strategy: horovod\n  hyperparameters: {seed: 7}\n", encoding="utf-8"
    )
    (folder / "wrong.yaml").write_text(
        "# first\ntraining:\n  strategy: horovid\n", encoding="utf-8"
    )
    return tmp_path


@pytest.mark.parametrize(
    ("framework", "strategy"),
    [(framework, name) for framework in DISTRIBUTED for name in strategies_of(framework)],
)
def test_the_default_script_of_every_strategy_is_in_the_repository(
    framework: Framework, strategy: str
) -> None:
    row = defaults(framework, strategy)
    assert (ROOT / "training_code" / "mnist" / framework / row.entry_point).is_file()


def test_every_strategy_belongs_to_a_framework() -> None:
    assert {name for framework in Framework for name in strategies_of(framework)} == set(Strategy)


def test_tensorflow_brings_its_script_and_version() -> None:
    training = Training(framework=Framework.TENSORFLOW)
    assert (training.entry_point, training.framework_version) == ("train_smddp.py", "2.11.0")


def test_what_the_file_says_wins_over_the_defaults() -> None:
    training = Training(strategy=Strategy.HOROVOD, entry_point="mine.py", framework_version="2.3.0")
    assert (training.entry_point, training.framework_version) == ("mine.py", "2.3.0")


@pytest.mark.parametrize("name", NAMES)
def test_every_overlay_fits_the_environment_of_the_demo(name: str) -> None:
    assert load_environment("dev", ROOT, name).training.strategy in Strategy


def test_the_overlays_show_every_strategy_of_every_framework() -> None:
    shown = {
        (settings.framework, settings.strategy)
        for settings in (load_environment("dev", ROOT, name).training for name in NAMES)
    }
    expected = {
        (framework, Strategy(name))
        for framework in DISTRIBUTED
        for name in strategies_of(framework)
    }
    assert expected - shown == {(Framework.TENSORFLOW, Strategy.NONE)}


@pytest.mark.parametrize("name", NAMES)
def test_an_overlay_says_nothing_but_how_to_train(name: str) -> None:
    content = yaml.safe_load(
        (ROOT / "environments" / "strategies" / f"{name}.yaml").read_text(encoding="utf-8")
    )
    assert set(content) == {"training"}


def test_an_overlay_changes_its_keys_and_keeps_the_others(root: Path) -> None:
    training = load_environment("test", root, "horovod").training
    assert (training.strategy, training.hyperparameters) == (
        Strategy.HOROVOD,
        {"epochs": 2, "seed": 7},
    )


def test_without_an_overlay_the_environment_is_as_its_file_says(root: Path) -> None:
    assert load_environment("test", root).training.strategy is Strategy.SMDDP


def test_a_mistake_in_an_overlay_names_its_file_and_line(root: Path) -> None:
    with pytest.raises(
        ConfigError, match=r'^environments/strategies/wrong\.yaml:3: training\.strategy = "horovid"'
    ):
        load_environment("test", root, "wrong")


def test_a_mistake_in_the_environment_names_the_environments_line(root: Path) -> None:
    (root / "environments" / "test.yaml").write_text(
        ENVIRONMENT + "protect: maybe\n", encoding="utf-8"
    )
    with pytest.raises(ConfigError, match=r'^environments/test\.yaml:9: protect = "maybe"'):
        load_environment("test", root, "horovod")


def test_an_unknown_overlay_lists_those_that_exist(root: Path) -> None:
    with pytest.raises(
        ConfigError,
        match=r'strategies/ring\.yaml: there is no strategy "ring"; there are: horovod, wrong',
    ):
        load_environment("test", root, "ring")


def test_places_are_those_of_the_file_with_the_last_word(root: Path) -> None:
    lines = places("test", root, "horovod")
    assert lines["training.strategy"] == "environments/strategies/horovod.yaml:2"
    assert lines["training.hyperparameters.epochs"] == "environments/test.yaml:7"


def test_places_of_what_is_not_there_are_none(root: Path) -> None:
    assert places("elsewhere", root) == {}
