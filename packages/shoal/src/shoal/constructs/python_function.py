"""A Lambda function of functions.yaml, with its own name, log group and role."""

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from shoal.constructs.roles.actor_role import ActorRole, acknowledge
from shoal.settings.names import Names
from shoal.settings.parsing.plain_files import require_plain
from shoal.settings.parsing.yaml_file import read_table

FUNCTIONS = Path(__file__).resolve().parents[1] / "functions"
"""The library's own folder of functions, wherever the app's checkout is."""


class PythonFunction(Construct):
    """`function` and its `role`, which may write only the function's log until more is allowed.

    A custom resource has its answer when `answered_within` is over.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        purpose: str,
        environment: Mapping[str, str] | None = None,
        files: Mapping[str, bytes] | None = None,
    ) -> None:
        """`files`, by their paths, are packed with it."""
        super().__init__(scope, construct_id)
        self.purpose, row = purpose, _table()[purpose]
        shared = {Path(name).name: (FUNCTIONS / name).read_bytes() for name in row.get("with", ())}
        self.answered_within = cdk.Duration.minutes(row["minutes"] + 1)
        folder, module = row["code"].split("/")
        description = row["description"].format(names=names)
        self.role = ActorRole(
            self, "Role", names=names, actor=purpose, service="lambda", description=description
        )
        name = names.function(purpose)
        group = f"/aws/lambda/{name}"
        log_group = logs.LogGroup(
            self, "Log", log_group_name=group, removal_policy=cdk.RemovalPolicy.DESTROY
        )
        self.role.allow_part("own-log", log_group=group, owner="function", service="Lambda")
        with _code(FUNCTIONS / folder, {**shared, **(files or {})}) as code:
            self.function = lambda_.Function(
                self,
                "Function",
                function_name=name,
                description=description,
                runtime=lambda_.Runtime.PYTHON_3_12,
                handler=f"{module}.handler",
                code=code,
                role=self.role,
                log_group=log_group,
                timeout=cdk.Duration.minutes(row["minutes"]),
                memory_size=row.get("memory_mb", 256),
                environment=dict(environment or {}),
            )
        why = "Python 3.12 is the newest version that the tests and the local emulator run, too."
        acknowledge(self.function, {"AwsSolutions-L1": why})


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = read_table(__file__, "functions.yaml")
    return table


@contextmanager
def _code(folder: Path, files: Mapping[str, bytes]) -> Iterator[lambda_.AssetCode]:
    """Yield the folder's code with `files` in it, from a copy.

    The CDK copies it into the cloud assembly inside the function's constructor.
    """
    require_plain(folder)
    with tempfile.TemporaryDirectory(prefix="shoal-function-") as temporary:
        packed = Path(temporary, folder.name)
        shutil.copytree(folder, packed, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
        for name, content in files.items():
            (packed / name).parent.mkdir(parents=True, exist_ok=True)
            (packed / name).write_bytes(content)
        yield lambda_.Code.from_asset(str(packed))
