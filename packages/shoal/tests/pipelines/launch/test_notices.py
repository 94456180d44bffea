"""What the user is told although the training can run, and images that AWS no longer patches."""

from __future__ import annotations

import datetime
import re
from typing import Any

import pytest

from shoal.launch.notices import patch_warnings
from shoal.launch.resolve import choose
from shoal.launch.source_code import SourceCode
from shoal.settings.settings import Training
from tests.pipelines.launch.shipped import launch
from tests.repository import CHECKOUT
from tests.tables import table

ROWS = [
    (code, row["keys"], row["notices"])
    for code, rows in table(__file__, "notices.yaml").items()
    for row in rows
]
LAST_DAY = datetime.date(2025, 4, 24)  # of PyTorch 2.3
LATER = datetime.date(2026, 11, 20)
DAY = datetime.timedelta(days=1)
TORCHRUN = {"strategy": "torchrun", "framework_version": "2.3.0"}
REGISTRY = "763104351884.dkr.ecr.us-east-1.amazonaws.com"
SINCE_2_6 = "patched: 2.6.0, 2.7.1, 2.8.0, 2.9.0, 2.10.0, 2.11.0, 2.12.1, 2.13.0, 2.14.0"


@pytest.mark.parametrize(
    ("code", "keys", "notices"), ROWS, ids=[str(keys)[1:60] for _, keys, _ in ROWS]
)
def test_notices(code: str, keys: dict[str, Any], notices: list[str]) -> None:
    assert list(launch(code, **keys).notices) == notices


def warnings_of(keys: dict[str, Any], today: datetime.date) -> list[str]:
    case, _ = choose(Training(**keys), "us-east-1", SourceCode())
    return list(patch_warnings(case, today))


@pytest.mark.parametrize(
    ("keys", "today", "end"),
    [
        ({}, LAST_DAY + DAY, "; patched and with smddp: 2.4.0, 2.5.1"),
        ({}, LATER, "; no image that contains smddp is patched any more"),
        (TORCHRUN, datetime.date(2025, 12, 1), SINCE_2_6),
        (
            {"instance_type": "ml.p5.48xlarge", "fallback": "torchrun"},
            datetime.date(2025, 12, 1),
            SINCE_2_6,
        ),
    ],
)
def test_images_without_patches_are_a_warning_with_what_is_patched(
    keys: dict[str, Any], today: datetime.date, end: str
) -> None:
    (line,) = warnings_of(keys, today)
    assert line.startswith(
        "training.framework_version: AWS's images of PyTorch 2.3.0 have had no patches since"
        " 2025-04-24; "
    )
    assert line.endswith(end)


@pytest.mark.parametrize(
    ("framework", "version", "last"),
    [
        ("pytorch", "2.3.0", LAST_DAY),
        ("tensorflow", "2.9.2", datetime.date(2023, 5, 17)),
        ("tensorflow", "2.11.0", datetime.date(2023, 11, 18)),
        ("tensorflow", "2.12.0", datetime.date(2024, 3, 23)),
        ("pytorch", "1.13.1", datetime.date(2024, 10, 28)),
    ],
)
def test_images_are_patched_on_their_last_day(
    framework: str, version: str, last: datetime.date
) -> None:
    keys = {"framework": framework, "framework_version": version}
    assert warnings_of(keys, last) == []
    assert len(warnings_of(keys, last + DAY)) == 1


def test_an_endpoints_image_that_nobody_patches_is_told() -> None:
    keys = {"strategy": "torchrun", "framework_version": "2.14.0"}
    assert warnings_of(keys, datetime.date(2026, 6, 30)) == []
    assert warnings_of(keys, datetime.date(2026, 7, 1)) == [
        "the endpoint's image pytorch-inference:2.6.0 has had no patches since 2026-06-30;"
        " `build_image: pytorch-serving` below `endpoint:` gives a newer one"
    ]


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
    keys = {"image_uri": f"{REGISTRY}/{image}", "framework_version": version}
    (line,) = warnings_of(keys, LATER)
    assert line.startswith("training.image_uri: ")
    assert text in line


def test_nothing_is_said_of_images_that_are_not_aws() -> None:
    assert warnings_of({"image_uri": "mine/image:1"}, LATER) == []


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
