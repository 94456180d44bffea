"""The real stacks of `dev`, with a training script of no weight, synthesised once; put into any
emulator in a few seconds.

What the `cdk` CLI does is done here directly, because that is a tenth of the time: assets to the
bootstrap bucket, then one stack after the other. tests/end_to_end deploys the same stacks with the
CLI.
"""

from __future__ import annotations

import json
import time
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from config.loader import load_environment
from config.names import Names
from config.settings import Endpoint, Environment
from pipelines.launch import launch_of
from stacks.node import use_installed_node
from tests.functions.make_digits import digits_file
from tests.repository import ROOT

SOURCE = "tests/chaos/source"
_LIMIT_S = 240.0
_POLL_S = 0.1


@dataclass(frozen=True)
class Asset:
    """A file or a folder (to be zipped) of the cloud assembly, and where the templates expect
    it.
    """

    path: Path
    is_folder: bool
    bucket: str
    key: str

    def content(self) -> bytes:
        if not self.is_folder:
            return self.path.read_bytes()
        buffer = BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for file in sorted(self.path.rglob("*")):
                if file.is_file():
                    archive.write(file, file.relative_to(self.path).as_posix())
        return buffer.getvalue()


@dataclass(frozen=True)
class Deployment:
    """Templates in the order of their dependencies, and what they refer to."""

    names: Names
    stacks: tuple[tuple[str, dict[str, Any]], ...]
    assets: tuple[Asset, ...]

    def put(self, client: Any) -> None:
        """Deploy into the emulator that `client(service)` speaks to, and upload the data.

        AssertionError when a stack does not come.
        """
        s3 = client("s3")
        for bucket in sorted({asset.bucket for asset in self.assets}):
            s3.create_bucket(Bucket=bucket)
        for asset in self.assets:
            s3.put_object(Bucket=asset.bucket, Key=asset.key, Body=asset.content())
        client("ssm").put_parameter(
            Name="/cdk-bootstrap/hnb659fds/version", Value="30", Type="String"
        )
        for name, template in self.stacks:
            _create(client("cloudformation"), name, template)
        for channel in ("train", "test"):
            bucket, _, prefix = self.names.dataset_uri.removeprefix("s3://").partition("/")
            s3.put_object(Bucket=bucket, Key=f"{prefix}/{channel}/digits.json", Body=digits_file())


def environment() -> Environment:
    """`dev` with small jobs; everything that tears down is as it is."""
    dev = load_environment("dev", ROOT, "none")
    training = dev.training.model_copy(
        update={"source_dir": SOURCE, "hyperparameters": {"fault": 0}}
    )
    endpoint = Endpoint(max_latency_ms=60_000, ttl_minutes=10)
    evaluation = dev.evaluation.model_copy(
        update={"max_runtime_s": 24 * 3600}
    )  # the bystander's job waits longer than all cases take
    return dev.model_copy(
        update={"training": training, "evaluation": evaluation, "endpoint": endpoint}
    )


def synthesise(folder: Path) -> Deployment:
    """The templates and assets in the empty `folder`."""
    use_installed_node()
    from stacks.app import ShoalApp  # starts Node.js
    from stacks.stage import Deployment as OfWorkload
    from stacks.stage import EnvironmentStage

    chosen = environment()
    context = json.loads((ROOT / "cdk.json").read_text())["context"]
    app = ShoalApp(outdir=str(folder), context=context, checked=False)
    EnvironmentStage(app, workloads=[OfWorkload(chosen, launch_of(chosen, ROOT))], root=ROOT)
    assembly = app.synth().get_nested_assembly(f"assembly-{chosen.name}")
    stacks = tuple((str(stack.stack_name), dict(stack.template)) for stack in assembly.stacks)
    assets = {asset.key: asset for asset in _assets(Path(assembly.directory), chosen)}
    return Deployment(Names(chosen), stacks, tuple(assets.values()))


def _assets(folder: Path, chosen: Environment) -> Iterator[Asset]:
    for manifest in sorted(folder.glob("*.assets.json")):
        for entry in json.loads(manifest.read_text())["files"].values():
            path = folder / entry["source"]["path"]
            if path.suffixes[-2:] == [".template", ".json"]:
                continue
            for destination in entry["destinations"].values():
                bucket = (
                    destination["bucketName"]
                    .replace("${AWS::AccountId}", chosen.account)
                    .replace("${AWS::Region}", chosen.region)
                )
                yield Asset(
                    path, entry["source"]["packaging"] == "zip", bucket, destination["objectKey"]
                )


def _create(cloudformation: Any, name: str, template: dict[str, Any]) -> None:
    document = {
        key: value for key, value in template.items() if key != "Rules"
    }  # they look for the bootstrap stack
    cloudformation.create_stack(
        StackName=name, TemplateBody=json.dumps(document), Capabilities=["CAPABILITY_NAMED_IAM"]
    )
    deadline = time.monotonic() + _LIMIT_S
    while (
        status := cloudformation.describe_stacks(StackName=name)["Stacks"][0]["StackStatus"]
    ).endswith("IN_PROGRESS"):
        assert time.monotonic() < deadline, f"{name} is still {status}"
        time.sleep(_POLL_S)
    if status != "CREATE_COMPLETE":
        events = cloudformation.describe_stack_events(StackName=name)["StackEvents"]
        raise AssertionError(
            f"{name}:"
            f" {[e.get('ResourceStatusReason') for e in events if e['ResourceStatus'].endswith('FAILED')]}"  # noqa: E501
        )
