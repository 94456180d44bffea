"""Paths, links and anchors in pages lead somewhere, and every page is in the index."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from dev.tools.reference import anchor
from tests.docs.pages import NOTEBOOK, ROOT, code_spans, headings, links, pages, text_of

OUTPUTS = {
    "check_data.py": "a user writes it",
    "config.json": "training writes it",
    "evaluation.json": "evaluation writes it",
    "gpu.json": "make bench-gpu writes it",
    "manifest.json": "a user uploads it",
    "model.json": "training writes it",
    "requests.jsonl": "shoal-local writes it",
    "run.json": "shoal report writes it",
    "summary.json": "shoal demo writes it",
    "tokenizer.json": "a language model's prepare.py writes it",
    "validation-report.json": "a synth writes it",
    "validation.json": "a synth writes it",
    "code/inference.py": "in a model's archive",
}
"""Files that people meet and the checkout does not have."""
ELSEWHERE = re.compile(
    r"(mnist/main|moto/core/responses|core/lib/validation/[\w-]+|my_pipelines/\w+)\.(py|js)"
    r"|(training_code/(heat|pages|tables)\b|mine/).*"
    r"|environments/(billion|frankfurt|heat|hopper|ireland|large|nightly|own-vpc|pages|programs|tables|thrifty)\.yaml"
    r"|heat\.csv|net\.py"
    r"|pytorch/(table|saved_model)\.py|\*\.(txt|jsonl)"
)
"""Files of other projects, and of the reader."""
_FILE = re.compile(r"[\w.*-]+(/[\w.*-]+)*\.(cjs|js|jsonl?|md|mjs|png|py|sh|toml|txt|ya?ml)")
_FOLDER = re.compile(r"[a-z_.]+(/[a-z_.]+)+/")


def checkout() -> set[str]:
    """Return every file and folder that git knows or would add."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    files = {path for path in listed.splitlines() if (ROOT / path).exists()}
    return files | {str(folder) for path in files for folder in Path(path).parents} - {"."}


CHECKOUT = checkout()
FOLDERS = sorted({path.partition("/")[0] for path in CHECKOUT if "/" in path})
_FROM_THE_TOP = re.compile(
    rf"(?<![\w/.<@-])(?!images/s\b)(?:{'|'.join(map(re.escape, FOLDERS))})/[\w./*-]*"
)


def named_paths(text: str) -> Iterator[str]:
    """Yield what looks like a path of ours: whatever begins with a folder of the checkout, and
    names of files and folders between backticks.
    """
    prose = re.sub(r"https?://\S+|arn:\S+", "", text)
    yield from (path.rstrip(".") for path in _FROM_THE_TOP.findall(prose))
    for span in code_spans(text):
        for word in span.split():
            if (path := word.strip("(),;")) and (_FILE.fullmatch(path) or _FOLDER.fullmatch(path)):
                yield path


def exists(path: str, page: str) -> bool:
    """Whether a page may name `path`: from the top, from the page, or by the end of the path."""
    if path in OUTPUTS or Path(path).name in OUTPUTS or ELSEWHERE.fullmatch(path):
        return True
    if path.startswith((".shoal/", "bench-out/", "demo-out/", "cdk.out/")):
        return True
    name = re.sub(r"\b[A-Z]{2,}\b", "*", path.rstrip("/"))
    if "*" in name:
        return any(ROOT.glob(name))
    beside_the_page = (Path(page).parent / name).as_posix()
    return {name, beside_the_page} & CHECKOUT != set() or any(
        known.endswith(f"/{name}") for known in CHECKOUT
    )


def leads_somewhere(link: str, page: str) -> bool:
    """Whether a link of `page` leads to a file or folder, and to a heading if it names one."""
    target, _, name = link.partition("#")
    path = (ROOT / page).parent / target if target else ROOT / page
    if not path.exists():
        return False
    return not name or name in map(anchor, headings(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("page", pages())
def test_every_path_that_a_page_names_exists(page: str) -> None:
    named = set(named_paths(text_of(page)))
    assert sorted(path for path in named if not exists(path, page)) == []


@pytest.mark.parametrize("page", pages())
def test_every_link_leads_to_a_page_and_a_heading(page: str) -> None:
    assert [link for link in links(text_of(page)) if not leads_somewhere(link, page)] == []


def test_every_page_is_in_the_index() -> None:
    index = ROOT / "docs" / "README.md"
    strategies = ROOT / "docs" / "strategies" / "README.md"
    listed = {
        (start.parent / link.partition("#")[0]).resolve()
        for start in (index, strategies)
        for link in links(start.read_text(encoding="utf-8"))
    }
    everything = {ROOT / page for page in pages()} | set(NOTEBOOK.glob("*.md"))
    assert everything - listed - {index} == set()


def test_architecture_names_every_contract_between_layers() -> None:
    contracts = re.findall(
        r'^\[\[tool.importlinter.contracts\]\]\nname = "(.+)"$',
        (ROOT / "pyproject.toml").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    page = text_of("docs/architecture.md")
    assert contracts
    assert [name for name in contracts if f"| {name} |" not in page] == []


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("see docs/nowhere.md.", ["docs/nowhere.md"]),
        ("| run | tests/nowhere, tests/config |", ["tests/nowhere"]),
        ("`control/front_door.py` and `verbs/`", ["control/front_door.py"]),
        ("`implied.py`, `app.py`, `evaluation.json`", ["implied.py"]),
        ("`src/shoal_local/`, `src/emulator/`", ["src/emulator/"]),
        ("https://example.com/docs/nowhere.md", []),
        ("`tests/*/test_counts.py`, `tests/*/test_nothing.py`", ["tests/*/test_nothing.py"]),
    ],
)
def test_a_path_that_leads_nowhere_is_seen(text: str, missing: list[str]) -> None:
    named = list(dict.fromkeys(named_paths(text)))
    assert [path for path in named if not exists(path, "README.md")] == missing


@pytest.mark.parametrize(
    ("link", "leads"),
    [
        ("reference/cli.md#shoal-deploy", True),
        ("reference/cli.md#shoal-fly", False),
        ("reference/nowhere.md", False),
        ("#quick-start", True),
        ("strategies/", True),
    ],
)
def test_a_link_that_leads_nowhere_is_seen(link: str, leads: bool) -> None:
    assert leads_somewhere(link, "docs/README.md") == leads
