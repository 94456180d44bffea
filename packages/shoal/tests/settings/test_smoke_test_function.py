"""A workload's own function is read before it runs anywhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from shoal.settings.sections.smoke_test import MAX_FUNCTION_BYTES, problems_of_function

CHECK = "def check(ask):\n    return []\n"


def lines(folder: Path, text: str | bytes) -> list[str]:
    file = folder / "smoke.py"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return [each.line("workload.yaml") for each in problems_of_function(file, "smoke.py")]


@pytest.mark.parametrize(
    "text",
    [
        CHECK,
        f"from __future__ import annotations\nimport json, math\nimport boto3\n{CHECK}",
        "import urllib.request\n\ndef check(send, /) -> list[str]:\n    return []\n",
    ],
)
def test_standard_library_and_boto3_are_enough(tmp_path: Path, text: str) -> None:
    assert lines(tmp_path, text) == []


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("def check(ask:\n", "is not Python: "),
        (b"\x00", "Python: source code string cannot contain null bytes"),
        (b"# \xff\n", "cannot be read as Python: 'utf-8' codec"),
        (f"x = {'(' * 500}", "is not Python"),
        ("", "has no function check; write `def check(ask):`, which returns a list"),
        ("async def check(ask):\n    return []\n", "has no function check"),
        ("def check():\n    return []\n", "does not take one argument"),
        ("def check(ask, more):\n    return []\n", "does not take one argument"),
        (f"import numpy as np\n{CHECK}", "imports numpy, which is not there; use Python's"),
        (f"from .helper import x\n{CHECK}", "imports from its folder, which is not there"),
        (f"import smoke_test\n{CHECK}", "imports smoke_test, which is not there"),
        (f"{CHECK}#{'x' * MAX_FUNCTION_BYTES}", "are packed; shorten it"),
    ],
)
def test_what_could_not_run_is_one_line(tmp_path: Path, text: str | bytes, mistake: str) -> None:
    (line,) = lines(tmp_path, text)
    assert line.startswith('workload.yaml: smoke_test.function = "smoke.py": ')
    assert mistake in line


def test_the_file_must_be_there(tmp_path: Path) -> None:
    (problem,) = problems_of_function(tmp_path / "smoke.py", "smoke.py")
    assert problem.message == "there is no such file"
