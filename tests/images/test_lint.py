"""The recipes keep the rules, and each rule notices when they do not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from images import recipes
from images.dockerfile import DockerfileError, parse
from images.lint import CHECKLIST, CODE, mistakes_in

HADOLINT = Path(sys.executable).with_name("hadolint")
AWS = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.3.0-gpu-py311-cu121-ubuntu20.04-sagemaker"  # noqa: E501


def text_of(name: str) -> str:
    return recipes.dockerfile_of(name).read_text(encoding="utf-8")


def mistakes(*lines: str, base: str = AWS) -> list[str]:
    """Of a small Dockerfile on `base`."""
    return mistakes_in(parse("\n".join((f"FROM {base}", *lines))))


@pytest.mark.parametrize("name", recipes.names())
def test_every_recipe_keeps_the_rules(name: str) -> None:
    assert mistakes_in(parse(text_of(name))) == []


def test_an_image_of_aws_for_ec2_is_a_mistake() -> None:
    base = AWS.removesuffix("-sagemaker").replace("-ubuntu20.04", "-ubuntu20.04-ec2")
    assert any(f"1: {base} is not an image for SageMaker" in line for line in mistakes(base=base))


def hadolint(*options: str | Path, text: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run the linter of the test requirements with the recipes' settings."""
    return subprocess.run(
        [HADOLINT, "--no-color", "--config", recipes.HERE / "hadolint.yaml", *options],
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_hadolint_finds_nothing_in_the_recipes() -> None:
    process = hadolint(*map(recipes.dockerfile_of, recipes.names()))
    assert (process.returncode, process.stdout) == (0, "")


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("RUN apt-get update && apt-get install -y --no-install-recommends jq", "DL3009"),
        ("RUN apt-get update && apt-get install -y jq && rm -rf /var/lib/apt/lists/*", "DL3015"),
        ("RUN pip install --no-cache-dir numpy", "DL3013"),
        ("RUN pip install numpy==1.26.4", "DL3042"),
        ("ENV AWS_SECRET_ACCESS_KEY=abc", "DL3064"),
        ("FROM ubuntu:latest", "DL3007"),
    ],
)
def test_hadolint_finds_what_no_recipe_may_have(line: str, rule: str) -> None:
    process = hadolint("-", text=f"FROM {AWS}\n{line}\n")
    assert (process.returncode, rule in process.stdout) == (1, True)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("RUN git clone https://example.com/a.git", "git clone without a tag"),
        ("RUN git clone --branch main https://example.com/a.git", "downloads something that moves"),
        ("RUN curl -O https://example.com/tool-latest.sh", "downloads something that moves"),
        ("RUN echo ${TAG}", "${TAG} is not known in this stage"),
        ('ENTRYPOINT ["python", "train.py"]', "ENTRYPOINT replaces what SageMaker starts"),
        ("USER nobody", "needs root"),
        (f"COPY train.py {CODE}/train.py", "every job's code archive would be ignored"),
        (f"COPY train.py {CODE}/train.py", "without SAGEMAKER_SUBMIT_DIRECTORY"),
        (f"RUN cp -r /src {CODE}", "without SAGEMAKER_PROGRAM"),
        ("ENV SAGEMAKER_PROGRAM=train.py", "wins over every job's entry point"),
    ],
)
def test_a_broken_rule_is_reported_with_its_line(line: str, message: str) -> None:
    assert any(
        mistake.startswith(("1: ", "2: ")) and message in mistake for mistake in mistakes(line)
    )


def test_the_dockerfile_of_the_seed_falls_into_the_code_directory_trap_when_a_job_submits_code() -> (  # noqa: E501
    None
):
    problems = mistakes(
        'ENV PATH="/opt/ml/code:${PATH}"',
        f"ENV SAGEMAKER_SUBMIT_DIRECTORY {CODE}",
        f"COPY cifar10.py {CODE}/cifar10.py",
        "ENV SAGEMAKER_PROGRAM cifar10.py",
    )
    assert problems == [
        f"4: the default target fills {CODE}: every job's code archive would be ignored; do it in a"
        " stage of its own"
    ]


@pytest.mark.parametrize(
    "lines",
    [
        [f"WORKDIR {CODE}", "COPY train.py ."],
        ["WORKDIR /opt/ml", "COPY train.py code/"],
        [f'COPY ["train.py", "{CODE}/"]'],
        [f"RUN curl -fsS https://example.com/train-1.0.py -o {CODE}/train.py"],
        [f"RUN ln -s /src/train.py {CODE}/train.py"],
        [f"WORKDIR {CODE}", "RUN git clone --branch v1.0 https://example.com/code.git ."],
    ],
)
def test_the_code_directory_trap_is_seen_in_all_its_forms(lines: list[str]) -> None:
    assert any(
        "every job's code archive would be ignored" in mistake for mistake in mistakes(*lines)
    )


@pytest.mark.parametrize(
    "line",
    [
        f"WORKDIR {CODE}",
        "COPY train.py /opt/ml/codes/train.py",
        "RUN cp /a /opt/ml/model",
        "WORKDIR /opt/ml",
    ],
)
def test_an_empty_code_directory_is_no_trap(line: str) -> None:
    assert not any("archive would be ignored" in mistake for mistake in mistakes(line))


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("--skip-kmod ", "lacks the EFA installer without the kernel module"),
        ("openssh-server ", "lacks the ssh server"),
        ("sagemaker-pytorch-training==3.0.0", "lacks PyTorch's part of the toolkit"),
        ("SMDATAPARALLEL_PT=1 ", "lacks smddp's wheel for PyTorch"),
        ("MPICC=/opt/amazon/openmpi/bin/mpicc ", "lacks mpi4py, compiled against the Open MPI"),
        (
            "ENV SAGEMAKER_TRAINING_MODULE=sagemaker_pytorch_container.training:main",
            "must set SAGEMAKER_TRAINING_MODULE",
        ),
        ("/opt/amazon/openmpi/bin:", "must set PATH with /opt/amazon/openmpi/bin"),
        ("COPY ssh_config /root/.ssh/config", "lacks the ssh client's settings"),
    ],
)
def test_a_container_on_another_base_without_a_part_of_the_checklist_is_refused(
    part: str, message: str
) -> None:
    whole = text_of("own-container")
    assert part in whole
    assert any(message in mistake for mistake in mistakes_in(parse(whole.replace(part, ""))))


def test_a_plain_image_lacks_everything_on_the_checklist() -> None:
    problems = mistakes(base="nvidia/cuda:12.1.0-base-ubuntu20.04")
    assert [what for what in CHECKLIST if not any(what in mistake for mistake in problems)] == []


@pytest.mark.parametrize(
    "text", ["", "RUN true", "FROM a:1\nRUN true \\", "FROM a:1\nRUN <<E\nE", "FROM a:1 AS"]
)
def test_what_is_not_a_dockerfile_is_refused(text: str) -> None:
    with pytest.raises(DockerfileError):
        parse(text)
