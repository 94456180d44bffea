"""Unpacks what the job `synth` packed, and refuses what would run here, or read what is here.

    python3 take_assembly.py cdk.out.tar FOLDER

`cdk deploy` runs every `executable` of an asset manifest, builds every Docker image in it, and
publishes every file that it names. The templates themselves are trusted: docs/gitops.md. Needs
nothing but Python 3.12: an installed package could take the token of the job that calls this.
"""

from __future__ import annotations

import json
import sys
import tarfile
from pathlib import Path
from typing import Any

TOP = "cdk.out"
LEGACY_ASSET = "aws:cdk:asset"
"""Metadata by which older templates name a file to publish or an image to build."""
ASSET_PATH = "aws:asset:path"
"""Metadata of a resource that names its code, or a nested stack's template, which the CLI reads."""
NAMES_OF_FILES = ("file", "templateFile", "directoryName")
"""Properties of an artifact that name what the CLI reads."""


class RefusedError(Exception):
    """The reason why an assembly is not taken."""


def take(archive: Path, folder: Path) -> Path:
    """Unpack `archive` into `folder`, which is made. Return the assembly; raise RefusedError."""
    folder.mkdir()  # fails where it exists: nothing may lie there before
    with tarfile.open(archive) as tar:
        for member in tar:
            if not (member.isfile() or member.isdir()):
                raise RefusedError(f"{member.name} is neither a file nor a folder")
            if member.name.split("/")[0] != TOP or ".." in member.name.split("/"):
                raise RefusedError(f"{member.name} does not lie in {TOP}")
        tar.extractall(folder, filter="data")
    root = folder / TOP
    for manifest in sorted(root.rglob("manifest.json")):
        check_manifest(manifest, root.resolve())
    return root


def check_manifest(path: Path, root: Path) -> None:
    """Raise RefusedError for what a manifest, or one that it names, would run or read here."""
    manifest = _read(path)
    if manifest.get("missing"):
        raise RefusedError(f"{path.name} asks for look-ups, which would be made here")
    for artifact in manifest.get("artifacts", {}).values():
        properties = artifact.get("properties", {})
        for name in NAMES_OF_FILES:
            if name in properties:
                _inside(path, properties[name], root)
        if template := properties.get("templateFile"):
            check_template(path, template, root, set())
        metadata = [*artifact.get("metadata", {}).values()]
        if extra := artifact.get("additionalMetadataFile"):
            metadata += _read(_inside(path, extra, root)).values()
        if any(entry.get("type") == LEGACY_ASSET for each in metadata for entry in each):
            raise RefusedError(f"{path.name} names an asset outside a manifest of assets")
        if artifact["type"] == "cdk:asset-manifest":
            check_assets(_inside(path, properties["file"], root), root)
        if artifact["type"] == "cdk:cloud-assembly":
            nested = _inside(path, properties["directoryName"], root)
            if not (nested / "manifest.json").is_file():
                raise RefusedError(f"{nested} has no manifest")


def check_template(manifest: Path, name: str, root: Path, known: set[str]) -> None:
    """Raise RefusedError for a resource whose file, named from the manifest's folder, lies outside;
    `known` are the templates that were checked.
    """
    for resource in _read(_inside(manifest, name, root)).get("Resources", {}).values():
        asset = (resource.get("Metadata") or {}).get(ASSET_PATH)
        if asset is None:
            continue
        _inside(manifest, str(asset), root)
        if resource.get("Type") == "AWS::CloudFormation::Stack" and asset not in known:
            known.add(asset)
            check_template(manifest, str(asset), root, known)


def check_assets(path: Path, root: Path) -> None:
    """Raise RefusedError for an asset that is anything but files of the assembly."""
    assets = _read(path)
    if assets.get("dockerImages"):
        raise RefusedError(f"{path.name} has Docker images, which would be built here")
    for asset in assets.get("files", {}).values():
        if "executable" in asset["source"]:
            raise RefusedError(f"{path.name} has an executable, which would run here")
        _inside(path, asset["source"]["path"], root)


def _inside(manifest: Path, name: str, root: Path) -> Path:
    """Return what a manifest names, resolved. Raises RefusedError where that lies outside."""
    path = (manifest.parent / name).resolve()
    if not path.is_relative_to(root):
        raise RefusedError(f"{manifest.name} names {name}, outside the assembly")
    return path


def _read(path: Path) -> dict[str, Any]:
    content = json.loads(path.read_bytes())
    if not isinstance(content, dict):
        raise RefusedError(f"{path.name} is no JSON object")
    return content


if __name__ == "__main__":
    try:
        print("took", take(Path(sys.argv[1]), Path(sys.argv[2])))
    except (RefusedError, OSError, ValueError, KeyError, AttributeError, tarfile.TarError) as error:
        sys.exit(f"refused: {error}")
