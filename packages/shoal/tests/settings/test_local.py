"""The section `local`: which runtime stands for an image of the user's own."""

from __future__ import annotations

from pathlib import Path

from shoal.settings.loading.loader import load
from shoal.settings.settings import Framework
from tests.settings.environment_file import lines_with, write

OWN = "111122223333.dkr.ecr.us-east-1.amazonaws.com/mine:*"


def test_an_image_of_ones_own_is_declared_with_a_framework(tmp_path: Path) -> None:
    text = (
        f'name: test\nworkload: mnist\naccount: "111122223333"\nlocal: {{images: {{"{OWN}":'
        " tensorflow}}\n"
    )
    assert load(write(tmp_path, text)).local.images == {OWN: Framework.TENSORFLOW}


def test_another_framework_is_refused_with_those_there_are(tmp_path: Path) -> None:
    (line,) = lines_with(tmp_path, {"local": {"images": {OWN: "jax"}}})
    assert "pytorch" in line
    assert "tensorflow" in line
