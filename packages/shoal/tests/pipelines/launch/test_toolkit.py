"""The command lines in docs/strategies are those that AWS's training toolkit builds."""

import json
import os
import re
import subprocess
from collections.abc import Mapping
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from shoal.launch import resolve, tables
from shoal.settings.hyperparameters import HyperparameterValue
from shoal.settings.loading.loader import load_environment, strategy_names
from shoal.settings.settings import Training
from shoal_local.runtimes.build import build
from shoal_local.runtimes.catalog import runtimes
from tests.repository import ROOT

PAGES = ROOT / "docs" / "strategies"
PROGRAM = Path(__file__).with_name("toolkit_program.py")
NAMES = strategy_names(ROOT)
P4D = "ml.p4d.24xlarge"
P3DN = "ml.p3dn.24xlarge"


MORE: dict[str, tuple[str, dict[str, Any]]] = {
    "the second host of torchrun": ("torchrun", {"host": "algo-2"}),
    "torchrun on one host": ("torchrun", {"hosts": ["algo-1"]}),
    "smddp on one host": ("smddp", {"hosts": ["algo-1"]}),
    f"smddp on {P3DN}": ("smddp", {"instance_type": P3DN}),
    f"smddp on one host on {P3DN}": ("smddp", {"hosts": ["algo-1"], "instance_type": P3DN}),
    f"horovod on {P3DN}": ("horovod", {"instance_type": P3DN}),
}
"""What the pages say in words of other hosts: what it is, overlay, what is different."""


def job(name: str, instance_type: str = P4D, **changes: Any) -> dict[str, Any]:
    """Return the overlay laid over dev, with as many p4d.24xlarge as the page shows.

    Of the script's own hyperparameters it has epochs only.
    """
    environment = load_environment("dev", ROOT, name)
    training, (_, most) = environment.training, tables.hosts(environment.training.strategy)
    count = max(training.instance_count, 2 if most is None else 1)
    training = training.model_copy(update={"instance_type": instance_type, "instance_count": count})
    own: dict[str, HyperparameterValue] = {
        key: training.hyperparameters[key]
        for key in ("backend", "epochs")
        if key in training.hyperparameters
    }
    sent = resolve(training, environment.region).for_job(
        "s3://code/sourcedir.tar.gz", "job-1", own, "s3://artifacts"
    )
    names = [f"algo-{number + 1}" for number in range(count)]
    return {
        "hyperparameters": sent,
        "hosts": names,
        "host": names[min(1, count - 1)] if _has_tf_config(name) else names[0],
        "instance_type": instance_type,
        **changes,
    }


def _has_tf_config(name: str) -> bool:
    return blocks(name, "json") != []


def blocks(name: str, language: str) -> list[str]:
    """Return the fenced blocks of a page in a language; the command line is in one of none."""
    text = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    return [
        block
        for kind, block in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
        if kind == language
    ]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, dict[str, Any]]:
    """Return what the toolkit starts for each overlay, from one process for each framework."""
    commands: dict[str, dict[str, Any]] = {}
    frameworks = {name: load_environment("dev", ROOT, name).training.framework for name in NAMES}
    for framework in ("pytorch", "tensorflow"):
        names = [name for name in NAMES if frameworks[name] == framework]
        more = MORE if framework == "pytorch" else {}
        jobs = [job(name) for name in names]
        jobs += [job(name, **changes) for name, changes in more.values()]
        python = build(runtimes()[framework], None, print)
        folder = tmp_path_factory.mktemp(framework)
        (folder / "ml").mkdir()
        variables = {
            "PATH": f"{python.parent}:{os.defpath}",
            "SAGEMAKER_BASE_DIR": str(folder / "ml"),
            "FOUND": str(folder / "found.json"),
        }
        command, text = [python, PROGRAM, framework], json.dumps(jobs)
        subprocess.run(
            command, input=text, env=variables, text=True, capture_output=True, check=True
        )
        built = json.loads((folder / "found.json").read_text(encoding="utf-8"))
        commands |= zip([*names, *more], built, strict=True)
    return commands


def shown(command: list[str]) -> str:
    """Return the command as the pages print it, with paths and SageMaker's variables shortened."""
    text = re.sub(r"\S+/bin/python\S*", "python", " ".join(command))
    text = re.sub(r"LD_PRELOAD=\S+", "LD_PRELOAD=<gethostname.so>", text)
    return re.sub(r"-x SM_HOSTS .* -x PYTHONPATH", "-x SM_HOSTS ... -x PYTHONPATH", text)


@pytest.mark.parametrize("name", NAMES)
def test_a_page_prints_the_command_line_that_the_toolkit_builds(
    built: Mapping[str, dict[str, Any]], name: str
) -> None:
    (printed,) = blocks(name, "")
    assert " ".join(printed.split()) == shown(built[name]["command"])


@pytest.mark.parametrize("name", NAMES)
def test_a_pages_line_of_configuration_starts_what_its_overlay_starts(name: str) -> None:
    (block,) = blocks(name, "yaml")
    page, overlay = yaml.safe_load(block)["training"], load_environment("dev", ROOT, name).training
    fewest, _ = tables.hosts(Training(**page).strategy)
    shown = Training(**{"instance_count": fewest, **page})
    labels = [resolve(each, "us-east-1").case.contract.label for each in (shown, overlay)]
    assert (shown.framework, labels[0]) == (overlay.framework, labels[1])


SECOND = "--nnodes 2 --nproc_per_node 8 --master_addr algo-1 --master_port 7777 --node_rank 1"
OTHER_HOSTS = [
    ("the second host of torchrun", f"{SECOND} train.py"),
    ("torchrun on one host", "torchrun --nnodes 1 --nproc_per_node 8 train.py"),
    ("smddp on one host", "mpirun --host algo-1 -np 8 --allow-run-as-root"),
    ("smddp on one host", "-x SMDATAPARALLEL_USE_SINGLENODE=1"),
]


@pytest.mark.parametrize(("case", "part"), OTHER_HOSTS)
def test_other_hosts_start_what_the_pages_say_of_them(
    built: Mapping[str, dict[str, Any]], case: str, part: str
) -> None:
    assert part in shown(built[case]["command"])


@pytest.mark.parametrize("name", [name for name in NAMES if _has_tf_config(name)])
def test_a_page_prints_the_cluster_that_the_toolkit_describes(
    built: Mapping[str, dict[str, Any]], name: str
) -> None:
    (printed,) = blocks(name, "json")
    assert json.loads(printed) == json.loads(built[name]["tf_config"])


def test_the_other_strategies_get_no_cluster(built: Mapping[str, dict[str, Any]]) -> None:
    assert {name for name in NAMES if built[name]["tf_config"]} == {
        name for name in NAMES if _has_tf_config(name)
    }


def test_the_parameters_that_both_mpi_runners_pass_are_those_of_the_table_of_traps(
    built: Mapping[str, dict[str, Any]],
) -> None:
    own = tables.mpirun()["parameters"]
    both = [passed(built[name]["command"], "parameters") for name in ("smddp", "horovod")]
    assert set(both[0]) & set(both[1]) == set(own)
    assert [
        name for name, value in own.items() if value and {each[name] for each in both} != {value}
    ] == []


@pytest.mark.parametrize(
    ("runner", "cases"), [("smddp", ("smddp", "smddp on one host")), ("horovod", ("horovod",))]
)
@pytest.mark.parametrize("kind", [P4D, P3DN])
def test_the_variables_that_a_runner_passes_are_those_of_the_table_of_traps(
    built: Mapping[str, dict[str, Any]], runner: str, cases: tuple[str, ...], kind: str
) -> None:
    suffix = "" if kind == P4D else f" on {kind}"
    names = {
        name for case in cases for name in passed(built[case + suffix]["command"], "variables")
    }
    table = tables.passed_by_toolkit(runner, kind)
    unlisted = [name for name in names if not any(fnmatchcase(name, each) for each in table)]
    unused = [each for each in table if not any(fnmatchcase(name, each) for name in names)]
    assert (unlisted, unused) == ([], [])


def passed(command: list[str], kind: str) -> dict[str, str]:
    """Return the variables (-x) or MCA parameters of a command line."""
    if kind == "variables":
        words = [following for word, following in pairwise(command) if word == "-x"]
        return {word.partition("=")[0]: word.partition("=")[2] for word in words}
    places = [index for index, word in enumerate(command) if word == "-mca"]
    return {command[index + 1]: command[index + 2] for index in places}
