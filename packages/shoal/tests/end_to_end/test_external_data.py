"""Two accounts, policies enforced: a pipeline trains on a bucket of the other account, under its
key, where that account allows what `shoal plan` prints, and is refused by name before.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from local_kit.control import allow
from shoal.verbs.workspace import Workspace
from tests.end_to_end.conftest import Checkout
from tests.letters import ENVIRONMENT, add_letters

OWNER, BUCKET = "444455556666", "lake-of-letters"
TEXT = "the shoal swims where the sea is warm and the sun is high "
CHANNELS = ("pages", "holdout")


def environment(key_arn: str | None) -> str:
    """Return the file of the environment, whose channels lie in the other account."""
    channels = {
        name: {"uri": f"s3://{BUCKET}/{name}/", "account": OWNER, "kms_key_arn": key_arn}
        for name in CHANNELS
    }
    return f"{ENVIRONMENT}data: {json.dumps({'channels': channels})}\n"


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_a_pipeline_trains_on_another_accounts_data(checkout: Checkout, tmp_path: Path) -> None:
    own = checkout.with_environment(tmp_path, "lab", environment(None))
    add_letters(own.root)
    with own.emulator("lab"):
        server = Workspace(own.root, {}).local_server.require()
        s3, kms = (server.target_of(OWNER).client(service) for service in ("s3", "kms"))
        key = kms.create_key()["KeyMetadata"]["Arn"]
        s3.create_bucket(Bucket=BUCKET)
        sealed = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": key}
        for name in CHANNELS:
            s3.put_object(Bucket=BUCKET, Key=f"{name}/1.txt", Body=TEXT.encode() * 20, **sealed)
        (own.root / "environments" / "lab.yaml").write_text(environment(key))
        own.succeed("deploy", "lab", "--local")
        assert "nothing is to upload" in own.succeed("data", "upload", "lab", "--local")

        refused = own.run("run", "lab", "--local", "--follow")
        assert refused.exit_code != 0
        assert "s3:ListBucket" in refused.output, refused.output

        (grant,) = own.document("plan", "lab")["grants"]
        s3.put_bucket_policy(Bucket=BUCKET, Policy=json.dumps(grant["bucket_policy"]))
        refused = own.run("run", "lab", "--local", "--follow")
        assert "kms:Decrypt" in refused.output, refused.output

        policy = allow("kms:*", Principal={"AWS": f"arn:aws:iam::{OWNER}:root"})
        policy["Statement"] += grant["key_policies"][key]["Statement"]
        kms.put_key_policy(KeyId=key, PolicyName="default", Policy=json.dumps(policy))
        assert "Register" in own.succeed("run", "lab", "--local", "--follow")
        own.succeed("destroy", "lab", "--local")
