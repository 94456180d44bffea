"""An environment file with any content is used, or is one error with a line for each mistake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from local_kit.values import json_safe, spoilt
from shoal.pipelines.checks.check import check
from shoal.settings.loading.loader import environment_names, load
from shoal.settings.parsing.errors import ConfigError
from tests.repository import ROOT

GOOD = {
    name: yaml.safe_load((ROOT / "environments" / f"{name}.yaml").read_text())
    for name in environment_names(ROOT)
}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("environments") / "dev.yaml"


def read(file: Path) -> str:
    """Return how the text is refused; nothing when it is not."""
    try:
        check(load(file, "environments/dev.yaml"), root=ROOT)
    except ConfigError as error:
        return str(error)
    return ""


def require_lines(refused: str) -> None:
    """Assert that each line names the file and a mistake."""
    assert all(
        line.startswith("environments/dev.yaml") and ": " in line for line in refused.splitlines()
    ), refused


@given(document=st.sampled_from(sorted(GOOD)).flatmap(lambda name: spoilt(GOOD[name])))
def test_a_spoilt_environment_is_refused_line_by_line_or_used(file: Path, document: Any) -> None:
    file.write_text(yaml.safe_dump(json_safe(document), allow_unicode=True), encoding="utf-8")
    require_lines(read(file))


@given(
    content=st.one_of(
        st.binary(max_size=200),
        st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace")),
    )
)
def test_what_is_no_environment_at_all_is_refused(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    refused = read(file)
    assert refused
    require_lines(refused)


@given(
    cut=st.integers(0, 4000),
    inserted=st.sampled_from(
        [
            b"",
            b"\t",
            b"*a",
            b"&a",
            b"!!python/object:os.system",
            b"{",
            b"\xff",
            b"\x00",
            b"<<: *x",
            b": :",
        ]
    ),
)
def test_a_file_that_was_cut_or_scribbled_on_is_refused_or_used(
    file: Path, cut: int, inserted: bytes
) -> None:
    text = (ROOT / "environments" / "dev.yaml").read_bytes()
    file.write_bytes(text[: cut % len(text)] + inserted)
    require_lines(read(file))
