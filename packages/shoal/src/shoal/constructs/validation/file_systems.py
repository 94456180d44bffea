"""FSx for Lustre: combinations that CloudFormation's schema, cfn-lint and the CDK accept, and
Amazon FSx refuses after minutes.

Source: Amazon FSx API reference, CreateFileSystem (StorageCapacity, FileSystemTypeVersion),
CreateFileSystemLustreConfiguration and CreateDataRepositoryAssociation.
`shoal.settings.sections.file_system` checks an environment file; these rules check what is really
deployed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from shoal.constructs.validation.findings import Finding, Template, resources

COMBINATION = "SHOAL-FileSystemCombination"
NO_DELETIONS = "SHOAL-FileSystemDeletions"
THROUGHPUTS = (125, 250, 500, 1000)
MIN_GIB, STEP_GIB = 1200, 2400
VERSION = "2.15"


def check(template: Template) -> Iterator[Finding]:
    """Yield every broken rule of the template's file systems and their associations."""
    for logical_id, properties in resources(template, "AWS::FSx::FileSystem"):
        yield from (Finding(COMBINATION, logical_id, text) for text in _mistakes(properties))
    for logical_id, properties in resources(template, "AWS::FSx::DataRepositoryAssociation"):
        events = properties.get("S3", {}).get("AutoExportPolicy", {}).get("Events", [])
        if "DELETED" in events:
            yield Finding(
                NO_DELETIONS,
                logical_id,
                "carries deletions to the bucket, where the data of record is; export NEW and"
                " CHANGED only",
            )


def _mistakes(properties: Mapping[str, Any]) -> Iterator[str]:
    lustre = properties.get("LustreConfiguration", {})
    kind, throughput = lustre.get("DeploymentType"), lustre.get("PerUnitStorageThroughput")
    capacity, version = properties.get("StorageCapacity"), properties.get("FileSystemTypeVersion")
    if kind not in ("SCRATCH_2", "PERSISTENT_2"):
        yield f"DeploymentType is {kind}; use SCRATCH_2 or PERSISTENT_2"
    if not isinstance(capacity, int) or (capacity != MIN_GIB and capacity % STEP_GIB):
        yield f"StorageCapacity is {capacity}; use {MIN_GIB} or a multiple of {STEP_GIB}"
    if kind == "SCRATCH_2" and throughput is not None:
        yield f"PerUnitStorageThroughput is {throughput}; SCRATCH_2 takes none"
    if kind == "PERSISTENT_2" and throughput not in THROUGHPUTS:
        some = ", ".join(map(str, THROUGHPUTS))
        yield f"PerUnitStorageThroughput is {throughput}; PERSISTENT_2 needs one of {some}"
    if version != VERSION:
        yield (
            f"FileSystemTypeVersion is {version}; the default cannot have associations, use"
            f" {VERSION}"
        )
    if len(properties.get("SubnetIds", [])) != 1:
        yield "SubnetIds must be exactly one subnet, in the training nodes' availability zone"
