"""`shoal demo`, and `shoal local up | down | status`: shoal-local in the background, one per
checkout.
"""

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from shoal.aws.target import local_access_key, loopback_variables
from shoal.cli.answers import Verdict, answers, exit_as, tell
from shoal.cli.main import ENDS, interrupted_once
from shoal.cli.options import enforce_iam_option, parameter_option, strategy_option
from shoal.cli.view import open_view
from shoal.errors import UsageError
from shoal.settings.external_data import every_external_folder
from shoal.settings.loading.loader import load_environment, load_workloads
from shoal.settings.parsing.errors import one_line
from shoal.settings.settings import Environment
from shoal.verbs.demo import LOGS, PAGE, Demo
from shoal.verbs.local_server import RunningServer
from shoal.verbs.parameters import parse_parameters
from shoal.verbs.workspace import Workspace

_EXPORTED = (
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_DEFAULT_REGION",
)

_SERVER: dict[str, Any] = {"endpoint": str | None, "accounts": list[str], "region": str | None}


@click.group()
def local() -> None:
    """AWS on this machine: the emulator."""


@local.command()
@click.argument("names", metavar="[ENV]...", nargs=-1)
@enforce_iam_option
@click.option(
    "--hosting-speed",
    type=click.FloatRange(1, 3600),
    help="60 makes a minute of waiting and baking of a deployment to an endpoint a second.",
)
@click.pass_obj
@answers(is_new=bool, variables=dict[str, str], notice=str | None, **_SERVER)
def up(
    workspace: Workspace,
    names: tuple[str, ...],
    enforce_iam: bool,
    hosting_speed: float | None,
) -> None:
    """Start the emulator in the background, as the accounts and the region of each ENV (dev) and of
    who owns its data, with their `local.images`.
    """
    environments = [load_workloads(name, workspace.root)[0] for name in names or ("dev",)]
    owners = (folder.account for each in environments for folder in every_external_folder(each))
    accounts = tuple(dict.fromkeys([*(each.account for each in environments), *owners]))
    if len({each.region for each in environments}) > 1:
        which = ", ".join(f"{each.name} is for {each.region}" for each in environments)
        raise UsageError(f"one emulator plays one region: {which}; name environments of one region")
    running = workspace.local_server.find()
    if running is None:
        running = workspace.local_server.start(
            accounts[0],
            environments[0].region,
            _images(environments),
            enforce_iam=enforce_iam,
            hosting_speed=hosting_speed or 1.0,
            other_accounts=accounts[1:],
        )
        tell(f"started: {_description(running)}", is_new=True)
    else:
        _require_fit(running, environments, enforce_iam, hosting_speed)
        tell(f"running already: {_description(running)}", is_new=False)
    if running.notice:
        tell(running.notice, notice=running.notice)
    tell("for the aws CLI and your own boto3 code:")
    variables = loopback_variables(running.endpoint, accounts[0], running.secret)
    variables["AWS_DEFAULT_REGION"] = running.region
    for name in _EXPORTED:
        value = variables[name]
        tell(f"  export {name}={shlex.quote(value)}", variables={name: value})
    for account in accounts[1:]:
        users = ", ".join(each.name for each in environments if each.account == account)
        users = users or "the owner of data in other buckets"
        tell(f"for {users} instead: export AWS_ACCESS_KEY_ID={local_access_key(account)}")


def _images(environments: Sequence[Environment]) -> dict[str, str]:
    """Return runtimes by patterns of images; raise UsageError where two environments differ."""
    images: dict[str, str] = {}
    for environment in environments:
        for pattern, runtime in environment.local.runtimes.items():
            if images.setdefault(pattern, runtime) != runtime:
                raise UsageError(
                    f"`local.images` of {environment.name} says {runtime} for {pattern}, another"
                    f" environment {images[pattern]}"
                )
    return images


def _require_fit(
    running: RunningServer,
    environments: Sequence[Environment],
    enforce_iam: bool,
    hosting_speed: float | None,
) -> None:
    """Raise UsageError when the running server lacks an account, a region or an option."""
    places = {each.name: (each.account, each.region) for each in environments}
    played = [(account, running.region) for account in running.accounts]
    unplayed = ", ".join(name for name, place in places.items() if place not in played)
    if unplayed:
        what = f"plays {running.description}, not what {unplayed} is for"
        again = " ".join(places)
    elif enforce_iam and not running.enforces_iam:
        what, again = "runs without --enforce-iam", "--enforce-iam"
    elif hosting_speed not in {None, running.hosting_speed}:
        what = f"runs with --hosting-speed {running.hosting_speed:g}"
        again = f"--hosting-speed {hosting_speed:g}"
    else:
        return
    raise UsageError(f"the emulator {what}; run `shoal local down`, then `shoal local up {again}`")


@local.command()
@click.pass_obj
@answers(was_running=bool)
def down(workspace: Workspace) -> None:
    """Stop the emulator and everything it runs, and remove its state."""
    local_server = workspace.local_server
    if not local_server.state.exists():
        tell("no emulator is running", was_running=False)
        return
    local_server.shut_down()
    tell("stopped; its processes, port and files are gone", was_running=True)


@local.command()
@click.pass_obj
@answers(is_running=bool, **_SERVER)
def status(workspace: Workspace) -> None:
    """Say whether the emulator runs, and where. Exit code 1 if it does not."""
    running = workspace.local_server.find()
    if running is None:
        tell("no emulator is running; start one with `shoal local up`", is_running=False)
        raise click.exceptions.Exit(1)
    tell(f"running: {_description(running)}", is_running=True)


def _description(running: RunningServer) -> str:
    """Return the server in a line, and tell what programs need of it."""
    tell(**{name: getattr(running, name) for name in _SERVER})
    text = f"{running.endpoint} (process {running.pid}), {running.description}"
    if running.enforces_iam:
        text += ", policies enforced"
    if running.hosting_speed != 1:
        text += f", deployments to endpoints {running.hosting_speed:g} times as fast"
    return text


@click.command()
@click.argument("environment", metavar="[ENV]", default="dev")
@click.argument("workload", metavar="[WORKLOAD]", required=False)
@strategy_option
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    help="Where the report goes (demo-out).",
)
@parameter_option
@enforce_iam_option
@click.pass_obj
@answers(
    output=str,
    summary=dict[str, Any],
    verdict=Verdict | None,
    gates=list[dict[str, Any]],
    failures=list[dict[str, str]],
)
def demo(
    workspace: Workspace,
    environment: str,
    workload: str | None,
    strategy: str | None,
    output: Path | None,
    parameters: tuple[str, ...],
    enforce_iam: bool,
) -> None:
    """Run all of it on this machine, from deploy to destroy.

    Deploy ENV (dev), upload its data, train, evaluate, register, serve, and tear down.
    """
    folder = (output or workspace.root / "demo-out").resolve()
    values = parse_parameters(parameters)
    settings = load_environment(environment, workspace.root, strategy, workload)
    with open_view() as view, interrupted_once(ENDS) as shield:
        demo = Demo(workspace, settings, folder, view, strategy, values, enforce_iam)
        outcome = demo.run(shield)
    page = folder / PAGE
    # of an interrupted one, it was read before all was deleted
    recorded = None if outcome.interrupted else demo.run_record
    for name, text in result_of(recorded, demo.summary, page if page.is_file() else None):
        tell(f"{name:12} {one_line(text)}")
    run = recorded or {"verdict": None, "gates": []}
    tell(output=folder, summary=demo.summary, verdict=run["verdict"], gates=run["gates"])
    if outcome.failures:
        click.echo(f"all logs: {folder / LOGS}", err=True)
    exit_as(outcome)


def result_of(
    run: dict[str, Any] | None, summary: dict[str, Any], page: Path | None
) -> Iterator[tuple[str, str]]:
    """Yield name and text of each line: what was made and is gone first, what decides last."""
    yield "took", f"{summary['seconds']['total']:.1f} s"
    yield "created", _made_text(summary)
    yield "page", str(page) if page else "none, because nothing ran"
    if run is None:
        return
    for command in run["verdict"]["next"].split("\n"):
        yield "next", command
    if package := run["package"]:
        yield "registered", f"{package['arn']} ({package['approval']})"
    if answers := run["answers"]:
        passed = sum(each["passed"] for each in answers)
        yield "endpoint", f"answered {passed} of {len(answers)} as expected"
    gates, values = run["gates"], run["metrics"]["values"] if run["metrics"] else {}
    for name, value in values.items():
        if name not in {gate["metric"] for gate in gates}:
            yield "measured", f"{name} {value:.5g}"
    yield "result", f"{run['run']['workload']} {run['run']['status'].lower()}"
    for gate in gates:
        yield "gate", _gate_text(gate)


def _made_text(summary: dict[str, Any]) -> str:
    created, left = summary["created"], summary["left_behind"]
    made = f"{len(created)} resources of {len({each['kind'] for each in created})} kinds"
    if left is None:
        return f"{made}; what is left is not known"
    names = ", ".join(f"{each['kind']} {each['name']}" for each in left)
    return f"{made}, left {len(left)}{': ' if left else ''}{names}"


def _gate_text(gate: dict[str, Any]) -> str:
    word = {True: "passed", False: "missed", None: "not measured"}[gate["passed"]]
    value = "" if gate["value"] is None else f" {gate['value']:.5g}"
    return f"{gate['metric']}{value}, {gate['limit']}: {word}"
