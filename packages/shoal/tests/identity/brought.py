"""dev, which trains, and staging, which serves, live: two accounts, the own buckets, keys and roles
of both, policies enforced.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botocore.exceptions import ClientError

from local_kit.control import trust
from local_kit.hosted import CODE, ENVIRONMENT
from local_kit.sagemaker_account import INFERENCE_IMAGE
from shoal.aws.model_archive import content_sha256
from shoal.settings.names import Names
from shoal.settings.sections.release import Release
from tests.cli.trained import archive
from tests.functions.invocation import FUNCTIONS, Outcome, invoke
from tests.identity.synth import synthesised
from tests.identity.templates import ARNS, Templates
from tests.settings.releases import CONTENT
from tests.stacks.test_consumer_access import ARTIFACTS, DEV, NAMES, STAGING, Accounts

KEY = ARNS["AWS::KMS::Key"].format("StorageKeyBAA9457B")
OUTPUT = "training/abcdefghijkl/pipelines-abcdefghijkl-Train-x/output/model.tar.gz"
FORGED = archive({"model.txt": b"666", "code/inference.py": CODE})
OWN = Names(STAGING).bucket("artifacts")
SERVING = Names(STAGING).stack("serving")
JOBS = ("training", "evaluation", "endpoint", "pipeline", "smoke-test", "teardown")
_SERVED = ("Archive", "Role", "Served", "ServingEndpoint")
"""Beginnings of the logical ids of what serves, without alarms, scaling and proof."""


def model(factor: int) -> bytes:
    """Return an archive whose model multiplies by `factor`."""
    return archive({"model.txt": str(factor).encode(), "code/inference.py": CODE})


def sealed(content: bytes) -> str:
    return f"models/{hashlib.sha256(content).hexdigest()}/model.tar.gz"


def allows(call: Any, **arguments: Any) -> bool:
    """Return whether the call is not refused; errors other than refusals are raised."""
    try:
        call(**arguments)
    except ClientError as error:
        if "AccessDenied" not in error.response["Error"]["Code"]:
            raise
        return False
    return True


@dataclass(frozen=True)
class World:
    accounts: Accounts
    folder: Path
    staging_key: str

    def s3(self, actor: str) -> Any:
        return self.accounts.role(DEV.account, NAMES.role(actor), "s3")

    def train(self, content: bytes) -> None:
        self.s3("training").put_object(Bucket=ARTIFACTS, Key=OUTPUT, Body=content)

    def existing(self, bucket: str = ARTIFACTS) -> set[str]:
        root = self.accounts.root(DEV.account if bucket == ARTIFACTS else STAGING.account, "s3")
        return {each["Key"] for each in root.list_objects_v2(Bucket=bucket).get("Contents", [])}

    def forge(self, actor: str = "training") -> set[str]:
        """Let the role write over everything that exists in both stores, and where models will
        lie; return what it could.
        """
        s3 = self.s3(actor)
        targets = {(bucket, key) for bucket in (ARTIFACTS, OWN) for key in self.existing(bucket)}
        targets |= {(bucket, "models/more/model.tar.gz") for bucket in (ARTIFACTS, OWN)}
        return {
            key
            for bucket, key in targets
            if allows(s3.put_object, Bucket=bucket, Key=key, Body=FORGED)
        }

    def seal(self, content: bytes) -> Outcome:
        """Run the step's function with the role that its stack gives it."""
        session = self.accounts.root(DEV.account, "sts").assume_role(
            RoleArn=NAMES.role_arn("seal"), RoleSessionName="seal"
        )["Credentials"]
        credentials = {
            "AWS_ACCESS_KEY_ID": session["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": session["SecretAccessKey"],
            "AWS_SESSION_TOKEN": session["SessionToken"],
        }
        event = {
            "execution_id": "abcdefghijkl",
            "model_data_url": f"s3://{ARTIFACTS}/{OUTPUT}",
            "archive_sha256": hashlib.sha256(content).hexdigest(),
            "content_sha256": content_sha256(io.BytesIO(content)),
        }
        endpoint = self.accounts.local.endpoint
        return invoke(
            "seal", event, endpoint_url=endpoint, environment=credentials, module="sealer"
        )

    def release(self, content: bytes) -> Release:
        """Train, seal and register an archive; return its pin."""
        self.train(content)
        url = self.seal(content).result["model_data_url"]
        container = {"Image": INFERENCE_IMAGE, "ModelDataUrl": url, "Environment": ENVIRONMENT}
        types = {
            "SupportedContentTypes": ["application/json"],
            "SupportedResponseMIMETypes": ["application/json"],
        }
        arn = self.accounts.root(DEV.account, "sagemaker").create_model_package(
            ModelPackageGroupName=NAMES.model_package_group,
            ModelApprovalStatus="Approved",
            InferenceSpecification={"Containers": [container], **types},
        )["ModelPackageArn"]
        changes = {
            "model_package_arn": arn,
            "model_package_version": int(arn.rpartition("/")[2]),
            "image_uri": INFERENCE_IMAGE,
            "environment": ENVIRONMENT,
            "model_data_url": url,
            "model_data_sha256": hashlib.sha256(content).hexdigest(),
        }
        return Release(**CONTENT | changes)

    def deploy(self, release: Release) -> tuple[str, list[str]]:
        """Deploy what serves the release in staging; return the stack's status and why resources
        failed.
        """
        return self.accounts.deploy(STAGING.account, SERVING, self._template(release))

    def destroy(self) -> None:
        """Delete what serves."""
        cloudformation = self.accounts.root(STAGING.account, "cloudformation")
        cloudformation.delete_stack(StackName=SERVING)
        cloudformation.get_waiter("stack_delete_complete").wait(
            StackName=SERVING, WaiterConfig={"Delay": 1}
        )

    def answer(self) -> float:
        """Return what staging's endpoint makes of 2."""
        runtime = self.accounts.root(STAGING.account, "sagemaker-runtime")
        answer = runtime.invoke_endpoint(
            EndpointName=Names(STAGING).serving_endpoint,
            Body=b'{"x": 2}',
            ContentType="application/json",
        )
        return float(json.loads(answer["Body"].read())["y"])

    def _template(self, release: Release) -> dict[str, Any]:
        """Return the part of staging's serving stack that needs no other stack but the data's."""
        changes = {"release": release, "serving": STAGING.serving}
        pinning = STAGING.model_copy(update=changes)
        templates = synthesised({"staging": pinning}, self.folder / release.version)["staging"]
        resources = {
            key: each
            for key, each in templates.stacks[SERVING]["Resources"].items()
            if key.startswith(_SERVED)
        }
        for each in resources.values():
            properties = each.get("Properties", {})
            each["DependsOn"] = [key for key in each.get("DependsOn", []) if key in resources]
            if each["Type"] == "AWS::SageMaker::Model":
                del properties["VpcConfig"]
            if each["Type"] == "AWS::SageMaker::Endpoint":
                del properties["DeploymentConfig"]
            if each["Type"] == "AWS::Lambda::Function":
                self._upload(properties["Code"])
        text = json.dumps({"Resources": resources})
        return dict(json.loads(text, object_hook=self._without_imports))

    def _without_imports(self, value: dict[str, Any]) -> Any:
        return self.staging_key if "Fn::ImportValue" in value else value

    def _upload(self, code: dict[str, str]) -> None:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as file:
            for path in sorted((FUNCTIONS / "seal").glob("*.py")):
                file.write(path, path.name)
        s3 = self.accounts.root(STAGING.account, "s3")
        bucket = f"cdk-hnb659fds-assets-{STAGING.account}-{STAGING.region}"
        code["S3Bucket"] = bucket
        if bucket not in {each["Name"] for each in s3.list_buckets()["Buckets"]}:
            s3.create_bucket(Bucket=bucket)
        s3.put_object(Bucket=bucket, Key=code["S3Key"], Body=buffer.getvalue())

    def make_roles(self, environment: Any, key: str, templates: Templates) -> None:
        """Create the environment's roles with the policies of its stacks, for the key that
        exists; everybody in the account may assume them.
        """
        iam, names = self.accounts.root(environment.account, "iam"), Names(environment)
        policies = templates.identity_policies()
        for actor in (*JOBS, "seal"):
            name, principal = names.role(actor), {"AWS": f"arn:aws:iam::{environment.account}:root"}
            iam.create_role(RoleName=name, AssumeRolePolicyDocument=trust(principal))
            for policy, document in policies[name].items():
                text = json.dumps(document).replace(KEY, key)
                iam.put_role_policy(RoleName=name, PolicyName=policy, PolicyDocument=text)
