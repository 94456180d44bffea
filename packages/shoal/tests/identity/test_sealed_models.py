"""A training job writes whatever it may, at every later moment, and nobody is ever served anything
but what was evaluated; whoever serves has its own copy, and needs nobody.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from shoal.constructs.app import feature_flags
from shoal.settings.names import Names
from shoal_local.runtimes.build import build
from shoal_local.runtimes.catalog import runtimes
from shoal_local.testing import emulator
from tests.identity.brought import FORGED, JOBS, OUTPUT, OWN, World, allows, model, sealed
from tests.identity.synth import synthesised
from tests.identity.templates import Templates
from tests.repository import ROOT
from tests.stacks.test_consumer_access import ARTIFACTS, DEV, NAMES, STAGING, Accounts

HONEST = model(3)
SEALED = sealed(HONEST)


@pytest.fixture(scope="module")
def world(
    tmp_path_factory: pytest.TempPathFactory, templates: dict[str, Templates]
) -> Iterator[World]:
    build(runtimes()["pytorch"], None, print)
    folder, context = tmp_path_factory.mktemp("sealed"), feature_flags(ROOT)
    numbers = ("--account", DEV.account, "--account", STAGING.account)
    with emulator(folder / "state", *numbers, "--region", DEV.region, "--enforce-iam") as running:
        accounts = Accounts(running.account)
        keys = [accounts.deploy_data(each, folder / each.name, context) for each in (DEV, STAGING)]
        world = World(accounts, folder, keys[1])
        staging = synthesised({"staging": STAGING}, folder / "roles")["staging"]
        world.make_roles(DEV, keys[0], templates["dev"])
        world.make_roles(STAGING, keys[1], staging)
        for account in (DEV.account, STAGING.account):
            accounts.make_role(account, "anything")
        yield world


@dataclass(frozen=True)
class Served:
    """What staging serves before and after each test, and what a training job could overwrite on
    the way there.
    """

    deployed: tuple[str, list[str]]
    """Status of the stack, and why resources failed."""
    after_the_seal: set[str]
    after_the_deployment: set[str]


@pytest.fixture(scope="module")
def served(world: World) -> Served:
    release = world.release(HONEST)
    forged = world.forge()
    return Served(world.deploy(release), forged, world.forge())


def test_what_a_job_writes_between_evaluation_and_seal_fails_its_own_execution(
    world: World,
) -> None:
    content = model(9)
    world.train(content)
    assert OUTPUT in world.forge()
    assert "written again after it was evaluated" in world.seal(content).error
    assert sealed(content) not in world.existing()


def test_what_a_job_writes_after_the_seal_is_never_served(world: World, served: Served) -> None:
    assert served == Served(("CREATE_COMPLETE", []), {OUTPUT}, {OUTPUT})
    assert world.seal(HONEST).result["status"] == "Sealed"
    assert world.answer() == 6.0
    own = world.accounts.root(STAGING.account, "s3").get_object(Bucket=OWN, Key=SEALED)
    assert hashlib.sha256(own["Body"].read()).hexdigest() in SEALED


@pytest.mark.usefixtures("served")
def test_another_archive_under_the_pinned_url_is_refused_and_the_old_release_answers(
    world: World,
) -> None:
    content = model(4)
    release = world.release(content)
    # Somebody got around every policy of dev's.
    dev = world.accounts.root(DEV.account, "s3")
    dev.put_object(Bucket=ARTIFACTS, Key=sealed(content), Body=FORGED)
    status, reasons = world.deploy(release)
    assert status == "UPDATE_ROLLBACK_COMPLETE"
    forged = hashlib.sha256(FORGED).hexdigest()
    assert f"is {forged}, evaluated was {release.model_data_sha256}" in reasons[0]
    assert (world.answer(), sealed(content) in world.existing(OWN)) == (6.0, False)


@pytest.mark.usefixtures("served")
@pytest.mark.parametrize("environment", [DEV, STAGING], ids=lambda each: each.name)
@pytest.mark.parametrize("actor", JOBS)
def test_no_job_writes_or_deletes_in_either_store(
    world: World, actor: str, environment: object
) -> None:
    account, role = (
        (DEV.account, NAMES) if environment is DEV else (STAGING.account, Names(STAGING))
    )
    s3 = world.accounts.role(account, role.role(actor), "s3")
    for bucket in (ARTIFACTS, OWN):
        assert not allows(s3.put_object, Bucket=bucket, Key=SEALED, Body=FORGED)
        assert not allows(s3.delete_object, Bucket=bucket, Key=SEALED)
        version = _version(world, bucket)
        assert not allows(s3.delete_object, Bucket=bucket, Key=SEALED, VersionId=version)


@pytest.mark.usefixtures("served")
def test_a_role_that_its_account_allows_everything_cannot_either(world: World) -> None:
    """The bucket's Deny does not depend on what identity policies forget."""
    for account, bucket in ((DEV.account, ARTIFACTS), (STAGING.account, OWN)):
        s3, version = world.accounts.role(account, "anything", "s3"), _version(world, bucket)
        assert not allows(s3.put_object, Bucket=bucket, Key=SEALED, Body=FORGED)
        assert not allows(s3.delete_object, Bucket=bucket, Key=SEALED, VersionId=version)


@pytest.mark.nightly
@pytest.mark.usefixtures("served")
def test_when_everything_of_dev_is_gone_staging_deploys_rolls_back_and_starts_again(
    world: World,
) -> None:
    first, second, missing = (world.release(each) for each in (HONEST, model(7), model(8)))
    for release in (first, second):
        assert world.deploy(release)[0] == "UPDATE_COMPLETE"
    s3, sagemaker = (world.accounts.root(DEV.account, each) for each in ("s3", "sagemaker"))
    for release in (first, second, missing):
        sagemaker.delete_model_package(ModelPackageName=release.model_package_arn)
    for key in world.existing():
        s3.delete_object(Bucket=ARTIFACTS, Key=key)
    group = {"ModelPackageGroupName": NAMES.model_package_group}
    policies = (
        s3.get_bucket_policy(Bucket=ARTIFACTS)["Policy"],
        sagemaker.get_model_package_group_policy(**group)["ResourcePolicy"],
    )
    s3.delete_bucket_policy(Bucket=ARTIFACTS)
    sagemaker.delete_model_package_group_policy(**group)
    assert world.deploy(first) == ("UPDATE_COMPLETE", [])  # as `git revert` does
    assert world.answer() == 6.0
    status, reasons = world.deploy(missing)
    assert status == "UPDATE_ROLLBACK_COMPLETE"
    assert f"whether {missing.model_package_arn} is approved is not known" in reasons[0]
    assert world.answer() == 6.0
    world.destroy()
    assert SEALED in world.existing(OWN)
    assert world.deploy(second) == ("CREATE_COMPLETE", [])
    assert world.answer() == 14.0
    # As it was before, for other tests.
    s3.put_bucket_policy(Bucket=ARTIFACTS, Policy=policies[0])
    sagemaker.put_model_package_group_policy(**group, ResourcePolicy=policies[1])
    assert world.deploy(world.release(HONEST))[0] == "UPDATE_COMPLETE"


def _version(world: World, bucket: str) -> str:
    root = world.accounts.root(DEV.account if bucket == ARTIFACTS else STAGING.account, "s3")
    return str(root.head_object(Bucket=bucket, Key=SEALED)["VersionId"])
