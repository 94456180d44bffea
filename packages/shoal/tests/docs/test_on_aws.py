"""What README, the checklist of the first run and the page about operating have a reader type on
AWS, typed in their order: `target: local` sends it to shoal-local.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs.pages import (
    TAKES_A_MINUTE,
    marked,
    page_of,
    scripts,
    text_of,
    typed,
    writable_checkout,
)

README = [each for each in scripts(text_of("README.md")) if "/shoal " in each]
FIRST_RUN = text_of("docs/first-aws-run.md")
CHECKLIST = re.findall(r"^\| [4-9] \| `(.+?)` \|", FIRST_RUN, re.M)
"""Lines 1 to 3 are README's own; shoal-local has no EFA."""
(BEFORE,) = re.findall(r"```yaml\n(.*?)```", FIRST_RUN, re.S)
OPERATE = scripts(marked(text_of("docs/operate.md"), TAKES_A_MINUTE))
SHELL = """\
export PATH="$PWD/.venv/bin:$PATH"
eval "$(shoal local up | grep '^ *export ')"
"""
pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1200)]


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Path]:
    """Return a checkout whose `dev` is on this machine, and has what the checklist has it changed
    to; its shoal-local is stopped at the end.
    """
    checkout = writable_checkout(tmp_path)
    edit(checkout, {"target": "local"}, yaml.safe_load(BEFORE)["training"])
    yield checkout
    typed(checkout, page_of([".venv/bin/shoal local down || true"]))


def edit(checkout: Path, keys: dict[str, Any], training: dict[str, Any]) -> None:
    file = checkout / "environments" / "dev.yaml"
    dev = yaml.safe_load(file.read_text()) | keys
    of_smddp = ("collective", "custom_mpi_options")
    kept = {key: value for key, value in dev["training"].items() if key not in of_smddp}
    file.write_text(yaml.safe_dump(dev | {"training": kept | training}))


def test_readme_and_the_checklist_lead_to_a_run_and_to_its_end(checkout: Path) -> None:
    *begin, end = [each.replace("make install\n", "") for each in README]
    printed = typed(checkout, page_of([SHELL, *begin, *CHECKLIST, end]), timeout_s=1100)
    assert printed.count(" succeeded") == 2
    assert printed.count(" files uploaded") == 2
    assert '"Endpoints": []' in printed
    assert "destroyed: " in printed


def test_a_protected_environment_is_taken_away_but_for_its_data(checkout: Path) -> None:
    edit(checkout, {"protect": True}, {})
    text = page_of([SHELL, *OPERATE, "aws s3 ls"]).replace("PROJECT-ENV", "mnist-dev")
    printed = typed(checkout, text, 1100)
    assert " succeeded" in printed
    kept = re.findall(r"^[-\d]+ [:\d]+ shoal-mnist-dev-(data|artifacts|logs)-\S+$", printed, re.M)
    assert {*kept} == {"data", "artifacts", "logs"}
