"""A training job writes whatever it may, at every later moment, and nobody is ever served anything
but what was evaluated: two accounts, dev's own bucket and roles, policies enforced.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from config.consumers import consumers_of
from config.names import Names
from config.release import Release
from config.release_text import with_release
from local.tests.control.account import trust
from shoal_local.testing import emulator
from stacks.app import feature_flags
from tests.cli.trained import archive
from tests.config.releases import CONTENT
from tests.functions.invocation import Outcome, invoke
from tests.identity.templates import Templates
from tests.identity.test_forbidden import KEY
from tests.repository import ROOT
from tests.stacks.test_shared_releases import (
    ARTIFACTS,
    DEV,
    NAMES,
    STAGING,
    VERSIONS,
    Accounts,
    data_template,
    deploy,
)

HONEST, FORGED = (archive({"model.pt": weights}) for weights in (b"evaluated", b"forged"))
SHA256 = hashlib.sha256(HONEST).hexdigest()
OUTPUT = "training/abcdefghijkl/pipelines-abcdefghijkl-Train-x/output/model.tar.gz"
SEALED = f"models/{SHA256}/model.tar.gz"
EVENT = {
    "execution_id": "abcdefghijkl",
    "model_data_url": f"s3://{ARTIFACTS}/{OUTPUT}",
    "archive_sha256": SHA256,
    "content_sha256": "c" * 64,
}
JOBS = ("training", "evaluation", "endpoint", "pipeline", "smoke-test", "teardown")
SERVER = Names(STAGING).serving_role("0a1b2c")


@dataclass(frozen=True)
class World:
    """dev, which trains, and staging, whose file pins the sealed archive where it lies."""

    accounts: Accounts

    def s3(self, actor: str) -> Any:
        return self.accounts.role(DEV.account, NAMES.role(actor), "s3")

    def train(self, content: bytes) -> None:
        self.s3("training").put_object(Bucket=ARTIFACTS, Key=OUTPUT, Body=content)

    def existing(self) -> set[str]:
        root = self.accounts.root(DEV.account, "s3")
        return {each["Key"] for each in root.list_objects_v2(Bucket=ARTIFACTS).get("Contents", [])}

    def forge(self, actor: str = "training") -> set[str]:
        """Let the role write over everything that exists, and where models will lie; return what it
        could.
        """
        s3, wanted = self.s3(actor), self.existing() | {SEALED, "models/more/model.tar.gz"}
        return {
            key for key in wanted if _allows(s3.put_object, Bucket=ARTIFACTS, Key=key, Body=FORGED)
        }

    def seal(self) -> Outcome:
        """Run the step's function with the role that its stack gives it."""
        session = self.accounts.root(DEV.account, "sts").assume_role(
            RoleArn=NAMES.role_arn("seal"), RoleSessionName="seal"
        )["Credentials"]
        credentials = {
            "AWS_ACCESS_KEY_ID": session["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": session["SecretAccessKey"],
            "AWS_SESSION_TOKEN": session["SessionToken"],
        }
        return invoke(
            "seal",
            EVENT,
            endpoint_url=self.accounts.local.endpoint,
            environment=credentials,
            module="sealer",
        )

    def served(self) -> set[bytes]:
        """Return what containers get: of an execution's endpoint, and of staging's."""
        staging = self.accounts.role(STAGING.account, Names(STAGING).role(SERVER), "s3")
        return {
            client.get_object(Bucket=ARTIFACTS, Key=SEALED)["Body"].read()
            for client in (self.s3("endpoint"), staging)
        }


def _allows(call: Any, **arguments: Any) -> bool:
    try:
        call(**arguments)
    except ClientError as error:
        if error.response["Error"]["Code"] != "AccessDenied":
            raise
        return False
    return True


@pytest.fixture(scope="module")
def world(
    tmp_path_factory: pytest.TempPathFactory,
    templates: dict[str, Templates],
) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("sealed")
    consumers = consumers_of(DEV, _pinning(folder / "repository"))
    numbers = ("--account", DEV.account, "--account", STAGING.account)
    with emulator(folder / "state", *numbers, "--region", DEV.region, "--enforce-iam") as running:
        accounts = Accounts(running.account)
        deploy(accounts, data_template(folder / "cdk.out", feature_flags(ROOT), consumers))
        accounts.make_role(STAGING.account, Names(STAGING).role(SERVER))
        _make_roles(accounts, templates["dev"].identity_policies())
        yield World(accounts)


def _pinning(root: Path) -> Path:
    """Return a repository in whose file staging pins the sealed archive."""
    (root / "environments").mkdir(parents=True)
    pins = {
        "model_package_arn": VERSIONS[1],
        "model_package_version": 1,
        "model_data_url": f"s3://{ARTIFACTS}/{SEALED}",
    }
    for name in ("dev", "staging"):
        text = (ROOT / f"environments/{name}.yaml").read_text()
        if name == "staging":
            text = with_release(text, Release(**CONTENT | pins), name)
        (root / f"environments/{name}.yaml").write_text(text)
    return root


def _make_roles(accounts: Accounts, policies: dict[str, dict[str, Any]]) -> None:
    """Create dev's roles with the policies of its stacks, for the key that exists."""
    iam, kms = (accounts.root(DEV.account, service) for service in ("iam", "kms"))
    key = kms.describe_key(KeyId=f"alias/{NAMES.prefix}")["KeyMetadata"]["Arn"]
    for actor in (*JOBS, "seal"):
        name, principal = NAMES.role(actor), {"AWS": f"arn:aws:iam::{DEV.account}:root"}
        iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust(principal))
        for policy, document in policies[name].items():
            text = json.dumps(document).replace(KEY, key)
            iam.put_role_policy(RoleName=name, PolicyName=policy, PolicyDocument=text)


def test_what_a_job_writes_between_evaluation_and_seal_fails_its_own_execution(
    world: World,
) -> None:
    world.train(HONEST)
    assert OUTPUT in world.forge()
    assert "written again after it was evaluated" in world.seal().error
    assert SEALED not in world.existing()


def test_what_a_job_writes_after_the_seal_is_never_served(world: World) -> None:
    world.train(HONEST)
    assert world.seal().result["model_data_url"] == f"s3://{ARTIFACTS}/{SEALED}"
    # Registered, approved, pinned, deployed elsewhere, scaled out: all read the same object.
    for _ in range(2):
        assert world.forge() == {OUTPUT}
        assert world.served() == {HONEST}
        assert world.seal().result["status"] == "Sealed"
    assert world.served() == {HONEST}


@pytest.mark.parametrize("actor", JOBS)
def test_no_role_but_the_seal_writes_or_deletes_there(world: World, actor: str) -> None:
    world.train(HONEST)
    world.seal()
    s3, version = world.s3(actor), _version(world)
    assert not any(key.startswith("models/") for key in world.forge(actor))
    assert not _allows(s3.delete_object, Bucket=ARTIFACTS, Key=SEALED)
    assert not _allows(s3.delete_object, Bucket=ARTIFACTS, Key=SEALED, VersionId=version)
    assert world.served() == {HONEST}


def test_a_role_that_its_account_allows_everything_cannot_either(world: World) -> None:
    """The bucket's Deny does not depend on what identity policies forget."""
    world.train(HONEST)
    world.seal()
    world.accounts.make_role(DEV.account, "anything")
    s3 = world.accounts.role(DEV.account, "anything", "s3")
    assert not _allows(s3.put_object, Bucket=ARTIFACTS, Key=SEALED, Body=FORGED)
    assert not _allows(s3.delete_object, Bucket=ARTIFACTS, Key=SEALED, VersionId=_version(world))


def _version(world: World) -> str:
    root = world.accounts.root(DEV.account, "s3")
    return str(root.head_object(Bucket=ARTIFACTS, Key=SEALED)["VersionId"])
