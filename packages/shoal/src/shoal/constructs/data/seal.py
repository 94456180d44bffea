"""The function that seals evaluated archives, and the statements that keep them sealed."""

from __future__ import annotations

from collections.abc import Iterator

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from shoal.constructs.data.empty_on_delete import PURPOSE as EMPTY_ON_DELETE
from shoal.constructs.python_function import PythonFunction
from shoal.settings.names import BRING, CANDIDATES, SEALED, Names

PURPOSE = "seal"


class Seal(Construct):
    """It may read what training wrote; only it and what brings archives may write sealed ones."""

    def __init__(self, scope: Construct, construct_id: str, *, names: Names, key: kms.IKey) -> None:
        super().__init__(scope, construct_id)
        self.sealer = PythonFunction(
            self,
            "Sealer",
            names=names,
            purpose=PURPOSE,
            folder="seal",
            module="sealer",
            environment=sealed_variables(names),
            description=f"Copies an evaluated model of {names.pipeline} to where no job can write",
            # SageMaker developer guide, "Lambda step": a step waits for at most ten minutes.
            timeout=cdk.Duration.minutes(10),
            # It unpacks and hashes: one vCPU (Lambda developer guide, "Configure Lambda function
            # memory").
            memory_mb=1769,
        )
        sealed = sealed_folders(names)
        readable = [names.folder("training"), *sealed]
        role = self.sealer.role
        role.allow_part("seal", readable=readable, sealed=sealed, key=key.key_arn)
        if names.environment.training.keeps_files:
            role.allow_list({names.bucket("artifacts")}, readable)


def sealed_folders(names: Names) -> list[str]:
    """Return the prefixes below which sealed archives and their candidates lie."""
    own = names.folder(SEALED)
    # Alone, the second lies below the first.
    return [own] if own == SEALED else [own, names.folder(CANDIDATES)]


def sealed_variables(names: Names) -> dict[str, str]:
    """Return what a function must know that seals archives."""
    return {
        "SEALED_FOLDER": names.folder(SEALED),
        "CANDIDATES_FOLDER": names.folder(CANDIDATES),
    }


def sealing_statements(names: Names) -> Iterator[iam.PolicyStatement]:
    """Yield the statements of the artifact bucket that hold against every other policy.

    A role that does not exist here, as BRING where nothing is served, is nobody.
    """
    bucket = f"arn:aws:s3:::{names.bucket('artifacts')}"
    # Replication writes and deletes with actions of its own (S3 user guide, "Setting up permissions
    # for live replication").
    writes = ["s3:PutObject", "s3:ReplicateObject"]
    deletes = ["s3:DeleteObject", "s3:DeleteObjectVersion", "s3:ReplicateDelete"]
    writers = [names.role_arn(PURPOSE), names.role_arn(BRING)]
    yield _deny("OnlySealAndBringWriteModels", bucket, writes, writers)
    # In a protected environment that role does not exist, and nobody deletes.
    yield _deny("NobodyDeletesModels", bucket, deletes, [names.role_arn(EMPTY_ON_DELETE)])


def _deny(sid: str, bucket: str, actions: list[str], but: list[str]) -> iam.PolicyStatement:
    return iam.PolicyStatement(
        sid=sid,
        effect=iam.Effect.DENY,
        principals=[iam.AnyPrincipal()],
        actions=actions,
        resources=[f"{bucket}/{SEALED}/*"],
        conditions={"ArnNotEquals": {"aws:PrincipalArn": but}},
    )
