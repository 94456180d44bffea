"""The commands of pages, typed as they are written: daily up to the check, nightly to the end.

Those of README, the checklist of the first run and the page about operating are for AWS:
`target: local` sends them to shoal-local.
"""

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
    pages,
    scripts,
    text_of,
    typed,
    unmarked,
    writable_checkout,
)

HOW_TO = [page for page in pages() if page.startswith("docs/how-to/")]
GUIDES = {
    "docs/guides/your-own-model.md": "environments/heat.yaml: ok",
    "docs/guides/classical-model.md": "environments/rent.yaml: ok",
    "docs/guides/language-model.md": "environments/pages.yaml: ok",
    "docs/guides/trainers.md": "environments/chat.yaml: ok",
    "docs/environments.md": "",
    "images/README.md": "",
} | dict.fromkeys(HOW_TO, ": ok")
"""Page -> what its blocks without a mark print."""
ENDS = tuple(page for page in GUIDES if page.startswith("docs/guides/"))
SESSIONS = {
    "first run": ("docs/first-run.md", "docs/guides/runs.md"),
    "strategy": ("docs/environments.md",),
}
"""Pages whose longer blocks are typed in one checkout, those that end it last."""
DESTROY = ".venv/bin/shoal destroy "


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a checkout to write into."""
    return writable_checkout(tmp_path)


@pytest.mark.parametrize("page", GUIDES)
def test_what_a_guide_writes_is_checked(page: str, checkout: Path) -> None:
    printed = typed(checkout, unmarked(text_of(page)))
    assert GUIDES[page] in printed
    assert [line for line in printed.splitlines() if line.startswith("may fail (")] == []


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("page", ENDS)
def test_what_a_guide_runs_answers_in_the_end(page: str, checkout: Path) -> None:
    typed(checkout, unmarked(text_of(page)))
    printed = typed(checkout, marked(text_of(page), TAKES_A_MINUTE), timeout_s=1700)
    assert "SmokeTest" in printed


@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("page", HOW_TO)
def test_the_environment_of_a_how_to_synthesises(page: str, checkout: Path) -> None:
    before = set((checkout / "environments").glob("*.yaml"))
    typed(checkout, unmarked(text_of(page)))
    (new,) = set((checkout / "environments").glob("[!b]*.yaml")) - before  # without base-...
    typed(checkout, page_of([f".venv/bin/shoal plan {new.stem} --templates"]), timeout_s=500)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("session", SESSIONS)
def test_longer_blocks_work(session: str, checkout: Path) -> None:
    text = "".join(marked(text_of(page), TAKES_A_MINUTE) for page in SESSIONS[session])
    try:
        blocks = sorted(scripts(text), key=lambda block: DESTROY in block)
        printed = typed(checkout, page_of(blocks), timeout_s=1500)
    finally:
        typed(checkout, page_of([".venv/bin/shoal local down || true"]))
    assert "SmokeTest" in printed


README = [each for each in scripts(text_of("README.md")) if ".venv/bin/shoal " in each]
FIRST_RUN = text_of("docs/first-aws-run.md")
CHECKLIST = re.findall(r"^\| [4-9] \| `(.+?)` \|", FIRST_RUN, re.M)
"""Lines 1 to 3 are README's own; shoal-local has no EFA."""
(BEFORE,) = re.findall(r"```yaml\n(.*?)```", FIRST_RUN, re.S)
OPERATE = scripts(marked(text_of("docs/operate.md"), TAKES_A_MINUTE))
SHELL = """\
export PATH="$PWD/.venv/bin:$PATH"
eval "$(shoal local up | grep '^ *export ')"
"""


@pytest.fixture
def local_checkout(tmp_path: Path) -> Iterator[Path]:
    """Return a checkout whose `dev` is on this machine, and has what the checklist has it changed
    to; its shoal-local is stopped at the end.
    """
    local_checkout = writable_checkout(tmp_path)
    edit(local_checkout, {"target": "local"}, yaml.safe_load(BEFORE)["training"])
    yield local_checkout
    typed(local_checkout, page_of([".venv/bin/shoal local down || true"]))


def edit(checkout: Path, keys: dict[str, Any], training: dict[str, Any]) -> None:
    file = checkout / "environments" / "dev.yaml"
    dev = yaml.safe_load(file.read_text()) | keys
    of_smddp = ("collective", "custom_mpi_options")
    kept = {key: value for key, value in dev["training"].items() if key not in of_smddp}
    file.write_text(yaml.safe_dump(dev | {"training": kept | training}))


@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_readme_and_the_checklist_lead_to_a_run_and_to_its_end(local_checkout: Path) -> None:
    *begin, end = [each.replace("make install\n", "") for each in README]
    printed = typed(local_checkout, page_of([SHELL, *begin, *CHECKLIST, end]), timeout_s=1100)
    assert printed.count(" succeeded") == 2
    assert printed.count(" files uploaded") == 2
    assert '"Endpoints": []' in printed
    assert "destroyed: " in printed


@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_a_protected_environment_is_taken_away_but_for_its_data(local_checkout: Path) -> None:
    edit(local_checkout, {"protect": True}, {})
    text = page_of([SHELL, *OPERATE, "aws s3 ls"]).replace("PROJECT-ENV", "mnist-dev")
    printed = typed(local_checkout, text, 1100)
    assert " succeeded" in printed
    kept = re.findall(r"^[-\d]+ [:\d]+ shoal-mnist-dev-(data|artifacts|logs)-\S+$", printed, re.M)
    assert {*kept} == {"data", "artifacts", "logs"}
