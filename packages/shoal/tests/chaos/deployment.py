"""The real stacks of `dev`, of one workload or of two, with a training script of no weight,
synthesised once; put into any emulator in a few seconds.

What the `cdk` CLI does is done here directly, because that is a tenth of the time: assets to the
bootstrap bucket, then one stack after the other. packages/shoal/tests/end_to_end deploys the same
stacks with the CLI.
"""

import json
import shutil
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from local_kit.control import eventually
from shoal.constructs import use_installed_node
from shoal.launch import launch_of
from shoal.settings.capacity import Capacity
from shoal.settings.loading.loader import load_workloads
from shoal.settings.names import Names
from shoal.settings.sections.serving import NO_RECIPE, Endpoint
from shoal.settings.settings import Environment
from tests.chaos.cases import CAPACITY
from tests.functions.make_digits import digits_file
from tests.repository import ROOT, link_checkout

SOURCE = "packages/shoal/tests/chaos/source"
SECOND = "digits"
"""The name of the second workload."""
_LIMIT_S = 240.0


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

    each: tuple[Names, ...]
    """The names of each workload."""
    stacks: tuple[tuple[str, dict[str, Any]], ...]
    assets: tuple[Asset, ...]

    @property
    def names(self) -> Names:
        """The names of the first workload."""
        return self.each[0]

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
        for names in self.each:
            bucket, _, prefix = names.dataset_uri.removeprefix("s3://").partition("/")
            for channel in ("train", "test"):
                key = f"{prefix}/{channel}/digits.json"
                s3.put_object(Bucket=bucket, Key=key, Body=digits_file())


def checkout_with_twins(folder: Path) -> Path:
    """Make `folder` a repository whose `dev` has the workload mnist twice, the second
    time as digits; return it.
    """
    folder.mkdir()
    root = link_checkout(folder)
    code = root / "training_code"
    shutil.copytree(code / "mnist", code / SECOND)
    file = code / SECOND / "workload.yaml"
    file.write_text(file.read_text().replace("name: mnist", f"name: {SECOND}"))
    dev = root / "environments" / "dev.yaml"
    one, several = "workload: mnist", f"workloads: {{mnist: {{}}, {SECOND}: {{}}}}"
    dev.write_text(dev.read_text().replace(one, several))
    return root


def with_small_jobs(dev: Environment) -> Environment:
    """Return `dev` with small jobs; everything that tears down is as it is."""
    pools = Capacity(keep_alive_s=3600)  # longer than a case: who ends them is the teardown
    small = {"source_dir": SOURCE, "hyperparameters": {"fault": 0}, "capacity": pools}
    others = {"other_instance_types": tuple(CAPACITY)}  # what the roles let a variant ask for
    # the bystander's job waits longer than all cases take
    long = {"max_runtime_s": 24 * 3600}
    return dev.model_copy(
        update={
            "training": dev.training.model_copy(update=small | others),
            "evaluation": dev.evaluation.model_copy(update=long),
            "endpoint": Endpoint(max_latency_ms=60_000, ttl_minutes=10, build_image=NO_RECIPE),
        }
    )


def synthesise(folder: Path, root: Path = ROOT) -> Deployment:
    """The templates and assets of the repository's `dev`, in the empty `folder`."""
    use_installed_node()
    from shoal.constructs.app import Deployment as OfWorkload
    from shoal.constructs.app import feature_flags
    from stacks.platform import EnvironmentStage
    from tests.app import ShoalApp  # starts Node.js

    every = [with_small_jobs(view) for view in load_workloads("dev", root, "none")]
    context = feature_flags(root)
    app = ShoalApp(outdir=str(folder), context=context, checked=False)
    workloads = [OfWorkload(view, launch_of(view, root)) for view in every]
    EnvironmentStage(app, workloads=workloads, root=root)
    assembly = app.synth().get_nested_assembly("assembly-dev")
    stacks = tuple((str(stack.stack_name), dict(stack.template)) for stack in assembly.stacks)
    assets = {asset.key: asset for asset in _assets(Path(assembly.directory), every[0])}
    return Deployment(tuple(map(Names, every)), stacks, tuple(assets.values()))


def _assets(folder: Path, chosen: Environment) -> Iterator[Asset]:
    words = {"${AWS::AccountId}": chosen.account, "${AWS::Region}": chosen.region}
    for manifest in sorted(folder.glob("*.assets.json")):
        for entry in json.loads(manifest.read_text())["files"].values():
            source = entry["source"]
            path, is_folder = folder / source["path"], source["packaging"] == "zip"
            if path.suffixes[-2:] == [".template", ".json"]:
                continue
            for destination in entry["destinations"].values():
                bucket = destination["bucketName"]
                for word, value in words.items():
                    bucket = bucket.replace(word, value)
                yield Asset(path, is_folder, bucket, destination["objectKey"])


def _create(cloudformation: Any, name: str, template: dict[str, Any]) -> None:
    # its rules look for the bootstrap stack
    document = {key: value for key, value in template.items() if key != "Rules"}
    cloudformation.create_stack(
        StackName=name, TemplateBody=json.dumps(document), Capabilities=["CAPABILITY_NAMED_IAM"]
    )

    def ended() -> str | None:
        (stack,) = cloudformation.describe_stacks(StackName=name)["Stacks"]
        status = str(stack["StackStatus"])
        return None if status.endswith("IN_PROGRESS") else status

    status = eventually(ended, _LIMIT_S)
    if status != "CREATE_COMPLETE":
        events = cloudformation.describe_stack_events(StackName=name)["StackEvents"]
        failed = [each for each in events if each["ResourceStatus"].endswith("FAILED")]
        reasons = [each.get("ResourceStatusReason") for each in failed]
        raise AssertionError(f"{name} is {status}: {reasons}")
