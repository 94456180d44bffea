"""A Lambda function from a folder of `packages/shoal/src/shoal/functions/`, with its own name, log
group and role.
"""

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from shoal.constructs.roles.actor_role import ActorRole, acknowledge
from shoal.settings.names import Names
from shoal.settings.parsing.plain_files import require_plain

FUNCTIONS = Path(__file__).resolve().parents[1] / "functions"
"""The library's own folder of functions, wherever the app's checkout is."""


class PythonFunction(Construct):
    """`function` and its `role`, which may write only the function's log until more is allowed."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        purpose: str,
        folder: str,
        description: str,
        timeout: cdk.Duration,
        environment: Mapping[str, str] | None = None,
        module: str = "handler",
        memory_mb: int = 256,
        files: Mapping[str, bytes] | None = None,
    ) -> None:
        """`folder` is the name of one in FUNCTIONS; `files`, by their paths, are packed with it."""
        super().__init__(scope, construct_id)
        self.purpose = purpose
        self.role = ActorRole(
            self, "Role", names=names, actor=purpose, service="lambda", description=description
        )
        name = names.function(purpose)
        group = f"/aws/lambda/{name}"
        log_group = logs.LogGroup(
            self,
            "Log",
            log_group_name=group,
            retention=logs.RetentionDays.THREE_MONTHS,
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )
        self.role.allow_part("own-log", log_group=group, owner="function", service="Lambda")
        with _code(FUNCTIONS / folder, files or {}) as code:
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
                timeout=timeout,
                memory_size=memory_mb,
                environment=dict(environment or {}),
            )
        why = "Python 3.12 is the newest version that the tests and the local emulator run, too."
        acknowledge(self.function, {"AwsSolutions-L1": why})


@contextmanager
def _code(folder: Path, files: Mapping[str, bytes]) -> Iterator[lambda_.AssetCode]:
    """Yield the folder's code with `files` in it.

    The CDK copies it into the cloud assembly inside the function's constructor.
    """
    require_plain(folder)
    ignored = ["__pycache__", "*.pyc"]
    if not files:
        yield lambda_.Code.from_asset(str(folder), exclude=ignored)
        return
    with tempfile.TemporaryDirectory(prefix="shoal-function-") as temporary:
        packed = Path(temporary, folder.name)
        shutil.copytree(folder, packed, ignore=shutil.ignore_patterns(*ignored))
        for name, content in files.items():
            (packed / name).parent.mkdir(parents=True, exist_ok=True)
            (packed / name).write_bytes(content)
        yield lambda_.Code.from_asset(str(packed))
