"""Verbs of an environment with several workloads: their words, releases, and what is deployed."""

import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import pytest

from local_kit.tables import rows, table
from shoal.cli.commands import deployment
from shoal.cli.main import main
from shoal.cli.options import environment_argument
from shoal.settings.loading.loader import load_environment, load_workloads
from shoal.settings.names import WORKLOAD_TAG, Names
from shoal.verbs.local_server import LocalServer
from shoal.verbs.workspace import Session, Workspace
from tests.cli.trained import (
    TO_STAGING,
    Checkout,
    Registry,
    checkout_of_two,
    document_in,
    let_have_both,
    propose,
)
from tests.repository import CHECKOUT, ROOT, add_workload, link_checkout
from tests.settings.environment_file import numbered
from tests.verbs.conftest import ACCOUNT, make_pipeline, make_stack

TWO = "environments/dev.yaml: has several workloads (mnist, prices); name one, as in `dev mnist`"


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkout_of_two(tmp_path_factory.mktemp("checkout"))


@click.command()
@environment_argument
@click.argument("execution")
@click.argument("step", required=False)
@click.option("--local", is_flag=True)
def verb(**parameters: object) -> Mapping[str, object]:
    """Return what it was given."""
    return parameters


def places_of(root: Path, words: str) -> list[object]:
    """Return the words that the verb has in its places."""
    given = verb.main(words.split(), standalone_mode=False, obj=Workspace(root, {}))
    return [given[key] for key in ("environment", "workload", "execution", "step")]


@pytest.mark.parametrize("verb", ["check", "plan --templates"])
def test_environments_of_the_same_names_are_refused(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The workload mnist in eu-dev, and mnist-eu in dev."""
    root = link_checkout(tmp_path)
    add_workload(root, "mnist-eu")
    dev = root / "environments" / "dev.yaml"
    text = dev.read_text()
    dev.with_name("eu-dev.yaml").write_text(text.replace("name: ", "name: eu-", 1))
    dev.write_text(text.partition("training:")[0].replace("mnist", "mnist-eu", 1))
    assert main(["--root", str(root), *verb.split()]) == 2
    says = 'name = "eu-dev": its names would begin with shoal-mnist-eu-dev, as those of dev do'
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(("words", "places"), rows(__file__, "cases.yaml", "several"))
def test_a_word_may_be_the_workload(two: Path, words: str, places: list[object]) -> None:
    assert places_of(two, words) == places


@pytest.mark.parametrize(("words", "places"), rows(__file__, "cases.yaml", "only"))
def test_the_only_workload_may_be_named(words: str, places: list[object]) -> None:
    assert places_of(ROOT, words) == places


@pytest.mark.parametrize(("words", "message"), rows(__file__, "cases.yaml", "wrong"))
def test_words_missing_or_too_many_are_named(two: Path, words: str, message: str) -> None:
    with pytest.raises(click.UsageError) as refusal:
        places_of(two, words)
    assert message in refusal.value.format_message() + str(refusal.value)


@pytest.mark.parametrize("verb", table(__file__, "cases.yaml")["of_one"])
def test_a_verb_of_one_workload_names_them_where_there_are_several(
    verb: str, two: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    assert main(["--root", str(two), *verb.split(), "--local"]) == 2
    assert capsys.readouterr().err.splitlines() == [f"shoal: {TWO}"]


@pytest.mark.parametrize("verb", ["run dev", "deploy dev", "diff dev", "destroy --leftovers dev"])
def test_no_workload_is_told(verb: str, two: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--root", str(two), *verb.split(), "prizes", "--local"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert 'has no workload "prizes"; there are: mnist, prices' in line


def test_check_has_a_line_a_workload(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = checkout_of_two(tmp_path)
    assert main(["--root", str(root), "check"]) == 0
    lines = capsys.readouterr().out.splitlines()
    placeholder = [line for line in lines if "(dev): account 111122223333 is a placeh" in line]
    assert [line for line in lines if "dev.yaml" in line] == [
        f"environments/dev.yaml: {name}: ok (torchrun on 2 x ml.m5.xlarge)"
        for name in ("mnist", "prices")
    ]
    assert len(placeholder) == 1
    file = root / "environments" / "dev.yaml"
    file.write_text(file.read_text().replace("us-east-1", "us-nowhere-1"))
    assert main(["--root", str(root), "check"]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert len([line for line in errors if "region" in line and "us-nowhere-1" in line]) == 1


def test_plan_counts_what_is_shared_once(two: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plans: dict[str, dict[str, Any]] = {}
    for arguments in ("dev", "dev prices"):
        assert main(["--root", str(two), "plan", *arguments.split(), "--json"]) == 0
        plans[arguments] = document_in(capsys.readouterr().out)
    of_prices = [f"shoal-prices-dev-{part}" for part in ("image", "pipeline", "monitoring")]
    assert [stack["name"] for stack in plans["dev"]["stacks"]] == [
        "shoal-platform-dev-data",
        "shoal-platform-dev-network",
        *(name.replace("prices", "mnist") for name in of_prices),
        *of_prices,
    ]
    own_key = "KMS key of the image"
    assert [line["what"] for line in plans["dev"]["at_rest"]["lines"]] == [
        "KMS key",
        f"mnist: {own_key}",
        f"prices: {own_key}",
    ]
    assert [stack["name"] for stack in plans["dev prices"]["stacks"]] == of_prices
    assert [line["what"] for line in plans["dev prices"]["at_rest"]["lines"]] == [own_key]
    assert plans["dev"]["workloads"]["prices"]["training"] == plans["dev prices"]["training"]


@pytest.fixture
def both(tmp_path: Path, local_server: LocalServer) -> Checkout:
    return made(tmp_path, local_server.state)


def made(folder: Path, state: Path) -> Checkout:
    """Return a checkout whose dev and staging have both workloads each, in one account."""
    checkout = Checkout.new(folder, state)
    code = checkout.root / "training_code"
    add_workload(checkout.root)
    shipped, without = CHECKOUT / "training_code" / "mnist", shutil.ignore_patterns("pytorch")
    shutil.copytree(shipped, code / "mnist", ignore=without, dirs_exist_ok=True)
    shutil.rmtree(code / "prices" / "pytorch")
    shutil.copytree(code / "mnist" / "pytorch", code / "prices" / "pytorch")
    let_have_both(checkout.root)
    staging = checkout.root / "environments" / "staging.yaml"
    staging.write_text(staging.read_text().replace("222233334444", ACCOUNT))
    checkout.commit("Let the environments have both workloads")
    return checkout


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["dev"], 0, "built: dev mnist\nbuilt: dev prices\n"),
        (["dev", "prices"], 0, "built: dev prices\n"),
        (["staging"], 2, "staging builds no image; name a recipe in training.build_image"),
    ],
)
def test_images_alone_are_built(
    both: Checkout,
    words: list[str],
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with (both.root / "environments" / "staging.yaml").open("a") as file:
        file.write("endpoint: {build_image: none}\n")
    monkeypatch.setattr(Session, "prepared", lambda *_: None)
    monkeypatch.setattr(
        deployment, "build_missing", lambda session, *_: [each.title for each in session.each]
    )
    assert both.shoal("deploy", *words, "--images") == code
    assert said in "".join(capsys.readouterr())


@pytest.fixture(scope="module")
def registry_of_prices(
    tmp_path_factory: pytest.TempPathFactory, local_server: LocalServer
) -> Registry:
    root = checkout_of_two(tmp_path_factory.mktemp("checkout"))
    view = load_environment("dev", root, workload="prices")
    return Registry(local_server.require().target, Names(view))


def test_a_release_of_one_workload_changes_nothing_of_the_other(
    both: Checkout, registry_of_prices: Registry, capsys: pytest.CaptureFixture[str]
) -> None:
    package = registry_of_prices.register()
    assert both.shoal("release", "approve", "dev", "prices") == 0
    assert "several workloads (mnist, prices); nothing was promoted; name one" in both.refused(
        capsys, *TO_STAGING
    )
    assert both.shoal(*TO_STAGING, "--workload", "prices") == 0
    branch = f"promote/staging/shoal-prices-dev-{package.version}"
    changes = both.git("diff", "--unified=0", "main", branch).splitlines()
    assert [line for line in changes if line.startswith("-") and not line.startswith("---")] == []
    assert both.git("log", "-1", "--format=%s", branch) == (
        f"Promote shoal-prices-dev version {package.version} from dev to staging"
    )
    both.merge(branch)
    pins = {
        workload: load_environment("staging", both.root, workload=workload).release
        for workload in ("mnist", "prices")
    }
    assert pins["mnist"] is None
    assert pins["prices"] is not None
    assert pins["prices"].model_package_arn == package.arn
    capsys.readouterr()
    assert both.shoal(*TO_STAGING, "--workload", "prices") == 0
    assert "staging pins" in capsys.readouterr().out
    assert both.shoal("release", "status", "staging") == 0
    lines = capsys.readouterr().out.splitlines()
    assert "staging mnist: pins no release" in lines
    assert f"staging prices: pins {package.arn}" in lines


def test_a_proposal_is_made_again_when_another_workload_was_released_since(tmp_path: Path) -> None:
    """The file is written whole, so git would not merge both that add it."""
    checkout = made(tmp_path, tmp_path)
    mnist, prices = (
        propose(checkout, numbered(number), workload)
        for workload, number in (("mnist", 2), ("prices", 3))
    )
    checkout.merge(mnist)
    assert propose(checkout, numbered(3), "prices") == prices
    checkout.merge(prices)
    pins = [each.release for each in load_workloads("staging", checkout.root)]
    assert pins == [numbered(2), numbered(3)]


def test_one_takes_releases_from_several(both: Checkout, registry_of_prices: Registry) -> None:
    package = registry_of_prices.approved()
    file = both.root / "environments" / "staging.yaml"
    shared, _, _ = file.read_text().partition("\nworkloads:")
    file.write_text(f"{shared}\nworkload: prices\ntraining: {{strategy: torchrun}}\n")
    both.commit("Serve prices only")
    assert both.shoal(*TO_STAGING, "--package", package.version) == 0
    both.merge(f"promote/staging/shoal-prices-dev-{package.version}")
    release = load_environment("staging", both.root).release
    assert release is not None
    assert release.model_package_arn == package.arn


STEP = {"Name": "Stop", "Type": "Fail", "Arguments": {"ErrorMessage": "x"}}
ALL_OF_STAGING, PRICES = ("staging",), ("staging", "prices")


def test_status_shows_every_workload_and_ends_with_2_where_one_is_not_deployed(
    both: Checkout, local_server: LocalServer, capsys: pytest.CaptureFixture[str]
) -> None:
    target = local_server.require().target
    pipelines = [
        Names(load_environment("staging", both.root, workload=workload)).pipeline
        for workload in ("mnist", "prices")
    ]
    codes, shown = [], []
    for deployed in (None, *pipelines):
        if deployed:
            make_pipeline(target, [STEP], name=deployed)
        codes.append([both.shoal("status", *words) for words in (ALL_OF_STAGING, PRICES)])
        shown.append(capsys.readouterr())
    for pipeline in pipelines:
        target.client("sagemaker").delete_pipeline(
            PipelineName=pipeline, ClientRequestToken=uuid.uuid4().hex
        )
    assert codes == [[2, 2], [2, 2], [0, 0]]
    heads = [line for line in shown[1].out.splitlines() if line.startswith("staging ")]
    assert heads == ["staging mnist:", "staging prices:"]
    assert f"pipeline {pipelines[0]} has had no executions" in shown[1].out
    deploys = "`shoal deploy staging --local` deploys it"
    assert [message.err.splitlines()[0] for message in shown[:2]] == [
        f"shoal: not deployed: staging mnist, staging prices; {deploys}",
        f"shoal: not deployed: staging prices; {deploys}",
    ]


def test_only_a_workload_that_is_in_the_file_or_deployed_is_destroyed(
    both: Checkout, local_server: LocalServer, capsys: pytest.CaptureFixture[str]
) -> None:
    target = local_server.require().target
    names = Names(load_environment("dev", both.root, workload="prices"))
    stack = names.stack("pipeline").replace("prices", "kites")
    tags = {"shoal:project": "platform", "shoal:environment": "dev"}
    tags[WORKLOAD_TAG] = "shoal-kites-dev"
    make_stack(target, stack, Tags=[{"Key": key, "Value": tags[key]} for key in tags])
    assert both.shoal("destroy", "dev", "kytes") == 2
    assert 'has no workload "kytes"; there are: mnist, prices' in capsys.readouterr().err
    assert both.shoal("destroy", "dev", "kites") == 0
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "destroyed: nothing named shoal-kites-dev is left",
        "left: everything else of dev, which its other workloads use",
    ]
    assert both.shoal("destroy", "dev", "kites") == 2
