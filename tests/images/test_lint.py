"""The recipes keep the rules, and each rule notices when they do not."""

from __future__ import annotations

import pytest

from images import recipes
from images.dockerfile import DockerfileError, parse
from images.lint import CHECKLIST, CODE, mistakes_in

AWS = "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.3.0-gpu-py311-cu121-ubuntu20.04-sagemaker"  # noqa: E501


def text_of(name: str) -> str:
    return recipes.dockerfile_of(name).read_text(encoding="utf-8")


def mistakes(*lines: str, base: str = AWS) -> list[str]:
    """Of a small Dockerfile on `base`."""
    return mistakes_in(parse("\n".join((f"FROM {base}", *lines))))


@pytest.mark.parametrize("name", recipes.names())
def test_every_recipe_keeps_the_rules(name: str) -> None:
    assert mistakes_in(parse(text_of(name))) == []


@pytest.mark.parametrize(
    "base",
    [
        "ubuntu",
        "ubuntu:latest",
        "nvidia/cuda:${CUDA_TAG}",
        "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.3.0-gpu-py311",
    ],
)
def test_a_base_that_may_move_is_a_mistake(base: str) -> None:
    assert any(f"1: {base} is not" in mistake for mistake in mistakes(base=base))


def test_a_digest_is_pinned() -> None:
    assert not any("pinned" in mistake for mistake in mistakes(base=f"ubuntu@sha256:{'0' * 64}"))


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        (
            "RUN apt-get install -y --no-install-recommends jq && rm -rf /var/lib/apt/lists/*",
            "without `apt-get update`",
        ),
        (
            "RUN apt-get update && apt-get install -y --no-install-recommends jq",
            "apt's lists stay in the layer",
        ),
        (
            "RUN apt-get update && apt-get install -y jq && rm -rf /var/lib/apt/lists/*",
            "without --no-install-recommends",
        ),
        ("RUN pip install --no-cache-dir numpy", "pip installs numpy in whatever version"),
        ("RUN pip install numpy==1.26.4", "pip install without --no-cache-dir"),
        ("RUN git clone https://example.com/a.git", "git clone without a tag"),
        ("RUN git clone --branch main https://example.com/a.git", "downloads something that moves"),
        ("RUN curl -O https://example.com/tool-latest.sh", "downloads something that moves"),
        ("RUN echo ${TAG}", "${TAG} is not known in this stage"),
        ("ENV AWS_SECRET_ACCESS_KEY=abc", "looks like a secret"),
        ('ENTRYPOINT ["python", "train.py"]', "ENTRYPOINT replaces what SageMaker starts"),
        ("USER nobody", "needs root"),
        ("ADD https://example.com/a-1.0.tar.gz /tmp/", "use COPY"),
        (f"COPY train.py {CODE}/train.py", "every job's code archive would be ignored"),
        (f"COPY train.py {CODE}/train.py", "without SAGEMAKER_SUBMIT_DIRECTORY"),
        (f"RUN cp -r /src {CODE}", "without SAGEMAKER_PROGRAM"),
        ("ENV SAGEMAKER_PROGRAM=train.py", "wins over every job's entry point"),
    ],
)
def test_a_broken_rule_is_reported_with_its_line(line: str, wanted: str) -> None:
    assert any(
        mistake.startswith(("1: ", "2: ")) and wanted in mistake for mistake in mistakes(line)
    )


def test_the_dockerfile_of_the_seed_falls_into_the_code_directory_trap_when_a_job_submits_code() -> (  # noqa: E501
    None
):
    found = mistakes(
        'ENV PATH="/opt/ml/code:${PATH}"',
        f"ENV SAGEMAKER_SUBMIT_DIRECTORY {CODE}",
        f"COPY cifar10.py {CODE}/cifar10.py",
        "ENV SAGEMAKER_PROGRAM cifar10.py",
    )
    assert found == [
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
    ("part", "wanted"),
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
def test_a_container_of_ones_own_without_a_part_of_the_checklist_is_refused(
    part: str, wanted: str
) -> None:
    whole = text_of("own-container")
    assert part in whole
    assert any(wanted in mistake for mistake in mistakes_in(parse(whole.replace(part, ""))))


def test_a_plain_image_lacks_everything_on_the_checklist() -> None:
    found = mistakes(base="nvidia/cuda:12.1.0-base-ubuntu20.04")
    assert [what for what in CHECKLIST if not any(what in mistake for mistake in found)] == []


@pytest.mark.parametrize(
    "text", ["", "RUN true", "FROM a:1\nRUN true \\", "FROM a:1\nRUN <<E\nE", "FROM a:1 AS"]
)
def test_what_is_not_a_dockerfile_is_refused(text: str) -> None:
    with pytest.raises(DockerfileError):
        parse(text)
