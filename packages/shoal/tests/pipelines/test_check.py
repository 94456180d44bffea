"""`check` finds what would fail at deployment or later, and says it with file, key and value."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from shoal.pipelines.checks.check import check
from shoal.settings.loading.loader import load, load_environment
from shoal.settings.parsing.errors import ConfigError, LaunchError
from shoal.settings.sections.network import ExistingNetwork
from shoal.settings.sections.release import Release
from shoal.settings.sections.serving import Serverless, Serving, Traffic, TrafficType
from shoal.settings.settings import Environment, Strategy
from tests.pipelines.inputs import environment
from tests.repository import ROOT
from tests.settings.environment_file import VALID, write
from tests.settings.releases import RELEASE


def write_scripts(folder: Path, **texts: str) -> None:
    """Write scripts that keep the contract into a new folder, or those `texts` by their names."""
    folder.mkdir()
    for name in ("train", "evaluate", "inference"):
        (folder / f"{name}.py").write_text(
            texts.get(name, "print()  # accuracy rmse\n"), encoding="utf-8"
        )


def changed(**sections: dict[str, Any]) -> Environment:
    """Return the golden environment with keys of its sections changed."""
    settings = environment()
    return settings.model_copy(
        update={
            name: getattr(settings, name).model_copy(update=keys) for name, keys in sections.items()
        }
    )


@pytest.mark.parametrize("name", ["dev", "prod", "staging"])
def test_every_environment_of_the_repository_can_run(name: str) -> None:
    environment = load_environment(name, ROOT)
    assert check(environment).launch.case.training == environment.training


def test_a_placeholder_account_is_a_notice() -> None:
    assert check(environment()).notices[0].startswith("account 111122223333 is a placeholder")


def test_an_expensive_instance_that_nobody_wrote_is_a_notice(tmp_path: Path) -> None:
    def chosen(**keys: Any) -> list[str]:
        settings = load(write(tmp_path, json.dumps(VALID | keys)))
        return [each for each in check(settings).notices if each.startswith("training.instance_t")]

    assert chosen() == [
        "training.instance_type is left out, so training takes ml.p4d.24xlarge; write the type that"
        " you want (`shoal plan test` has its price)"
    ]
    assert chosen(training={"instance_type": "ml.p4d.24xlarge"}) == []


def test_smddp_on_p5_is_one_line_that_says_what_can_run() -> None:
    with pytest.raises(LaunchError) as caught:
        check(changed(training={"instance_type": "ml.p5.48xlarge"}))
    (line,) = str(caught.value).splitlines()
    assert line.startswith(
        'environments/golden.yaml: training.instance_type = "ml.p5.48xlarge": smddp cannot run on'
        " this instance type"
    )
    expected = (
        "ml.p4d.24xlarge",
        "ml.p4de.24xlarge",
        "ml.p3dn.24xlarge",
        "training.fallback: torchrun",
    )
    # Not `strategy: torchrun`: that would be refused for the custom_mpi_options of this file.
    assert [name for name in expected if name not in line] == []


@pytest.mark.parametrize(
    ("training", "line"),
    [
        (
            {"collective": "allgather"},
            '"2.3.0": training_code/language/pytorch needs PyTorch 2.4.0 or later',
        ),
        (
            {"framework_version": "2.5.1", "hyperparameters": {"sharding": "fsdp"}},
            '.sharding = "fsdp": is FSDP, of which smddp with AllReduce accelerates nothing; set'
            " strategy: smddp with collective: allgather, or strategy: torchrun",
        ),
    ],
)
def test_what_the_language_models_scripts_lack_is_one_line(
    tmp_path: Path, training: dict[str, Any], line: str
) -> None:
    keys = {"workload": "language", "training": training}
    with pytest.raises(LaunchError) as caught:
        check(load(write(tmp_path, json.dumps(VALID | keys)), root=ROOT))
    (told,) = str(caught.value).splitlines()
    assert line in told


def test_an_arm_type_that_sagemaker_does_not_have_is_one_line() -> None:
    with pytest.raises(ConfigError) as caught:
        check(changed(training={"instance_type": "ml.g5g.xlarge"}))
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("section", "instance_type", "nearest"),
    [
        ("training", "ml.p4d.24xlage", "ml.p4d.24xlarge"),
        ("evaluation", "ml.m5.xlrge", "ml.m5.xlarge"),
        ("endpoint", "ml.m5.extra", "ml.m5.xlarge"),
    ],
)
def test_an_instance_type_that_sagemaker_lacks_names_near_ones(
    section: str, instance_type: str, nearest: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        check(changed(**{section: {"instance_type": instance_type}}))
    assert f'{section}.instance_type = "{instance_type}": is not one of the' in str(caught.value)
    assert nearest in str(caught.value)


@pytest.mark.parametrize(
    ("section", "instance_type", "why"),
    [
        ("endpoint", "ml.m6g.large", "an Arm processor"),
        ("endpoint", "ml.inf2.xlarge", "accelerators that are no GPUs"),
        ("training", "ml.trn1.32xlarge", "accelerators that are no GPUs"),
    ],
)
def test_instances_for_which_the_images_are_not_made_are_refused(
    section: str, instance_type: str, why: str
) -> None:
    with pytest.raises(
        ConfigError, match=f'{section}.instance_type = "{instance_type}": has {why}'
    ):
        check(changed(**{section: {"instance_type": instance_type}}))


def serving(**keys: Any) -> Environment:
    """Return the golden environment with a section `serving`."""
    return environment().model_copy(update={"serving": Serving(**keys)})


@pytest.mark.parametrize(
    ("instance_type", "why"),
    [
        ("ml.m5.xlrge", "is not one of the"),
        ("ml.m6g.large", "has an Arm processor"),
        ("ml.inf2.xlarge", "has accelerators that are no GPUs"),
    ],
)
def test_instances_that_could_not_serve_are_refused(instance_type: str, why: str) -> None:
    with pytest.raises(ConfigError, match=f'serving.instance_type = "{instance_type}": {why}'):
        check(serving(instance_type=instance_type))


def test_without_instances_nobody_minds_their_type() -> None:
    assert check(serving(serverless=Serverless(), traffic=Traffic(type=TrafficType.ALL_AT_ONCE)))


@pytest.mark.parametrize(
    ("release", "section", "notice"),
    [
        (None, Serving(), "serving: nothing is served before a release is pinned"),
        (RELEASE, None, "a release is pinned, and nothing serves it"),
        (
            RELEASE,
            Serving(traffic=Traffic(type=TrafficType.ALL_AT_ONCE)),
            "serving.traffic: all traffic moves at once",
        ),
    ],
)
def test_what_serving_leaves_open_is_a_notice(
    release: Release | None, section: Serving | None, notice: str
) -> None:
    checked = check(environment().model_copy(update={"release": release, "serving": section}))
    assert any(line.startswith(notice) for line in checked.notices)


@pytest.mark.parametrize(
    ("instance_type", "device"),
    [
        ("ml.g5.xlarge", "gpu"),
        ("ml.g6.2xlarge", "gpu"),
        ("ml.c5.xlarge", "cpu"),
        ("ml.m5.xlarge", "cpu"),
    ],
)
def test_an_endpoint_has_the_image_for_its_instances(instance_type: str, device: str) -> None:
    definition = json.dumps(check(changed(endpoint={"instance_type": instance_type})).definition)
    assert set(re.findall(r"/pytorch-inference:[\d.]+-(cpu|gpu)-", definition)) == {device}


def test_gpus_that_nothing_uses_are_a_notice() -> None:
    settings = changed(evaluation={"instance_type": "ml.g5.xlarge"}).model_copy(
        update={"serving": Serving(instance_type="ml.g5.xlarge")}
    )
    notices = check(settings).notices
    for section in ("evaluation", "serving"):
        assert (
            f"{section}.instance_type ml.g5.xlarge has GPUs, which the image used there cannot use"
            in notices
        )


def test_gpus_that_an_endpoint_uses_are_none() -> None:
    settings = changed(endpoint={"instance_type": "ml.g5.xlarge"}).model_copy(
        update={"serving": Serving(instance_type="ml.g5.xlarge")}
    )
    assert "has GPUs, which" not in " ".join(check(settings).notices)


def test_an_image_of_your_own_may_evaluate_on_gpus() -> None:
    evaluation = {"image_uri": "mine/own:1", "instance_type": "ml.g5.xlarge"}
    assert "evaluation.instance_type" not in " ".join(check(changed(evaluation=evaluation)).notices)


def test_a_container_that_serves_by_itself_gets_its_variables_and_no_words_on_awss_image() -> None:
    server = "763104351884.dkr.ecr.us-east-1.amazonaws.com/djl-inference:0.36.0-lmi28.0.0-cu130"
    variables = {"HF_MODEL_ID": "/opt/ml/model"}
    keys = {"image_uri": server, "environment": variables, "instance_type": "ml.g5.xlarge"}
    checked = check(changed(endpoint=keys))
    assert "endpoint" not in " ".join(checked.notices)
    (gate,) = [each for each in checked.definition["Steps"] if each["Name"] == "Gate"]
    steps = {each["Name"]: each["Arguments"] for each in gate["Arguments"]["IfSteps"]}
    (registered,) = steps["Register"]["InferenceSpecification"]["Containers"]
    assert registered == steps["CreateModel"]["PrimaryContainer"]
    assert (registered["Image"], registered["Environment"]) == (server, variables)
    assert steps["SmokeTest"]["sealed_archive"] == registered["ModelDataUrl"]
    assert "InferenceAmiVersion" not in json.dumps(checked.definition)


SERVER = "111122223333.dkr.ecr.us-east-1.amazonaws.com/mine-cpu-arm:1"


@pytest.mark.parametrize("instance_type", ["ml.m6g.large", "ml.g5.xlarge"])
@pytest.mark.parametrize("release", [None, RELEASE.model_copy(update={"image_uri": SERVER})])
def test_a_container_of_your_own_may_serve_on_any_instances(
    instance_type: str, release: Release | None
) -> None:
    settings = changed(endpoint={"image_uri": SERVER}).model_copy(
        update={"serving": Serving(instance_type=instance_type), "release": release}
    )
    assert "serving.instance_type" not in " ".join(check(settings).notices)


def test_a_release_of_awss_image_is_served_by_it_whatever_comes_next() -> None:
    settings = changed(endpoint={"image_uri": SERVER}).model_copy(
        update={"serving": Serving(instance_type="ml.m6g.large"), "release": RELEASE}
    )
    with pytest.raises(ConfigError, match=r"serving\.instance_type = .*: has an Arm processor"):
        check(settings)


def test_an_endpoints_instances_have_the_driver_that_is_asked_for() -> None:
    ami = "al2023-ami-sagemaker-inference-gpu-4-1"
    keys = {"instance_type": "ml.g5.xlarge", "inference_ami_version": ami}
    assert f'"InferenceAmiVersion": "{ami}"' in json.dumps(check(changed(endpoint=keys)).definition)


@pytest.mark.parametrize("section", ["endpoint", "serving"])
def test_a_driver_that_sagemaker_lacks_names_those_it_has(section: str) -> None:
    settings = serving().model_copy(
        update={
            section: getattr(serving(), section).model_copy(update={"inference_ami_version": "4"})
        }
    )
    line = (
        f'{section}\\.inference_ami_version = "4": is not one of .* choose one: al2-ami-sagemaker'
    )
    with pytest.raises(ConfigError, match=line):
        check(settings)


def test_an_image_that_may_change_does_not_evaluate() -> None:
    with pytest.raises(ConfigError, match=r'evaluation\.image_uri = "mine/own": must be a full'):
        check(changed(evaluation={"image_uri": "mine/own"}))


@pytest.mark.parametrize("has_endpoint", [True, False])
def test_the_endpoints_image_is_a_notice_where_there_is_an_endpoint(has_endpoint: bool) -> None:
    torchrun = load_environment("dev", ROOT, "torchrun")
    settings = torchrun if has_endpoint else torchrun.model_copy(update={"endpoint": None})
    told = any("image for endpoints" in notice for notice in check(settings).notices)
    assert told is has_endpoint


def test_what_sagemaker_would_refuse_is_told_with_step_and_path() -> None:
    with pytest.raises(
        ConfigError,
        match=(
            r"SageMaker would refuse Train\.AlgorithmSpecification\.TrainingImage: 261 characters"
        ),
    ):
        check(changed(training={"image_uri": f"r/{'x' * 257}:1"}))


def test_scripts_must_exist_where_the_environment_says(tmp_path: Path) -> None:
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "train.py").touch()
    with pytest.raises(ConfigError) as caught:
        check(changed(training={"source_dir": "code"}), root=tmp_path)
    (line,) = str(caught.value).splitlines()
    assert 'evaluation.entry_point = "evaluate.py": there is no such file in code' in line


def test_with_the_repository_at_hand_a_line_names_the_line_of_the_file(tmp_path: Path) -> None:
    for script in ("train.py", "evaluate.py"):
        (tmp_path / "code").mkdir(exist_ok=True)
        (tmp_path / "code" / script).touch()
    (tmp_path / "environments").mkdir()
    (tmp_path / "environments" / "golden.yaml").write_text(
        "name: golden\ntraining:\n  instance_type: ml.p5.48xlarge\n", encoding="utf-8"
    )
    with pytest.raises(LaunchError, match=r"^environments/golden\.yaml:3: training\.instance_type"):
        check(
            changed(training={"source_dir": "code", "instance_type": "ml.p5.48xlarge"}),
            root=tmp_path,
        )


def test_a_source_folder_must_exist(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError,
        match=r'training\.source_dir = "training_code/mnist/pytorch": there is no such folder',
    ):
        check(environment(), root=tmp_path)


def test_more_nodes_than_the_network_has_addresses_for_are_refused() -> None:
    training = {
        "instance_type": "ml.p5.48xlarge",
        "strategy": Strategy.TORCHRUN,
        "instance_count": 64,
    }
    with pytest.raises(
        ConfigError, match=r"training\.instance_count = 64: .* use at most 63 nodes"
    ):
        check(changed(network={"cidr": "10.20.0.0/20"}, training=training))


def test_what_a_nat_gateway_opens_is_a_notice() -> None:
    notices = check(changed(network={"nat": True})).notices
    assert any(
        notice.startswith("network.nat: what runs in the VPC can open HTTPS connections")
        for notice in notices
    )


def test_what_an_image_lacks_may_stand_in_requirements_of_the_source_folder(tmp_path: Path) -> None:
    write_scripts(tmp_path / "code")
    settings = changed(
        training={
            "strategy": Strategy.HOROVOD,
            "framework_version": "2.3.0",
            "source_dir": "code",
            "hyperparameters": {},
        },
        network={"nat": True},
    )
    with pytest.raises(LaunchError, match=r"does not contain Horovod"):
        check(settings, root=tmp_path)
    (tmp_path / "code" / "requirements.txt").write_text("horovod==0.28.1\n", encoding="utf-8")
    assert any(
        "horovod in requirements.txt is compiled on every instance" in notice
        for notice in check(settings, root=tmp_path).notices
    )


def with_requirements(root: Path, text: str, **network: Any) -> tuple[str, ...]:
    """Return the notices of an environment whose own source folder has this requirements.txt."""
    folder = root / "code"
    write_scripts(folder)
    (folder / "requirements.txt").write_text(text)
    settings = changed(
        network=network,
        training={"source_dir": "code", "hyperparameters": {}, "strategy": Strategy.TORCHRUN}
        | {"custom_mpi_options": ""},
    )
    return check(settings, root).notices


@pytest.mark.parametrize("line", ["einops==0.8.0", "-r more.txt", "https://example.org/a.whl"])
def test_requirements_are_refused_where_no_way_leads_to_a_package_index(
    tmp_path: Path, line: str
) -> None:
    with pytest.raises(ConfigError, match="there is no way to a package index"):
        with_requirements(tmp_path, f"# what we need\n{line}\n")


@pytest.mark.parametrize(
    ("text", "network"),
    [
        ("einops==0.8.0\n", {"nat": True}),
        ("--no-index\n--find-links wheels\neinops==0.8.0\n", {}),
        ("# nothing yet\n\n./wheels/einops-0.8.0-py3-none-any.whl\n", {}),
    ],
)
def test_requirements_that_pip_can_reach_are_fine(
    tmp_path: Path, text: str, network: dict[str, Any]
) -> None:
    assert not any("package index" in each for each in with_requirements(tmp_path, text, **network))


def test_requirements_in_an_existing_vpc_are_a_notice(tmp_path: Path) -> None:
    existing = ExistingNetwork(
        vpc_id="vpc-0a1b2c3d",
        training_subnet_id="subnet-0a1b2c3d",
        hosting_subnet_ids=("subnet-1a1b2c3d", "subnet-2a1b2c3d"),
    )
    notices = with_requirements(tmp_path, "einops==0.8.0\n", existing=existing)
    assert any("the existing VPC needs a way to a package index" in each for each in notices)
