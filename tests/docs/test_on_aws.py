"""What README, the checklist of the first run and the page about operating have a reader type on
AWS, typed as it stands, in their order: `target: local` sends it to shoal-local.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import TAKES_A_MINUTE, marked, scripts, text_of
from tests.docs.tutorials import typed, writable_checkout

README = scripts(text_of("README.md"))
CHECKLIST = re.findall(r"^\| [4-9] \| `(.+?)` \|", text_of("docs/first-aws-run.md"), re.M)
"""Lines 1 to 3 are README's own; shoal-local draws no dashboards, and has no EFA."""
OPERATE = marked(text_of("docs/operate.md"), TAKES_A_MINUTE)
SHELL = """\
export PATH="$PWD/.venv/bin:$PATH"
eval "$(shoal local up | grep '^ *export ')"
"""


def page(*blocks: str) -> str:
    """Return a page of these blocks, after what makes a shell one for shoal-local."""
    return "".join(f"```sh\n{block}\n```\n" for block in (SHELL, *blocks))


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Path]:
    """Return a checkout whose `dev` is on this machine; its shoal-local is stopped at the end."""
    checkout = writable_checkout(tmp_path)
    dev = checkout / "environments" / "dev.yaml"
    dev.write_text(f"{dev.read_text()}\ntarget: local\n")
    yield checkout
    typed(checkout, "```sh\n.venv/bin/shoal local down || true\n```\n")


@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_readme_and_the_checklist_lead_to_a_run_and_to_its_end(checkout: Path) -> None:
    *begin, end = [each.replace("make install\n", "") for each in README if "/shoal " in each]
    printed = typed(checkout, page(*begin, *CHECKLIST, end), timeout_s=1100)
    assert printed.count(" succeeded") >= 2
    assert "backend=" in printed
    assert '"Endpoints": []' in printed
    assert "destroyed: " in printed


@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_a_protected_environment_is_deployed_and_taken_away_but_for_its_data(
    checkout: Path,
) -> None:
    dev = checkout / "environments" / "dev.yaml"
    dev.write_text(dev.read_text().replace("protect: false", "protect: true"))
    printed = typed(checkout, page(*scripts(OPERATE)).replace("PROJECT-ENV", "mnist-dev"), 1100)
    assert " succeeded" in printed
    kept = re.findall(r"shoal-mnist-dev-(data|artifacts|logs)-\S+$", printed, re.M)
    assert {*kept} == {"data", "artifacts", "logs"}
    query = 'aws cloudformation list-stacks --query "StackSummaries[].[StackName,StackStatus]"'
    stacks = re.findall(
        r"^(shoal-\S+)\s+(\w+)$", typed(checkout, page(f"{query} --output text")), re.M
    )
    assert len(stacks) == 4
    assert {status for _, status in stacks} == {"DELETE_COMPLETE"}
