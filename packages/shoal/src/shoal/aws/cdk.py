"""Run the real CDK CLI (node_modules/aws-cdk) against any target; each command writes a log."""

import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from shoal import node_packages
from shoal.aws.target import Target, offline_environment
from shoal.errors import ToolMissingError
from shoal.node_packages import node
from shoal.processes import Command, run
from shoal.settings.organisation import DEFAULT_QUALIFIER, toolkit_stack

TOOLKIT_STACK = toolkit_stack(DEFAULT_QUALIFIER)
_SYNTH_TIMEOUT_S = 300.0
_DEPLOY_TIMEOUT_S = 3600.0
_NO_DIFFERENCES = re.compile(r"^\S+ +Number of stacks with differences: 0$", re.MULTILINE)
FLAGS = ("--ci", "--no-color", "--no-notices")


@dataclass(frozen=True)
class Cdk:
    """The CLI for one checkout."""

    root: Path
    inherited: Mapping[str, str]
    """Environment variables that the CLI may see; on AWS, all of the user's."""
    assembly: Path
    """The folder of the cloud assembly: `synth` writes it, the others read it."""
    logs: Path
    """Gets one file per command."""
    scratch: Path
    """A folder for temporary files; on shoal-local also for what the CLI keeps at home."""
    on_line: Callable[[str], None] | None = None

    def synth(
        self,
        environment: str | None = None,
        strategy: str | None = None,
        *,
        for_aws: bool = False,
    ) -> None:
        """Write the cloud assembly of one environment or of all, without network and credentials.

        `strategy` names an overlay in environments/strategies/ to lay over the environment. The
        CDK's own validation of templates, half of the time, is for those that go to AWS.
        """
        context = {"environment": environment, "strategy": strategy}
        options = [f"--context={key}={value}" for key, value in context.items() if value]
        app = ("--app", shlex.join([sys.executable, "app.py"]))
        arguments = (*app, "--output", str(self.assembly), "--quiet", *options)
        # the CLI keeps the assets of earlier synths
        shutil.rmtree(self.assembly, ignore_errors=True)
        variables = offline_environment(self.inherited) | self._home
        if not for_aws:  # read by aws-cdk-lib (AppProps.builtinCloudFormationValidation)
            variables["CDK_VALIDATION"] = "false"
        self._cdk("synth", arguments, variables, _SYNTH_TIMEOUT_S)

    def bootstrap(self, target: Target, qualifier: str, *options: str) -> None:
        """Create or update the bootstrap stack of the target's account and region."""
        account = f"aws://{target.account}/{target.region}"
        # Not from the checkout: where the CLI finds an app, it synthesises all of it first, to look
        # for further accounts.
        variables = self._variables(target)
        if qualifier != DEFAULT_QUALIFIER:
            stack = toolkit_stack(qualifier)
            options = (*options, f"--qualifier={qualifier}", f"--toolkit-stack-name={stack}")
        self._cdk("bootstrap", (account, *options), variables, _DEPLOY_TIMEOUT_S, cwd=self.scratch)

    def deploy(
        self, target: Target, environment: str, stack: str = "*", patience_s: float = 0.0
    ) -> None:
        """Deploy every stack of the environment, or those that the pattern `stack` matches, with
        what they depend on, from the assembly.

        `patience_s` is added to the deadline.
        """
        method = ("--method=direct",) if target.is_local else ()
        arguments = (*self._stacks(environment, stack), "--require-approval=never", *method)
        timeout_s = _DEPLOY_TIMEOUT_S + patience_s
        self._cdk("deploy", arguments, self._variables(target), timeout_s)

    def diff(self, target: Target, environment: str, stack: str = "*") -> str:
        """Return what the CLI says of differences from what is deployed; empty if none."""
        method = ("--method=template",) if target.is_local else ()
        arguments = (*self._stacks(environment, stack), "--no-fail", *method)
        self._cdk("diff", arguments, self._variables(target), _SYNTH_TIMEOUT_S)
        said = (self.logs / "cdk-diff.log").read_text(encoding="utf-8")
        _, begin, rest = said.partition("Stack ")  # before it: which role the CLI asks with
        return "" if _NO_DIFFERENCES.search(said) else f"{begin}{rest}".rstrip()

    def destroy(self, target: Target, environment: str) -> None:
        """Destroy every stack of the environment that is in the assembly."""
        arguments = (*self._stacks(environment), "--force")
        self._cdk("destroy", arguments, self._variables(target), _DEPLOY_TIMEOUT_S)

    def _stacks(self, environment: str, stack: str = "*") -> tuple[str, ...]:
        return (f"{environment}/{stack}", "--app", str(self.assembly))

    def _cdk(
        self,
        verb: str,
        arguments: tuple[str, ...],
        variables: dict[str, str],
        timeout_s: float,
        cwd: Path | None = None,
    ) -> None:
        program = (str(node()), str(cli(self.root)), verb, *arguments, *FLAGS)
        environment = variables | {
            "JSII_NODE": str(node()),
            # by default in the user's home, which may be read-only
            "JSII_RUNTIME_PACKAGE_CACHE_ROOT": str(self.root / ".shoal" / "jsii"),
            "PATH": os.pathsep.join([str(node().parent), self.inherited.get("PATH", os.defpath)]),
            "NODE_COMPILE_CACHE": str(self.root / ".shoal" / "node"),  # a third of the CLI's start
            "CDK_DISABLE_CLI_TELEMETRY": "true",
            "CDK_DISABLE_VERSION_CHECK": "true",
            # what an app imports of the CDK for the first time would be compiled each time
            "PYTHONDONTWRITEBYTECODE": "",
            "TMPDIR": str(self.scratch),
        }
        self.scratch.mkdir(parents=True, exist_ok=True)
        log = self.logs / f"cdk-{verb}.log"
        command = Command(f"cdk {verb}", program, cwd or self.root, environment, log, timeout_s)
        run(command, self.on_line)

    def _variables(self, target: Target) -> dict[str, str]:
        return target.child_environment(self.inherited) | (self._home if target.is_local else {})

    @property
    def _home(self) -> dict[str, str]:
        return {"CDK_HOME": str(self.scratch)}


def cli(root: Path) -> Path:
    """Return the path of the CDK CLI's script.

    Installs it in a repository that leaves to Shoal which one that is. Raises ToolMissingError
    where it is missing, CommandError where it cannot be installed.
    """
    script = root / "node_modules" / "aws-cdk" / "bin" / "cdk"
    if not node_packages.has_own(root) and not node_packages.is_current(root):
        node_packages.install(root)
    if not script.is_file():
        raise ToolMissingError(
            f"the CDK CLI is not installed ({script} is missing); run `make install`"
        )
    return script
