"""The tables of images, types and strategies, and the recipes of our own images."""

import ast
import datetime
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from local_kit.tables import rows
from shoal.launch import recipes, tables, watch
from shoal.launch.image_uri import aws_image
from shoal.launch.recipes import ami_of, build_arguments, content_tag
from shoal.pipelines import shapes
from shoal.settings.frameworks import CLASSICAL, Framework
from shoal.settings.loading.workload import load_workload
from shoal.settings.parsing.plain_files import python_files
from shoal.settings.regions import az_id_prefixes
from shoal.settings.sections.serving import default_recipe
from shoal.settings.settings import Environment
from tests.pipelines.inputs import launch
from tests.repository import CHECKOUT, ROOT

FULL = re.compile(
    r"^[\d.]+-((gpu-py\d+-cu\d+|cpu-py\d+)-(ubuntu2\d\.04|amzn2023)|(cu\d+|cpu)-amzn2023)-sagemaker$"
)
DISTRIBUTED = [framework for framework in Framework if framework not in CLASSICAL]
PATCHED_FOR = datetime.timedelta(days=60)


def test_every_region_of_the_project_has_a_registry() -> None:
    assert [region for region in az_id_prefixes() if tables.registry(region) is None] == []


@pytest.mark.parametrize("framework", DISTRIBUTED)
def test_every_release_of_smddp_has_an_image_and_a_source(framework: Framework) -> None:
    """Of former ones, which are before them, AWS's page of that time is the source."""
    releases = tables.smddp_releases(framework)
    former, first = tables.former_smddp_releases(framework), next(iter(releases))
    assert set(releases) <= set(tables.image_tags(framework))
    assert all(re.search(r"\[(support|release|dlc)\]", each.source) for each in releases.values())
    assert all(tables.is_older(version, first) for version in former)
    page = re.compile(r"AWS's guide of 2023: version [\d.]+")
    assert all(page.fullmatch(source) for source in former.values())


def test_every_type_whose_gpus_are_counted_has_gpus() -> None:
    counted = [name for name in shapes.values_of("TrainingInstanceType") if tables.gpu_count(name)]
    assert len(counted) == 29
    assert tables.gpu_memory("ml.g5.xlarge") == tables.gpu_memory("ml.g5.2xlarge")
    assert all(tables.has_gpus(name) for name in counted)


def _faults(version: str, row: tables.ImageTags) -> Iterator[str]:
    training = (row.training_gpu, row.training_cpu)
    if not all(FULL.match(tag) for tag in (*training, row.inference_gpu, row.inference_cpu)):
        yield "a tag is not full"
    if not all(tag.startswith(f"{version}-") for tag in training):
        yield "a training tag is of another version"
    answers = row.inference_cpu.split("-")[0]
    if answers.split(".")[:2] != version.split(".")[:2] and answers not in row.notice:
        yield "no notice says which version answers"
    if row.inference_gpu.split("-gpu-py")[0] != row.inference_cpu.split("-cpu-py")[0]:
        yield "the images that answer have two versions"
    if not row.python or tables.python_in(row.training_gpu) not in (row.python, None):
        yield "the Python is unknown, or two"
    if row.end_of_patch is None:
        yield "nothing says until when it is patched"
    if not re.match(r"\[(images|support|data)\]", row.source):
        yield "it has no source"


@pytest.mark.parametrize("framework", DISTRIBUTED)
def test_every_row_of_images_is_right(framework: Framework) -> None:
    rows = tables.image_tags(framework)
    faults = {version: list(_faults(version, row)) for version, row in rows.items()}
    assert faults == {version: [] for version in rows}


@pytest.mark.parametrize("framework", DISTRIBUTED)
def test_some_row_is_patched_for_two_months_more(framework: Framework) -> None:
    """Read the clock: look for new rows in AWS's tree ([data] in images.yaml) when this fails."""
    today = datetime.datetime.now(tz=datetime.UTC).date()
    ends = [row.end_of_patch for row in tables.image_tags(framework).values() if row.end_of_patch]
    assert max(ends) - today >= PATCHED_FOR


@pytest.mark.parametrize("framework", CLASSICAL)
def test_one_image_trains_measures_and_answers(framework: Framework) -> None:
    for version, row in tables.image_tags(framework).items():
        tags = {row.training_cpu, row.inference_cpu, row.training_gpu, row.inference_gpu} - {""}
        assert [tag.replace("-", ".").startswith(version) for tag in tags] == [True]
        assert (bool(row.python), row.source) == (True, "[v3]; [classic]")
        image = aws_image(tables.image_uri("eu-west-1", row.repository, row.training_cpu))
        assert image
        assert (image.framework, image.version) == (framework, version)


def test_pytorchs_images_have_a_repository_of_their_own_since_2_11() -> None:
    rows = tables.image_tags("pytorch")
    assert rows["2.10.0"].repository == "pytorch-training"
    new = {row.repository for version, row in rows.items() if tables.ordered(version) >= (2, 11)}
    assert new == {"pytorch"}


@pytest.mark.parametrize(
    ("framework", "version", "min_python", "nearest"), rows(__file__, "launch.yaml", "nearest")
)
def test_the_nearest_images_are_of_the_minor_version_or_before_it_or_the_first(
    framework: str, version: str, min_python: str, nearest: str
) -> None:
    assert tables.nearest_images(framework, version, min_python)[0] == nearest


@pytest.mark.parametrize("framework", DISTRIBUTED)
def test_the_training_code_has_no_syntax_that_the_oldest_python_lacks(framework: Framework) -> None:
    oldest = load_workload("mnist", ROOT).frameworks[framework].min_python
    assert oldest is not None
    major, minor = tables.ordered(oldest)
    sources = [
        path.read_text(encoding="utf-8")
        for path in python_files(ROOT / "training_code" / "mnist" / framework).values()
    ]
    assert all(ast.parse(source, feature_version=(major, minor)) for source in sources)
    assert sources


def test_the_families_whose_gpus_are_known_are_families_with_gpus_that_sagemaker_trains_on() -> (
    None
):
    with_gpus = {name for name in shapes.values_of("TrainingInstanceType") if tables.gpus(name)}
    assert [name for name in with_gpus if not tables.has_gpus(name)] == []
    assert {"p3", "p4d", "p5", "g5", "p6-b200"} <= {name.split(".")[1] for name in with_gpus}


@pytest.mark.parametrize(("tag", "cuda"), rows(__file__, "launch.yaml", "cuda"))
def test_a_tag_says_its_cuda(tag: str, cuda: str | None) -> None:
    assert tables.cuda_in(tag) == cuda


def test_instance_types_of_smddp_are_ones_that_sagemaker_trains_on() -> None:
    types = set(tables.smddp_instance_types())
    assert types <= set(shapes.values_of("TrainingInstanceType"))
    stand_in = CHECKOUT / "packages/stand-ins/smddp/src/smdistributed/dataparallel/launch.py"
    (listed,) = re.findall(r"^SUPPORTED_INSTANCE_TYPES = (.*)$", stand_in.read_text(), re.MULTILINE)
    assert set(ast.literal_eval(listed)) == types


def test_every_family_that_trains_has_either_nvme_disks_or_a_volume_of_any_size() -> None:
    types = shapes.values_of("TrainingInstanceType")
    told = {
        name.split(".")[1]: (tables.has_nvme(name), tables.takes_volume_key(name)) for name in types
    }
    assert {family for family, has in told.items() if has == (False, False)} == {"p2", "p3"}
    assert {family for family, has in told.items() if has == (True, True)} == set()
    assert {"p3dn", "p4d", "g4dn", "g5", "trn1", "r5d"} <= {
        family for family, has in told.items() if has == (True, False)
    }


@pytest.mark.parametrize(
    ("instance_type", "gpus", "other", "arm", "volume_key"),
    rows(__file__, "launch.yaml", "instances"),
)
def test_families_tell_what_an_instance_has(
    instance_type: str, gpus: bool, other: bool, arm: bool, volume_key: bool
) -> None:
    assert (
        tables.has_gpus(instance_type),
        tables.has_other_accelerators(instance_type),
        tables.is_arm(instance_type),
        tables.takes_volume_key(instance_type),
    ) == (gpus, other, arm, volume_key)


@pytest.mark.parametrize(
    ("framework", "is_watched"), [("sklearn", True), ("xgboost", False), ("pytorch", True)]
)
def test_xgboosts_image_which_starts_modules_gets_no_watch(
    framework: str, is_watched: bool
) -> None:
    keys: dict[str, Any] = {
        "strategy": "none",
        "instance_type": "ml.m5.xlarge",
        "entry_point": "train.py",
    }
    assert bool(watch.files(launch(framework=framework, **keys).case)) is is_watched


NAME = "pytorch-smddp"
TAG = content_tag(NAME, "us-east-1", ROOT)


@pytest.mark.parametrize("name", recipes.names(serves=False))
def test_every_recipe_that_trains_can_be_trained_with(name: str) -> None:
    recipe = recipes.recipe(name)
    version = recipe.framework_version
    strategy = "smddp" if version in tables.smddp_releases(recipe.framework) else "torchrun"
    keys: dict[str, Any] = {
        "framework": recipe.framework,
        "framework_version": version,
        "strategy": strategy,
    }
    launched = launch(build_image=name, **keys)
    assert launched.case.training.build_image == name


def test_horovod_runs_with_a_recipe_that_extends_an_image_with_it() -> None:
    keys = {"framework": "tensorflow", "framework_version": "2.11.0"}
    launched = launch(root=ROOT, strategy="horovod", build_image="tensorflow-smddp", **keys)
    assert launched.case.contract.label == "horovod"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "images" / NAME, tmp_path / "images" / NAME)
    return tmp_path


def test_horovod_runs_with_a_recipe_that_installs_it(repository: Path) -> None:
    (repository / "images" / NAME / "requirements.txt").write_text("horovod==0.28.1\n")
    launched = launch(
        root=repository, strategy="horovod", framework_version="2.3.0", build_image=NAME
    )
    assert launched.case.contract.label == "horovod"


def test_the_tag_is_the_same_for_the_same_recipe_elsewhere(repository: Path) -> None:
    assert content_tag(NAME, "us-east-1", repository) == TAG


@pytest.mark.parametrize("file", ["requirements.txt", "patches/new.txt"])
def test_the_tag_changes_with_every_file_of_the_recipe(repository: Path, file: str) -> None:
    path = repository / "images" / NAME / file
    path.parent.mkdir(exist_ok=True)
    path.write_text("changed")
    assert content_tag(NAME, "us-east-1", repository) != TAG


def test_the_tag_changes_with_the_image_that_is_extended() -> None:
    assert content_tag(NAME, "eu-south-1", ROOT) != TAG


@pytest.mark.parametrize(("keys", "recipe"), rows(__file__, "launch.yaml", "served_by"))
def test_pytorch_is_served_by_a_patched_image_unless_the_file_says_otherwise(
    keys: dict[str, Any], recipe: str | None
) -> None:
    names = {"name": "dev", "workload": "mnist", "account": "111122223333"}
    environment = Environment.model_validate(names | keys)
    assert environment.built_images.get("endpoint") == recipe


@pytest.mark.parametrize("recipe", recipes.names())
def test_a_file_can_name_every_recipe(recipe: str) -> None:
    names = {"name": "dev", "workload": "mnist", "account": "111122223333"}
    use = "endpoint" if recipes.recipe(recipe).serves else "training"
    environment = Environment.model_validate(names | {use: {"build_image": recipe}})
    assert environment.built_images[use] == recipe


@pytest.mark.parametrize("instance_type", shapes.values_of("ProductionVariantInstanceType"))
def test_the_image_that_serves_by_default_fits_the_instances(instance_type: str) -> None:
    """Its GPUs have a CUDA that runs on them, and the instances the driver that it needs."""
    recipe, gpus = default_recipe(instance_type), tables.gpus(instance_type)
    if not tables.has_gpus(instance_type):
        assert recipe == "pytorch-serving"
        return
    cuda = float(tables.cuda_in(build_arguments("pytorch-serving-gpu", "us-east-1")["TAG"]) or 0)
    is_supported = gpus is None or gpus.last is None or cuda <= float(gpus.last)
    assert recipe == ("pytorch-serving-gpu" if is_supported else None)
    ami = ami_of(instance_type, "1.dkr.ecr.us-east-1.amazonaws.com/x-pytorch-serving-gpu@sha256:0")
    assert ami is not None
    assert int(float(tables.inference_amis()[ami])) == int(cuda)
