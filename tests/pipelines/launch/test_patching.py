"""Images that AWS patches no more are a warning on the day it is asked, and templates do not depend on that day."""

from __future__ import annotations

import datetime
import re

from config.settings import Framework, Strategy, Training
from pipelines.launch.patching import warnings_of
from tests.pipelines.inputs import ROOT

LAST_DAY = datetime.date(2025, 4, 24)  # of PyTorch 2.3
LATER = datetime.date(2026, 11, 20)


def test_on_the_last_day_the_images_are_still_patched() -> None:
    assert list(warnings_of(Training(), LAST_DAY)) == []


def test_the_day_after_is_a_warning_that_names_what_is_patched_and_has_smddp() -> None:
    (line,) = warnings_of(Training(), LAST_DAY + datetime.timedelta(days=1))
    assert line.startswith("training.framework_version: AWS's images of PyTorch 2.3.0 have had no patches since 2025-04-24; ")
    assert line.endswith("; patched and with smddp: 2.4.0, 2.5.1")


def test_where_nothing_with_smddp_is_patched_the_warning_says_so() -> None:
    (line,) = warnings_of(Training(), LATER)
    assert line.endswith("no image that contains smddp is patched any more")


def test_other_strategies_are_shown_every_patched_version() -> None:
    (line,) = warnings_of(Training(strategy=Strategy.TORCHRUN), datetime.date(2025, 12, 1))
    assert line.endswith("patched: 2.6.0")


def test_a_date_that_nobody_here_knows_is_said_to_be_unknown() -> None:
    (line,) = warnings_of(Training(framework=Framework.TENSORFLOW), LAST_DAY)
    assert "until when AWS's images of TensorFlow 2.11.0 get patches is not known here" in line


def test_nothing_is_said_of_images_that_are_not_aws() -> None:
    assert list(warnings_of(Training(image_uri="mine/image:1"), LATER)) == []


def test_nothing_that_makes_a_template_reads_the_clock() -> None:
    clock = re.compile(r"\.(today|now|utcnow)\(|\btime\.(time|monotonic)\(")
    sources = [path for package in ("config", "pipelines", "stacks") for path in (ROOT / package).rglob("*.py")]
    assert [path.name for path in sources if clock.search(path.read_text(encoding="utf-8"))] == []
