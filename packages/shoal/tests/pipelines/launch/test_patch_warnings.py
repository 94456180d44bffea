"""Images that AWS no longer patches are a warning; templates do not depend on the day."""

from __future__ import annotations

import datetime
import re

import pytest

from shoal.launch.advice import choose
from shoal.launch.notices import patch_warnings
from shoal.launch.source_code import SourceCode
from shoal.settings.settings import Framework, Strategy, Training
from tests.repository import ROOT

LAST_DAY = datetime.date(2025, 4, 24)  # of PyTorch 2.3
LATER = datetime.date(2026, 11, 20)


def warnings_of(training: Training, today: datetime.date) -> list[str]:
    case, _ = choose(training, "us-east-1", SourceCode())
    return list(patch_warnings(case, today))


def test_on_the_last_day_the_images_are_still_patched() -> None:
    assert warnings_of(Training(), LAST_DAY) == []


def test_the_day_after_is_a_warning_that_names_what_is_patched_and_has_smddp() -> None:
    (line,) = warnings_of(Training(), LAST_DAY + datetime.timedelta(days=1))
    assert line.startswith(
        "training.framework_version: AWS's images of PyTorch 2.3.0 have had no patches since"
        " 2025-04-24; "
    )
    assert line.endswith("; patched and with smddp: 2.4.0, 2.5.1")


def test_where_nothing_with_smddp_is_patched_the_warning_says_so() -> None:
    (line,) = warnings_of(Training(), LATER)
    assert line.endswith("no image that contains smddp is patched any more")


SINCE_2_6 = "patched: 2.6.0, 2.7.1, 2.8.0, 2.9.0, 2.10.0, 2.11.0, 2.12.1, 2.13.0, 2.14.0"


def test_other_strategies_are_shown_every_patched_version() -> None:
    training = Training(strategy=Strategy.TORCHRUN, framework_version="2.3.0")
    (line,) = warnings_of(training, datetime.date(2025, 12, 1))
    assert line.endswith(SINCE_2_6)


@pytest.mark.parametrize(("day", "lines"), [(30, 0), (31, 1)])
def test_an_endpoints_image_that_nobody_patches_is_told_with_what_to_serve_with_instead(
    day: int, lines: int
) -> None:
    training = Training(strategy=Strategy.TORCHRUN, framework_version="2.14.0")
    today = datetime.date(2026, 5, 31) + datetime.timedelta(days=day)
    warnings = warnings_of(training, today)
    assert len(warnings) == lines
    assert all(
        "pytorch-inference:2.6.0 has had no patches since 2026-06-30, and AWS has no later" in each
        and each.endswith("see docs/decisions/images.md")
        for each in warnings
    )


def test_after_a_swap_the_warning_speaks_of_what_runs() -> None:
    swapped = Training(instance_type="ml.p5.48xlarge", fallback=Strategy.TORCHRUN)
    (line,) = warnings_of(swapped, datetime.date(2025, 12, 1))
    assert line.endswith(SINCE_2_6)


@pytest.mark.parametrize(
    ("framework", "version", "last"),
    [
        (Framework.TENSORFLOW, "2.9.2", datetime.date(2023, 5, 17)),
        (Framework.TENSORFLOW, "2.11.0", datetime.date(2023, 11, 18)),
        (Framework.TENSORFLOW, "2.12.0", datetime.date(2024, 3, 23)),
        (Framework.PYTORCH, "1.13.1", datetime.date(2024, 10, 28)),
    ],
)
def test_images_of_long_ago_have_their_day_too(
    framework: Framework, version: str, last: datetime.date
) -> None:
    training = Training(framework=framework, framework_version=version)
    assert [
        warnings_of(training, last),
        len(warnings_of(training, last + datetime.timedelta(days=1))),
    ] == [[], 1]


@pytest.mark.parametrize(
    ("image", "version", "text"),
    [
        (
            "pytorch-training:2.3.0-gpu-py311-cu121-ubuntu20.04-sagemaker-v1.2",
            "2.3.0",
            "have had no patches since 2025-04-24",
        ),
        (
            "huggingface-pytorch-training:2.3.0-transformers4.48.0-gpu-py311-cu121-ubuntu20.04",
            "2.3.0",
            "no patches since 2025-04-24",
        ),
        (
            "pytorch:2.15.0-cu133-amzn2023-sagemaker",
            "2.15.0",
            "until when AWS's images of PyTorch 2.15.0 get patches is not known here",
        ),
    ],
)
def test_aws_images_that_the_environment_names_are_warned_of_too(
    image: str, version: str, text: str
) -> None:
    uri = f"763104351884.dkr.ecr.us-east-1.amazonaws.com/{image}"
    (line,) = warnings_of(Training(image_uri=uri, framework_version=version), LATER)
    assert line.startswith("training.image_uri: ")
    assert text in line


def test_nothing_is_said_of_images_that_are_not_aws() -> None:
    assert warnings_of(Training(image_uri="mine/image:1"), LATER) == []


def test_nothing_that_makes_a_template_reads_the_clock() -> None:
    clock = re.compile(r"\.(today|now|utcnow)\(|\btime\.(time|monotonic)\(")
    sources = [
        path
        for package in ("config", "pipelines", "stacks")
        for path in (ROOT / package).rglob("*.py")
        if "functions" not in path.parts
    ]
    assert [path.name for path in sources if clock.search(path.read_text(encoding="utf-8"))] == []
