"""An environment with several workloads: one view for each, and one line for each mistake."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from local_kit.tables import rows, table
from shoal.settings.loading.consumers import require_own_names
from shoal.settings.loading.loader import (
    environment_names,
    load_environment,
    load_source,
    load_workloads,
    places,
)
from shoal.settings.names import Names
from shoal.settings.parsing.errors import ConfigError
from shoal.settings.sections.scoring import Scoring
from tests.settings.environment_file import CONTENT, RELEASE, copy_workloads

TEAM: dict[str, Any] = table(__file__, "workloads.yaml")["team"]
NETWORK = TEAM["network"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A repository with the shipped workloads and no environment."""
    copy_workloads(tmp_path)
    return tmp_path


def write(root: Path, name: str = "team", **changes: Any) -> None:
    """Write the environment with `changes`; what is None is left out."""
    text = {key: value for key, value in (TEAM | {"name": name} | changes).items() if value}
    (root / "environments" / f"{name}.yaml").write_text(yaml.safe_dump(text, sort_keys=False))


def lines(root: Path) -> list[str]:
    """Return what a user reads."""
    try:
        load_workloads("team", root)
    except ConfigError as error:
        return list(error.lines)
    return []


def test_each_workload_has_its_own_sections_over_those_of_all(root: Path) -> None:
    write(root)
    mnist, prices = load_workloads("team", root)
    assert (mnist.title, prices.title) == ("team mnist", "team prices")
    assert [each.training.instance_type for each in (mnist, prices)] == [
        "ml.c5.xlarge",
        "ml.m5.xlarge",
    ]
    assert {each.training.instance_count for each in (mnist, prices)} == {2}
    assert [each.training.source_dir for each in (mnist, prices)] == [
        "training_code/mnist/pytorch",
        "training_code/prices/pytorch",
    ]
    assert [each.evaluation.gates[0].metric for each in (mnist, prices)] == ["accuracy", "rmse"]


@pytest.mark.parametrize(
    ("of_all", "of_one"),
    [({}, {}), ({"owner": "all", "team": "t"}, {}), ({"owner": "all"}, {"owner": "one"})],
)
def test_a_workloads_file_has_tags_between_those_of_all_and_of_one(
    root: Path, of_all: dict[str, str], of_one: dict[str, str]
) -> None:
    ours = {"owner": "vision", "stage": "a"}
    with (root / "training_code/mnist/workload.yaml").open("a") as file:
        file.write("tags: {owner: vision, stage: a}\n")
    write(root, tags=of_all, workloads={"mnist": {"tags": of_one}, "prices": {}})
    mnist, prices = load_workloads("team", root)
    assert mnist.tags == prices.workload_tags == of_all
    assert mnist.workload_tags == of_all | ours | of_one
    write(root, tags=of_all | of_one, workloads=None, workload="mnist")
    (alone,) = load_workloads("team", root)
    assert alone.tags == alone.workload_tags == ours | of_all | of_one


def test_names_tell_what_is_shared_from_what_is_a_workloads(root: Path) -> None:
    write(root)
    names = Names(load_environment("team", root, workload="prices"))
    assert names.pipeline == "shoal-prices-team"
    assert names.role("training") == "shoal-prices-team-us-east-1-training"
    assert [names.stack(part) for part in ("network", "pipeline")] == [
        "shoal-platform-team-network",
        "shoal-prices-team-pipeline",
    ]
    assert names.bucket("data") == "shoal-platform-team-data-111122223333-us-east-1"
    assert [names.stack_id(part) for part in ("network", "pipeline")] == [
        "network",
        "prices-pipeline",
    ]
    assert names.sealed_url(RELEASE).endswith(f"/models/prices/{'2' * 64}/model.tar.gz")
    assert names.shared.role("deliver") == "shoal-platform-team-us-east-1-deliver"


def test_a_single_workload_has_the_names_of_what_it_would_share(root: Path) -> None:
    write(root, workloads=None, workload="prices")
    (alone,) = load_workloads("team", root)
    names = Names(alone)
    assert (alone.title, names.pipeline) == ("team", "shoal-prices-team")
    assert names.stack("network") == "shoal-prices-team-network"
    assert names.sealed_url(RELEASE).endswith(f"/models/{'2' * 64}/model.tar.gz")


def test_an_environment_leaves_out_what_the_file_that_it_extends_says(root: Path) -> None:
    base = {"network": NETWORK, "workloads": {"mnist": {"endpoint": {"ttl_minutes": 30}}}}
    (root / "environments" / "base.yaml").write_text(yaml.safe_dump(base))
    write(root, network=None, extends="base.yaml", workloads={"prices": {}})
    mnist, prices = load_workloads("team", root)
    assert mnist.network.cidr == prices.network.cidr == NETWORK["cidr"]
    assert (mnist.ttl_minutes, prices.ttl_minutes) == (30, 60)
    assert environment_names(root) == ["team"]
    where = places("team", root, workload="mnist")
    assert where["endpoint.ttl_minutes"].startswith("environments/base.yaml:")


def test_an_overlay_lies_over_every_workload(root: Path) -> None:
    write(root)
    (root / "environments" / "strategies").mkdir()
    text = yaml.safe_dump({"training": {"instance_type": "ml.m5.2xlarge"}})
    (root / "environments" / "strategies" / "large.yaml").write_text(text)
    assert {each.training.instance_type for each in load_workloads("team", root, "large")} == {
        "ml.m5.2xlarge"
    }


def test_releases_come_from_the_same_workload(root: Path) -> None:
    write(root, "dev")
    write(root, promoted_from="dev")
    source = load_source(load_environment("team", root, workload="prices"), root)
    assert source is not None
    assert source.title == "dev prices"


@pytest.mark.parametrize(("workload", "line"), rows(__file__, "workloads.yaml", "one_of_several"))
def test_one_of_several_has_to_be_named(root: Path, workload: str | None, line: str) -> None:
    write(root)
    with pytest.raises(ConfigError) as error:
        load_environment("team", root, workload=workload)
    assert error.value.lines[0].startswith(line)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        *rows(__file__, "workloads.yaml", "several"),
        (
            {"release": CONTENT},
            "release: is no key here any more: environments/team.release.yaml has what is pinned",
        ),
        (
            {"workloads": {"mnist": {"release": CONTENT}}},
            "workloads.mnist.release: is no key here any more: environments/team.release.yaml",
        ),
    ],
)
def test_a_mistake_is_one_line_with_its_place(
    root: Path, changes: dict[str, Any], line: str
) -> None:
    write(root, **changes)
    (found,) = lines(root)
    place, _, rest = found.partition(": ")
    assert rest.startswith(line)
    assert place.startswith("environments/team.yaml:")


def test_the_same_mistake_in_two_sections_is_told_twice(root: Path) -> None:
    wrong = {"training": {"instance_count": 0}}
    write(root, workloads={"mnist": wrong, "prices": wrong})
    places = [each.partition(": ")[2].partition(" = ")[0] for each in lines(root)]
    assert places == [
        "workloads.mnist.training.instance_count",
        "workloads.prices.training.instance_count",
    ]


def test_a_base_extends_nothing(root: Path) -> None:
    (root / "environments" / "base.yaml").write_text("extends: base-b.yaml\n")
    (root / "environments" / "base-b.yaml").write_text("region: us-east-1\n")
    write(root, extends="base.yaml")
    assert lines(root) == [
        "environments/base.yaml:1: extends: a file that is extended extends none itself; remove it"
    ]


def test_a_workload_of_one_has_the_names_of_another_of_the_other(root: Path) -> None:
    shutil.rmtree(root / "training_code")
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
    scoring = both[0].model_copy(update={"scoring": Scoring()})
    named = {"name": "score", "workload": "fraud-eu-dev"}
    with pytest.raises(ConfigError, match="begin with shoal-fraud-eu-dev-score, as those of dev"):
        require_own_names([scoring, both[0].model_copy(update=named)])
