"""What follows what: the order of environments in a workflow, and the workloads that a run of
promote.yml is about.
"""

import json
from pathlib import Path

import pytest
import yaml
from botocore.session import Session
from click.testing import CliRunner

from dev.tools.promotable import main
from local_kit.tables import rows
from shoal.cli.main import shoal
from shoal.errors import UsageError
from shoal.settings.parsing.errors import ConfigError
from shoal.verbs.init import render
from shoal.verbs.promote.promotion_path import chain, workflow
from tests.cli.trained import checkout_of_two
from tests.repository import ROOT, link_checkout
from tests.verbs.test_init import answers
from tests.workflows.rules import calls, mistakes, refusal
from tests.workflows.test_workflows import FILES, run_script, schema_mistakes, zizmor

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
    for name in AFTER if host == "gitlab" else ():
        deliver(root, name, GITLAB)
    result = CliRunner().invoke(shoal, ["--root", str(root), "release", "chain", f"--{host}"])
    assert (result.exit_code, result.output) == (0, workflow(chain(root), host))
    (file := tmp_path / f"{host}.yml").write_text(result.output)
    document = yaml.safe_load(result.output)
    if host == "github":
        needs = {name: job.get("needs", "") for name, job in document["jobs"].items()}
        assert needs == AFTER
        others = {path.name: path.read_text() for path in FILES if path.name != "deploy.yml"}
        for name, text in (others | {"deploy.yml": result.output}).items():
            (tmp_path / ".github/workflows").mkdir(parents=True, exist_ok=True)
            (tmp_path / ".github/workflows" / name).write_text(text)
        assert schema_mistakes("github-workflows", file) == ""
        assert mistakes(result.output) == []
        assert zizmor(tmp_path / ".github/workflows/deploy.yml") == []
    else:
        render(answers(ci="gitlab"), tmp_path / "team")
        assert schema_mistakes("gitlab-ci", file, tmp_path / "team/.gitlab-ci.yml") == ""
        for name, after in AFTER.items():
            check, deploy, look = (
                document[f"{each}:{name}"] for each in ("check", "deploy", "look")
            )
            assert check["needs"] == ([f"look:{after}"] if after else [])
            assert (deploy["needs"], look["needs"]) == ([f"check:{name}"], [f"deploy:{name}"])
            assert deploy.get("when") == ("manual" if after else None)
            region = "eu-west-1" if name.endswith("-eu") else "us-east-1"
            for job, actor in ((check, "look"), (deploy, "deliver"), (look, "look")):
                variables = job["variables"]
                assert (variables["ENVIRONMENT"], variables["AWS_REGION"]) == (name, region)
                own = f":role/shoal-mnist-{name}-{region}-{actor}"
                assert variables["AWS_ROLE_ARN"].endswith(own)


STEPS = ("check", "deploy", "look")
GITLAB = "{gitlab: {project: acme/models}}"


def deliver(root: Path, name: str, section: str) -> None:
    edit(root, name, name, {"protect: ": f"delivery: {section}\nprotect: "})


@pytest.mark.parametrize(("host", "sections", "says"), rows(__file__, "cases.yaml", "hosts"))
def test_a_host_deploys_only_what_names_it(
    root: Path, host: str, sections: dict[str, str], says: str
) -> None:
    for name, section in sections.items():
        deliver(root, name, section)
    result = CliRunner().invoke(shoal, ["--root", str(root), "release", "chain", f"--{host}"])
    assert result.exit_code != 0
    with pytest.raises(UsageError) as refused:
        workflow(chain(root), host)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_gitlabs_jobs_call_what_exists_and_change_things_with_one_role_only(root: Path) -> None:
    built = "delivery: {gitlab: {project: acme/models}}\n"
    recipe = "training:\n  build_image: pytorch-efa\n"
    edit(root, "dev", "dev", {"protect: ": f"{built}protect: ", "training:\n": recipe})
    document = yaml.safe_load(workflow(chain(root), "gitlab"))
    scripts = {name: "\n".join(job.get("script", ())) for name, job in document.items()}
    commands = [words for script in scripts.values() for words in calls(script)]
    assert ["deploy", "dev", "--images"] in commands
    assert [(words, reason) for words in commands if (reason := refusal(words))] == []
    changing = {name for name, each in scripts.items() if "$CDK deploy" in each}
    assert changing == {"deploy:dev"}
    begin = "; ".join(document[".shoal"]["before_script"][1:])
    variables = document["check:dev"]["variables"] | {"AWS_TOKEN": "token"}
    kept = root / "kept"
    begin += f'; cp -r "$login" {kept}; echo "$AWS_CONFIG_FILE"'
    process = run_script(begin, root, variables)
    assert process.returncode == 0, process.stderr
    assert not Path(process.stdout.strip()).parent.exists()  # no other job finds the token
    profiles = Session(profile="look")
    profiles.set_config_variable("config_file", str(kept / "config"))
    look, token = (profiles.full_config["profiles"][each] for each in ("look", "token"))
    assert (look["role_arn"], look["source_profile"]) == (variables["LOOKUP_ROLE_ARN"], "token")
    assert token["role_arn"] == variables["AWS_ROLE_ARN"]
    file = Path(token["web_identity_token_file"])
    assert file.parent == Path(process.stdout.strip()).parent
    assert (kept / file.name).read_text() == "token"


@pytest.mark.parametrize(("options", "steps"), rows(__file__, "cases.yaml", "promoted"))
def test_what_is_promoted_follows_from_the_files(
    root: Path,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    steps: list[list[str]] | None,
) -> None:
    assert main(options, root) == (2 if steps is None else 0)
    said = capsys.readouterr()
    if steps is None:
        assert "no environment takes releases" in said.err
    else:
        found = json.loads(said.out)
        assert [[row["from"], row["to"]] for row in found] == steps
        assert {row["trainer"] for row in found} == {"dev"}


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
    with pytest.raises(ConfigError, match=r"dev\.yaml:\d+: promoted_from = .* in a circle"):
        chain(root)
    with pytest.raises(UsageError, match="no environment"):
        workflow([], "github")


WAY = ("--from", "dev", "--to", "staging")
VERSION = "arn:aws:sagemaker:us-east-1:111122223333:model-package/shoal-{workload}-dev/3"


@pytest.fixture
def two(tmp_path: Path) -> Path:
    return checkout_of_two(tmp_path)


def names(capsys: pytest.CaptureFixture[str], root: Path, *options: str) -> list[str]:
    assert main([*WAY, *options], root) == 0
    found = json.loads(capsys.readouterr().out)
    way = {(row["from"], row["to"], row["trainer"]) for row in found}
    assert way <= {("dev", "staging", "dev")}
    return [row["workload"] for row in found]


def test_an_approval_is_of_the_workload_whose_registry_has_it(
    two: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for workload in ("mnist", "prices"):
        package = VERSION.format(workload=workload)
        assert names(capsys, two, "--package", package) == [workload]
    assert names(capsys, two, "--workload=prices", "--package=3") == ["prices"]


def test_one_workload_need_not_be_named_for_any_version(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert names(capsys, ROOT) == ["mnist"]
    assert names(capsys, ROOT, "--package", "3") == ["mnist"]


def test_what_serves_nothing_is_not_promoted(two: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = two / "environments" / "staging.yaml"
    file.write_text(file.read_text().replace("  prices:\n", "  prices:\n    endpoint: none\n"))
    assert names(capsys, two) == ["mnist"]
    for workload, promoted in {"mnist": ["mnist"], "prices": []}.items():
        assert names(capsys, two, "--package", VERSION.format(workload=workload)) == promoted


def test_an_approval_of_what_the_next_environment_lacks_promotes_nothing(
    two: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = two / "environments" / "staging.yaml"
    file.write_text(file.read_text().partition("  prices:\n")[0])
    package = VERSION.format(workload="prices")
    assert names(capsys, two, "--package", package) == []


@pytest.mark.parametrize(("options", "says"), rows(__file__, "cases.yaml", "refused"))
def test_what_is_in_no_file_is_one_line(
    two: Path, options: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*WAY, *options], two) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert says in line
