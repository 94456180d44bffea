"""The recipes are built from the compatibility tables, for every region, with files that exist."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from local_kit.tables import table
from shoal import images as recipes
from shoal.launch import tables
from shoal.launch.recipes import folder

ROOT = Path(__file__).resolve().parents[4]
FOLDER = ROOT / "images"
HADOLINT = Path(sys.executable).with_name("hadolint")
EXTENDED = {"pytorch-smddp": "pytorch", "tensorflow-smddp": "tensorflow"}


CHECKLIST: dict[str, str] = table(__file__, "guide.yaml")


def text_of(name: str) -> str:
    return recipes.dockerfile_of(name, ROOT).read_text(encoding="utf-8")


def test_hadolint_finds_nothing_in_the_recipes() -> None:
    """It knows of pinned packages, moving tags, and secrets."""
    command = [str(HADOLINT), "--no-color", "--config", str(FOLDER / "hadolint.yaml")]
    files = (recipes.dockerfile_of(name, ROOT) for name in recipes.names())
    process = subprocess.run(
        [*command, *files], capture_output=True, text=True, timeout=60, check=False
    )
    assert (process.returncode, process.stdout) == (0, "")


@pytest.mark.parametrize("what", CHECKLIST)
def test_a_container_on_another_base_has_what_the_guide_lists(what: str) -> None:
    text = re.sub(r"\\\n\s*", "", text_of("own-container"))  # continued lines in one
    assert re.search(CHECKLIST[what], text, re.MULTILINE)


@pytest.mark.parametrize("name", recipes.names(serves=False))
def test_nothing_replaces_what_sagemaker_starts_as_root(name: str) -> None:
    """A default target that fills the code folder would make the toolkit ignore a job's archive."""
    assert re.findall(r"^(?:ENTRYPOINT|CMD|USER)\b.*", text_of(name), re.MULTILINE) == []
    stages = re.split(r"^(?=FROM )", text_of(name), flags=re.MULTILINE)
    others = [stage for stage in stages if not stage.partition("\n")[0].endswith(" AS with-code")]
    fills_code = re.compile(r"^(?!#).*(?:/opt/ml/code|SAGEMAKER_PROGRAM)", re.MULTILINE)
    assert [stage for stage in others if fills_code.search(stage)] == []


def test_a_serving_image_starts_its_program_and_installs_by_hash() -> None:
    text = text_of("pytorch-serving")
    assert re.findall(r"^ENTRYPOINT (.*)", text, re.MULTILINE) == [
        '["python", "/opt/serving/serve.py"]'
    ]
    assert "--require-hashes" in text


def test_every_folder_is_a_recipe_and_every_recipe_has_a_folder() -> None:
    folders = {path.parent for path in (ROOT / "images").glob("*/Dockerfile")}
    assert {folder(name, ROOT) for name in recipes.names()} == folders


# a variant for GPUs is its folder's recipe with another base
@pytest.mark.parametrize("name", [name for name in recipes.names() if (FOLDER / name).is_dir()])
def test_the_defaults_in_a_dockerfile_are_the_tables(name: str) -> None:
    text = recipes.dockerfile_of(name, ROOT).read_text(encoding="utf-8")
    defaults = dict(re.findall(r"^ARG (\w+)=(.+)$", text, re.MULTILINE))
    defaults.pop("DEBIAN_FRONTEND", None)
    assert defaults == recipes.build_arguments(name, "us-east-1")


@pytest.mark.parametrize(("name", "framework"), EXTENDED.items())
def test_an_extended_image_is_one_that_contains_smddp(name: str, framework: str) -> None:
    tag = recipes.build_arguments(name, "us-east-1")["TAG"]
    with_smddp = {
        tables.image_tags(framework)[version].training_gpu
        for version in tables.smddp_releases(framework)
    }
    assert tag in with_smddp


def test_the_last_tensorflow_image_with_smddp_is_the_one_extended() -> None:
    newest = max(tables.smddp_releases("tensorflow"), key=tables.ordered)
    assert (
        recipes.build_arguments("tensorflow-smddp", "us-east-1")["TAG"]
        == tables.image_tags("tensorflow")[newest].training_gpu
    )


def test_the_account_follows_the_region() -> None:
    assert recipes.build_arguments("pytorch-smddp", "eu-south-1")["ACCOUNT"] == "692866216735"


def test_the_wheel_of_smddp_fits_pytorch_python_and_cuda() -> None:
    arguments = recipes.build_arguments("own-container", "us-east-1")
    python, cuda = (
        "".join(arguments["PYTHON_VERSION"].split(".")[:2]),
        "".join(arguments["CUDA_TAG"].split(".")[:2]),
    )
    version = tables.smddp_releases("pytorch")[arguments["PYTORCH_VERSION"]].smddp_version
    assert re.search(
        rf"/{arguments['PYTORCH_VERSION']}/cu{cuda}/\d+-\d+-\d+/smdistributed_dataparallel-{version}-cp{python}-",
        arguments["SMDDP_WHEEL"],
    )


@pytest.mark.parametrize(("name", "framework"), EXTENDED.items())
def test_the_script_that_an_image_with_code_starts_is_there(name: str, framework: str) -> None:
    (program,) = re.findall(r"^ENV SAGEMAKER_PROGRAM=(\S+)$", text_of(name), re.MULTILINE)
    assert (ROOT / "training_code" / "mnist" / framework / program).is_file()


@pytest.mark.parametrize("name", recipes.names())
def test_every_file_that_a_recipe_copies_is_in_its_folder(name: str) -> None:
    sources = re.findall(r"^COPY (?!--from=)(\S+)", text_of(name), re.MULTILINE)
    assert sources
    assert [path for path in sources if not (folder(name, ROOT) / path).is_file()] == []


@pytest.mark.parametrize("name", EXTENDED)
def test_additional_packages_are_pinned(name: str) -> None:
    lines = (FOLDER / name / "requirements.txt").read_text(encoding="utf-8").splitlines()
    assert [
        line
        for line in lines
        if line and not line.startswith("#") and not re.fullmatch(r"[\w.-]+==[\w.]+", line)
    ] == []


def test_what_is_compiled_is_fetched_by_its_commit() -> None:
    text = (FOLDER / "own-container" / "Dockerfile").read_text(encoding="utf-8")
    commits = re.findall(r"^ARG \w+_COMMIT=(.*)$", text, re.MULTILINE)
    assert len(commits) == text.count("git fetch") + text.count("gdrcopy fetch") == 2
    assert [each for each in commits if not re.fullmatch("[0-9a-f]{40}", each)] == []
    assert "git clone" not in text


def test_ssh_between_the_hosts_asks_nobody() -> None:
    settings = (FOLDER / "own-container" / "ssh_config").read_text(encoding="utf-8")
    assert re.search(r"Host algo-\*\n\s+StrictHostKeyChecking no\n", settings)


def test_the_command_builds_for_the_machines_that_sagemaker_has() -> None:
    command = shlex.split(recipes.build_command("pytorch-smddp", "us-east-1", "mine:1", root=ROOT))
    assert command[:4] == ["docker", "build", "--platform", "linux/amd64"]
    assert command[-3:] == ["--tag", "mine:1", "images/pytorch-smddp"]
    assert "--build-context" not in command


def test_the_scripts_of_a_workload_are_there_for_an_image_with_code() -> None:
    command = shlex.split(
        recipes.build_command("pytorch-smddp", "us-east-1", "mine:1", "churn", ROOT)
    )
    contexts = [word for word in command if "=training_code/" in word]
    assert contexts == ["code=training_code/churn/pytorch", "common=training_code/common"]


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        ([], 0, "own-container\npytorch-serving\n"),
        (["pytorch-serving-gpu"], 0, "cu133-amzn2023-sagemaker --tag shoal-pytorch-serving-gpu:1"),
        (["own-container"], 0, "docker build"),
        (["nothing"], 2, "there is no recipe 'nothing'"),
        (["pytorch-smddp", "mars-1"], 2, "AWS has no registry in 'mars-1'"),
    ],
)
def test_the_command_line(arguments: list[str], code: int, text: str) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "shoal.images", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, text in result.stdout + result.stderr) == (code, True)
