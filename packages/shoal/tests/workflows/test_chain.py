"""Four environments and two regions: what deploys and promotes follows from their files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from dev.tools.promotable import main
from shoal.cli.main import shoal
from shoal.errors import PromotionError, UsageError
from shoal.verbs.init.rendering import render
from shoal.verbs.promote.chain import chain, workflow
from tests.repository import link_checkout
from tests.verbs.test_init import answers
from tests.workflows.rules import mistakes
from tests.workflows.test_workflows import FILES, schema_mistakes, zizmor

EDITS = {
    "qa": (
        "staging",
        {"name: staging": "name: qa", "promoted_from: dev": "promoted_from: staging"},
    ),
    "prod": ("prod", {"promoted_from: staging": "promoted_from: qa"}),
    "prod-eu": ("prod", {"name: prod": "name: prod-eu", "us-east-1": "eu-west-1", "use1": "euw1"}),
}
"""A fourth environment before prod, and prod in a second region, which is after it, too."""
AFTER = {"dev": "", "staging": "dev", "qa": "staging", "prod": "qa", "prod-eu": "qa"}


def edit(root: Path, name: str, source: str, words: dict[str, str]) -> None:
    text = (root / f"environments/{source}.yaml").read_text()
    for old, new in words.items():
        assert old in text
        text = text.replace(old, new)
    (root / f"environments/{name}.yaml").write_text(text)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "checkout").mkdir()
    root = link_checkout(tmp_path / "checkout")
    for name, (source, words) in EDITS.items():
        edit(root, name, source, words)
    return root


def test_each_is_after_the_one_that_it_takes_releases_from(root: Path) -> None:
    links = chain(root)
    assert {link.environment: link.after for link in links} == AFTER
    assert [link.environment for link in links] == [*AFTER]
    assert {link.trainer for link in links} == {"dev"}
    assert {link.region for link in links} == {"us-east-1", "eu-west-1"}
    edit(root, "lab", "dev", {"name: dev": "name: lab"})  # neither gives nor takes
    assert chain(root) == links
    section = {"protect: ": "delivery: {repository: acme/models}\nprotect: "}
    for name in ("staging", "prod-eu"):
        edit(root, name, name, section)
    delivered = [(link.environment, link.after, link.trainer) for link in chain(root)]
    assert delivered == [("staging", "", "dev"), ("prod-eu", "staging", "dev")]


@pytest.mark.parametrize("host", ["github", "gitlab"])
def test_a_workflow_deploys_all_in_order(root: Path, tmp_path: Path, host: str) -> None:
    result = CliRunner().invoke(shoal, ["--root", str(root), "chain", f"--{host}"])
    assert (result.exit_code, result.output) == (0, workflow(chain(root), host))
    (file := tmp_path / f"{host}.yml").write_text(result.output)
    document = yaml.safe_load(result.output)
    jobs = document["jobs"] if host == "github" else document
    jobs = {name.removeprefix("deploy:"): job for name, job in jobs.items() if name[0] != "."}
    assert {name: str(job.get("needs", "")).strip("[]'") for name, job in jobs.items()} == {
        name: f"deploy:{each}" if each and host == "gitlab" else each
        for name, each in AFTER.items()
    }
    if host == "github":
        calls = {path.name: path.read_text() for path in FILES if path.name != "deploy.yml"}
        for name, text in (calls | {"deploy.yml": result.output}).items():
            (tmp_path / ".github/workflows").mkdir(parents=True, exist_ok=True)
            (tmp_path / ".github/workflows" / name).write_text(text)
        assert schema_mistakes("github-workflows", file) == ""
        assert mistakes(result.output) == []
        assert zizmor(tmp_path / ".github/workflows/deploy.yml") == []
    else:
        render(answers(ci="gitlab"), tmp_path / "team")
        assert schema_mistakes("gitlab-ci", file, tmp_path / "team/.gitlab-ci.yml") == ""


@pytest.mark.parametrize(
    ("options", "steps"),
    [
        ((), [("dev", "staging")]),
        (("--from", "qa"), [("qa", "prod"), ("qa", "prod-eu")]),
        (("--to", "prod-eu"), [("qa", "prod-eu")]),
        (("--from", "staging", "--to", "qa"), [("staging", "qa")]),
        (("--from", "prod"), None),
        (("--to", "dev"), None),
    ],
)
def test_what_is_promoted_follows_from_the_files(
    root: Path,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    steps: list[tuple[str, str]] | None,
) -> None:
    assert main(options, root) == (2 if steps is None else 0)
    said = capsys.readouterr()
    if steps is None:
        assert "no environment takes releases" in said.err
    else:
        rows = json.loads(said.out)
        assert [(row["from"], row["to"]) for row in rows] == steps
        assert {row["trainer"] for row in rows} == {"dev"}


def test_a_version_is_promoted_from_the_region_that_has_it(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = {"us-east-1": "eu-west-1", "use1": "euw1"}
    edit(root, "dev-eu", "dev", {"name: dev": "name: dev-eu"} | words)
    edit(
        root,
        "staging-eu",
        "staging",
        {"name: staging": "name: staging-eu", "from: dev": "from: dev-eu"},
    )
    package = "arn:aws:sagemaker:eu-west-1:111122223333:model-package/shoal-mnist-dev-eu/3"
    for options, to in (((), {"staging", "staging-eu"}), (("--package", package), {"staging-eu"})):
        assert main(options, root) == 0
        assert {row["to"] for row in json.loads(capsys.readouterr().out)} == to


def test_a_chain_has_a_beginning(root: Path) -> None:
    edit(root, "dev", "dev", {"protect: ": "promoted_from: prod\nprotect: "})
    with pytest.raises(PromotionError, match="goes in a circle"):
        chain(root)
    with pytest.raises(UsageError, match="no environment"):
        workflow([], "github")
