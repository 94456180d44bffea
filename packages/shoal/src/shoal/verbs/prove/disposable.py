"""The disposable environment in which a proof runs, in a checkout of its own, and what an account
has of it. Nothing of the user's is read but the code, and nothing is written.
"""

from __future__ import annotations

import re
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import yaml

from shoal.aws import inventory
from shoal.aws.cdk import TOOLKIT_STACK
from shoal.aws.stacks import describe_stack
from shoal.aws.target import Target, items
from shoal.errors import UsageError
from shoal.settings.loading.loader import load_environment
from shoal.settings.names import ENVIRONMENT_TAG
from shoal.settings.parsing.yaml_file import read_table
from shoal.verbs.new_workload import write_workload
from shoal.verbs.workspace import Session, Workspace

_PROJECT = "proof"
_NAMES = re.compile(rf"\bshoal-{_PROJECT}-(prove-[0-9a-f]{{4}})\b")
_COPIED, _LINKED = ("app.py", "cdk.json", "pipelines", "stacks"), ("node_modules", ".shoal/jsii")
"""What is linked takes long to make; it is not packed."""
_TABLE = read_table(__file__, "environment.yaml")
REGIONS: tuple[str, ...] = tuple(_TABLE["zones"])


def new_name() -> str:
    """Return a name that no environment had: S3 gives a bucket's name back only after a while."""
    return f"prove-{secrets.token_hex(2)}"


def open_session(
    workspace: Workspace,
    folder: Path,
    name: str,
    account: str,
    region: str,
    local: bool,
    tags: Mapping[str, str] = MappingProxyType({}),
) -> Session:
    """Return a session of the environment `name` in `folder`, which becomes a checkout with the
    user's code and the workload of `shoal new`; what is made there has `tags`.

    Raises NotFoundError (no shoal-local runs), UsageError (it plays another account or region).
    """
    running = workspace.local_server.require() if local else None
    if running and (account not in running.accounts or region != running.region):
        raise UsageError(
            f"the emulator plays {running.description}: type"
            f" `shoal prove {running.account} --region {running.region} --local`"
        )
    shutil.rmtree(folder)
    for each in (*_COPIED, *_LINKED):
        source, place = workspace.root / each, folder / each
        place.parent.mkdir(parents=True, exist_ok=True)
        if each in _LINKED:
            source.mkdir(parents=True, exist_ok=True)
            place.symlink_to(source)
        elif source.is_dir():
            shutil.copytree(source, place, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, place)
    file = folder / write_workload(folder, name, "classification")[1]
    training, *hosting = _TABLE["zones"][region]
    data = yaml.safe_load(file.read_text(encoding="utf-8"))
    data |= {"account": account, "region": region, "project": _PROJECT}
    data |= {"network": {"training_az_id": training, "hosting_az_ids": hosting}}
    data |= _TABLE["sections"] | ({"tags": dict(tags)} if tags else {})
    data["training"]["instance_count"] = _TABLE["instance_count"]
    file.write_text(yaml.safe_dump(data), encoding="utf-8")
    environment = load_environment(name, folder)
    target = workspace.target_of(environment, local)
    return Session(Workspace(folder, workspace.environ), environment, target)


def require_no_stack(target: Target) -> None:
    """Raise UsageError if the account has a stack that is neither the CDK's nor a proof's."""
    stacks = items(target.client("cloudformation"), "describe_stacks", "Stacks")
    names = [stack["StackName"] for stack in stacks]
    others = [each for each in names if each != TOOLKIT_STACK and not _NAMES.match(each)]
    if others:
        raise UsageError(
            f"{target.description} has other stacks ({', '.join(others)}): nothing was made; prove"
            " it in an account that is there for nothing else"
        )


def leftovers(target: Target) -> list[str]:
    """Return the names of the proofs' environments of which something is in the account; last the
    one that made the bootstrap, whose roles delete stacks.
    """
    owner, bootstrapper = inventory.Owner(f"shoal-{_PROJECT}"), bootstrapped_by(target)
    names = [each.name for each in inventory.of_environment(target, owner)]
    matches = map(_NAMES.search, [*names, bootstrapper])
    found = {match[1] for match in matches if match}
    return sorted(found, key=lambda name: (bootstrapper.endswith(name), name))


def bootstrapped_by(target: Target) -> str:
    """Return the prefix of the proof that made the CDK's bootstrap stack; empty where none did."""
    tags = (describe_stack(target, TOOLKIT_STACK) or {}).get("Tags", ())
    values = [str(tag["Value"]) for tag in tags if tag["Key"] == ENVIRONMENT_TAG]
    return next(filter(_NAMES.fullmatch, values), "")
