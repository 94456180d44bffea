"""What the job `deploy` takes of what `synth` packed: the script as the workflow calls it."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.repository import ROOT

SCRIPT = ROOT / ".github/scripts/take_assembly.py"
Assembly = dict[str, Any]
"""File name in cdk.out to its JSON."""


NESTED = "AWS::CloudFormation::Stack"


def at(path: str) -> dict[str, Any]:
    return {"Metadata": {"aws:asset:path": path, "aws:asset:property": "Code"}}


def assembly() -> Assembly:
    """Return what `cdk synth` writes for one stage: nested assembly, assets one folder above it."""
    stack = {
        "type": "aws:cloudformation:stack",
        "properties": {"templateFile": "stack.template.json"},
        "additionalMetadataFile": "stack.metadata.json",
    }
    assets = {"type": "cdk:asset-manifest", "properties": {"file": "stack.assets.json"}}
    nested = {"type": "cdk:cloud-assembly", "properties": {"directoryName": "assembly-dev"}}
    code = {"source": {"path": "../asset.1a2b", "packaging": "zip"}, "destinations": {}}
    return {
        "manifest.json": {"artifacts": {"assembly-dev": nested}},
        "assembly-dev/manifest.json": {"artifacts": {"stack": stack, "stack.assets": assets}},
        "assembly-dev/stack.template.json": {
            "Resources": {
                "A": {"executable": ["a property"]},
                "Code": {"Type": "AWS::Lambda::Function", **at("../asset.1a2b")},
                "Nested": {"Type": NESTED, **at("nested.template.json")},
            }
        },
        "assembly-dev/nested.template.json": {
            "Resources": {"Self": {"Type": NESTED, **at("nested.template.json")}, "B": {}}
        },
        "assembly-dev/stack.metadata.json": {"/a": [{"type": "aws:cdk:logicalId", "data": "A"}]},
        "assembly-dev/stack.assets.json": {"files": {"1a2b": code}, "dockerImages": {}},
        "asset.1a2b/handler.py": {},
    }


def packed(folder: Path, files: Assembly, members: tuple[tarfile.TarInfo, ...] = ()) -> Path:
    """Write the archive as the job packs it, with other members behind the files."""
    archive = folder / "cdk.out.tar"
    with tarfile.open(archive, "w") as tar:
        for name, content in files.items():
            body = json.dumps(content).encode()
            member = tarfile.TarInfo(f"cdk.out/{name}")
            member.size = len(body)
            tar.addfile(member, io.BytesIO(body))
        for member in members:
            tar.addfile(member)
    return archive


def take(archive: Path) -> subprocess.CompletedProcess[str]:
    command: list[str | Path] = [sys.executable, SCRIPT, archive, archive.parent / "assembly"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_an_assembly_as_synth_writes_it_is_taken_whole(tmp_path: Path) -> None:
    process = take(packed(tmp_path, assembly()))
    assert process.returncode == 0, process.stderr
    taken = tmp_path / "assembly/cdk.out"
    assert {str(path.relative_to(taken)) for path in taken.rglob("*") if path.is_file()} == {
        *assembly()
    }


def test_templates_that_name_each_other_in_many_ways_are_read_once(tmp_path: Path) -> None:
    files, depth = assembly(), 40
    for number in range(depth):
        below = [at(f"{number + 1}{side}.json") for side in "ab" if number + 1 < depth]
        resources = {str(name): {"Type": NESTED, **each} for name, each in enumerate(below)}
        files |= {f"assembly-dev/{number}{side}.json": {"Resources": resources} for side in "ab"}
    of_template("stack", Type=NESTED, **at("0a.json"))(files)
    assert take(packed(tmp_path, files)).returncode == 0


def of_assets(change: Callable[[dict[str, Any]], Any]) -> Callable[[Assembly], Any]:
    return lambda files: change(files["assembly-dev/stack.assets.json"])


def of_stack(**keys: Any) -> Callable[[Assembly], Any]:
    return lambda files: files["assembly-dev/manifest.json"]["artifacts"]["stack"].update(keys)


def of_template(name: str, **resource: Any) -> Callable[[Assembly], Any]:
    return lambda files: files[f"assembly-dev/{name}.template.json"]["Resources"].update(X=resource)


IMAGE = {"x": {"source": {"directory": "."}, "destinations": {}}}
PROGRAM = {"x": {"source": {"executable": ["/bin/sh", "-c", "id"]}, "destinations": {}}}
OLD_ASSET = [{"type": "aws:cdk:asset", "data": {"packaging": "file", "path": "/etc/passwd"}}]


def source(path: str) -> dict[str, Any]:
    return {"x": {"source": {"path": path, "packaging": "file"}, "destinations": {}}}


def renamed(files: Assembly) -> None:
    """Call the manifest of assets as no pattern of names would find it."""
    files["assembly-dev/a"] = {"files": PROGRAM}
    artifacts = files["assembly-dev/manifest.json"]["artifacts"]
    artifacts["stack.assets"]["properties"]["file"] = "a"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (of_assets(lambda each: each["files"].update(PROGRAM)), "an executable"),
        (of_assets(lambda each: each["dockerImages"].update(IMAGE)), "Docker images"),
        (of_assets(lambda each: each["dockerImages"].update(PROGRAM)), "Docker images"),
        (of_assets(lambda each: each["files"].update(source("/proc/self/environ"))), "outside"),
        (of_assets(lambda each: each["files"].update(source("../../../x"))), "outside"),
        (renamed, "an executable"),
        (of_stack(metadata={"/a": OLD_ASSET}), "outside a manifest"),
        (of_stack(additionalMetadataFile="../../x.json"), "outside the assembly"),
        (of_stack(properties={"templateFile": "/etc/passwd"}), "outside the assembly"),
        (of_template("stack", **at("/proc/self/environ")), "outside the assembly"),
        (of_template("stack", **at("../../x"), Type=NESTED), "outside the assembly"),
        (of_template("stack", **at("../../cdk.out-x/y")), "outside the assembly"),
        (of_template("stack", **at("none.json"), Type=NESTED), "none.json"),
        (of_template("nested", **at("../../../etc/passwd")), "outside the assembly"),
        (of_template("nested", **at("/etc/hosts"), Type=NESTED), "outside the assembly"),
        (
            lambda files: files["assembly-dev/stack.metadata.json"].update({"/a": OLD_ASSET}),
            "outside a manifest",
        ),
        (
            lambda files: files["manifest.json"]["artifacts"]["assembly-dev"]["properties"].update(
                directoryName="../elsewhere"
            ),
            "outside the assembly",
        ),
        (lambda files: files.update({"assembly-dev/stack.assets.json": []}), "no JSON object"),
        (
            lambda files: files["manifest.json"].update(missing=[{"key": "a", "provider": "ami"}]),
            "look-ups",
        ),
    ],
)
def test_what_would_run_or_read_here_is_refused(
    tmp_path: Path, change: Callable[[Assembly], Any], says: str
) -> None:
    files = assembly()
    change(files)
    process = take(packed(tmp_path, files))
    assert process.returncode == 1
    assert process.stderr.startswith("refused: ")
    assert says in process.stderr


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


@pytest.mark.parametrize(
    "members",
    [
        (member("cdk.out", tarfile.SYMTYPE, "."), member("cdk.out/package-lock.json")),
        (member("cdk.out/a", tarfile.SYMTYPE, "/proc/self/environ"),),
        (member("cdk.out/a", tarfile.LNKTYPE, "cdk.out/manifest.json"),),
        (member("cdk.out/a", tarfile.FIFOTYPE),),
        (member("package.json"),),
        (member("/tmp/x"),),
        (member("cdk.out/../x"),),
    ],
)
def test_links_and_what_lies_elsewhere_are_refused_before_anything_is_unpacked(
    tmp_path: Path, members: tuple[tarfile.TarInfo, ...]
) -> None:
    process = take(packed(tmp_path, assembly(), members))
    assert (process.returncode, process.stderr[:9]) == (1, "refused: ")
    assert not any((tmp_path / "assembly").iterdir())


def test_nothing_is_unpacked_where_something_is(tmp_path: Path) -> None:
    (tmp_path / "assembly").mkdir()
    assert take(packed(tmp_path, assembly())).returncode == 1
