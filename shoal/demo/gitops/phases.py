"""The phases of `shoal demo --gitops`: three releases in three emulated accounts, from a commit to
a canary, a rollback and a revert.

Each step is a command that a user would type, run in a git repository of its own; transcript.txt
has commands and answers.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from config.loader import load_environment
from config.names import Names
from config.workload import load_workload, workload_folder
from shoal.demo.gitops.broken_release import register_changed_archive, with_mistake
from shoal.demo.gitops.checkout import ENVIRONMENTS, MAIN, GitCheckout
from shoal.demo.gitops.report import Canary, Rollback, clear, write_summary
from shoal.demo.gitops.state import GitOps, gitops_folder
from shoal.demo.gitops.traffic import Traffic
from shoal.demo.pipeline.phases import exclusive_folder
from shoal.verbs import inventory
from shoal.verbs.errors import CommandError, LeftBehindError, ShoalError
from shoal.verbs.events import Detail, Note, Report
from shoal.verbs.flow import Outcome, Phase, run_phases
from shoal.verbs.local_server import build_runtimes, port_answers
from shoal.verbs.processes import mentioning
from shoal.verbs.teardown import remove_bootstrap
from shoal.verbs.workspace import Workspace

HOSTING_SPEED = 30
"""How much faster than the clock deployments to endpoints wait: five minutes of baking take ten
seconds.
"""
TRAINING = ("Epochs=1", "MinAccuracy=0.9")
_SERVING_CODE = "training_code/mnist/pytorch/inference.py"
_ROLLED_BACK, _DEPLOYMENT = "rolled back", "The deployment of "
_USAGE = 2


def run_gitops(
    workspace: Workspace,
    output: Path,
    report: Report,
    shield: Callable[[], None],
    *,
    enforce_iam: bool,
    second_workload: str | None = None,
) -> Outcome:
    """Run all phases and clean up, whatever happens; write the report; return the outcome.

    `second_workload` is the name of one that is released, too. Raises ConfigError if there is none
    of that name.
    """
    if second_workload:
        load_workload(second_workload, workspace.root)
    with exclusive_folder(gitops_folder(workspace)):
        clear(output)
        state = GitOps(workspace, output, report, enforce_iam, second_workload=second_workload)
        started_at = time.monotonic()
        phases = [*PHASES]
        if second_workload:
            phases[_AFTER_FIRST:_AFTER_FIRST] = _SECOND_WORKLOAD
        outcome = run_phases(phases, state, report, shield)
        outcome.seconds["total"] = time.monotonic() - started_at
    state.facts.files_left = [
        str(folder) for folder in [gitops_folder(workspace)] if folder.exists()
    ]
    write_summary(state.facts, outcome, output)
    return outcome


def _build_runtimes(state: GitOps) -> None:
    log = state.logs / "runtimes.log"
    build_runtimes(
        state.workspace.root,
        state.workspace.environ,
        "pytorch",
        log,
        lambda line: state.report(Detail(line)),
    )


def _start_local_server(state: GitOps) -> None:
    environments = [state.environment(name) for name in ENVIRONMENTS]
    accounts, region = [each.account for each in environments], environments[0].region
    start = state.local_server.start
    state.running = start(
        accounts[0],
        region,
        enforce_iam=state.enforce_iam,
        hosting_speed=HOSTING_SPEED,
        other_accounts=accounts[1:],
    )
    state.facts.accounts = dict(zip(ENVIRONMENTS, accounts, strict=True))
    state.facts.enforces_iam = state.running.enforces_iam
    state.report(
        Note(
            f"the emulator answers at {state.running.endpoint} as the accounts"
            f" {', '.join(accounts)}"
        )
    )


def _stop_local_server(state: GitOps) -> None:
    for name in ("emulator.log", "requests.jsonl"):
        for path in state.local_server.state.rglob(name):
            shutil.copy(
                path, state.logs / f"{'-'.join(path.relative_to(state.local_server.state).parts)}"
            )
    state.local_server.sweep()
    running = state.running
    remains = [f"process {pid}" for pid in mentioning(str(state.folder))]
    remains += [f"port of {running.endpoint}"] if running and port_answers(running.endpoint) else []
    state.facts.processes_left = remains
    if remains:
        raise LeftBehindError(f"still there: {', '.join(remains)}")


def _look_before(state: GitOps) -> None:
    if resources := _remaining(state):
        raise LeftBehindError(f"new accounts should be empty, but have {', '.join(resources)}")


def _look_after(state: GitOps) -> None:
    state.facts.left_behind = _remaining(state)
    if state.facts.left_behind:
        raise LeftBehindError(
            f"still there after everything was removed: {', '.join(state.facts.left_behind)}"
        )


def _remaining(state: GitOps) -> list[str]:
    """Return all resources of the project in the three accounts."""
    project = state.environment("dev").project
    own = (f"shoal-{MAIN}", f"shoal-{state.second_workload}") if state.second_workload else ()
    tags = (("shoal:project", project),)
    owner = inventory.Owner(f"shoal-{project}", tags=tags, workloads=own)
    resources = []
    for name in ENVIRONMENTS:
        target = state.target(name)
        in_account = (*inventory.of_environment(target, owner), *inventory.of_bootstrap(target))
        resources += [f"{resource} in account {target.account}" for resource in in_account]
    return resources


def _make_repository(state: GitOps) -> None:
    shutil.rmtree(state.folder / "git", ignore_errors=True)
    state.checkout = GitCheckout.new(
        state.folder / "git",
        state.workspace.root,
        state.workspace.environ,
        state.local_server.state,
        state.second_workload,
    )
    state.facts.commits.append({"what": "begin", "id": state.checkout.head()})


def _remove_bootstraps(state: GitOps) -> None:
    for name in ENVIRONMENTS:
        remove_bootstrap(state.target(name))


def _destroy_environments(state: GitOps) -> None:
    """Destroy the environments in parallel: none needs another."""
    with ThreadPoolExecutor(len(ENVIRONMENTS)) as pool:
        destructions = [
            pool.submit(state.shoal, "destroy", name, "--local") for name in state.deployed
        ]
    failures = [error for each in destructions if (error := each.exception())]
    for bug in (each for each in failures if not isinstance(each, ShoalError)):
        raise bug
    if failures:
        raise ShoalError("\n".join(map(str, failures)))


def _deploy(state: GitOps, name: str) -> None:
    if name not in state.deployed:
        state.deployed.append(name)
    state.shoal("deploy", name, "--local")


def _deploy_dev(state: GitOps) -> None:
    _deploy(state, "dev")
    state.shoal("data", "upload", *state.words("dev"), "--local")


def _train(seed: int) -> Callable[[GitOps], None]:
    def train(state: GitOps) -> None:
        parameters = [
            part for each in (*TRAINING, f"Seed={seed}") for part in ("--parameter", each)
        ]
        state.shoal("run", *state.words("dev"), "--local", "--follow", *parameters)
        comment = ("--comment", "accuracy as expected")
        state.shoal("approve", *state.words("dev"), "--local", *comment)

    return train


def _train_with_mistake(state: GitOps) -> None:
    """Commit the mistake, deploy what trains, and train.

    No check that asks a few times notices it.
    """
    what = "Keep every answer"
    state.git(
        f"commit -m '{what}'",
        lambda repository: repository.change(_SERVING_CODE, with_mistake, what),
    )
    _deploy(state, "dev")
    _train(3)(state)


def _promote(state: GitOps, source: str, destination: str) -> None:
    """Pin a release in a commit, push it, and merge it as a pull request would be."""
    workload = ("--workload", MAIN) if state.second_workload else ()
    state.merged[destination] = _merge_promotion(state, source, destination, *workload)
    pinned = {
        "model_package_arn": state.release(destination).model_package_arn,
        "content_sha256": state.content(destination),
    }
    state.facts.promoted.append({"environment": destination, **pinned})


def _merge_promotion(state: GitOps, source: str, destination: str, *more: str) -> str:
    """Promote, and merge the branch; return the commit of the merge."""
    options = ("--from", source, "--to", destination, *more, "--push", "origin")
    output = state.shoal("promote", *options, "--local")
    (branch,) = (
        line.split()[1].rstrip(",") for line in output.splitlines() if line.startswith("branch ")
    )
    return state.git(f"merge {branch}", lambda repository: repository.merge(branch))


def _release_to_staging(state: GitOps) -> None:
    _promote(state, "dev", "staging")
    _deploy(state, "staging")
    _require_serving(state, "staging", state.content("staging"))


def _first_to_prod(state: GitOps) -> None:
    _promote(state, "staging", "prod")
    _deploy(state, "prod")
    _require_serving(state, "prod", state.content("prod"))


def _canary(state: GitOps) -> None:
    """Deploy the second release while requests go on: both releases must have answered, side by
    side.
    """
    old = state.content("prod")
    _promote(state, "staging", "prod")
    new = state.content("prod")
    with _traffic(state) as traffic:
        _deploy(state, "prod")
    state.facts.canary = Canary(
        old,
        new,
        traffic.by_model[old],
        traffic.by_model[new],
        traffic.served_side_by_side(old, new),
    )
    if traffic.problems or not state.facts.canary.side_by_side:
        raise ShoalError(
            f"the canary was not seen: {state.facts.canary}, problems: {traffic.problems[:3]}"
        )
    _require_serving(state, "prod", new)


def _roll_back(state: GitOps) -> None:
    """Deploy the release with the mistake under traffic: it must fail, and the one before must
    answer.
    """
    serving = state.content("prod")
    _promote(state, "staging", "prod")
    broken = state.content("prod")
    if broken == serving:
        raise ShoalError(
            "the broken release has the content of the one before: no digest would tell which of"
            " the two answers"
        )
    with _traffic(state) as traffic:
        output = _expect_refusal(state, "deploy", "prod", "--local")
    reasons = [line.strip() for line in output.splitlines() if _ROLLED_BACK in line.lower()]
    if not reasons:
        raise ShoalError(f"the deployment failed for another reason:\n{output}")
    answers = traffic.by_model
    reason = reasons[0][reasons[0].find(_DEPLOYMENT) :] if _DEPLOYMENT in reasons[0] else reasons[0]
    state.facts.rollback = Rollback(
        reason, serving, answers[serving], broken, answers[broken], len(traffic.problems)
    )
    _require_serving(state, "prod", serving)


def _refuse_changed_archive(state: GitOps) -> None:
    """Approve an archive that was mended without a commit: its promotion must be refused."""
    arn = register_changed_archive(state.target("dev"), state.release("staging").model_package_arn)
    state.report(Note(f"registered by hand: {arn}"))
    version, comment = arn.rpartition("/")[2], ("--comment", "mended, quickly")
    state.shoal("approve", *state.words("dev"), version, "--local", *comment)
    workload = ("--workload", MAIN) if state.second_workload else ()
    output = _expect_refusal(
        state, "promote", "--from", "dev", "--to", "staging", *workload, "--local", code=_USAGE
    ).strip()
    if "evaluated was" not in output:
        raise ShoalError(f"it was refused for another reason: {output}")
    state.facts.by_hand = {"model_package_arn": arn, "refused": output}


def _expect_refusal(state: GitOps, *arguments: str, code: int = 1) -> str:
    """Run a command that must fail with this exit code; return its output."""
    try:
        state.shoal(*arguments)
    except CommandError as error:
        if error.exit_code != code:
            raise
        return error.log.read_text(encoding="utf-8")
    raise ShoalError(f"shoal {' '.join(arguments)} went well, and should not have")


def _revert(state: GitOps) -> None:
    """Revert the merge in git and deploy: prod serves the release before it again."""
    merged = state.merged["prod"]
    state.git(
        f"revert --no-edit --mainline 1 {merged[:12]}", lambda repository: repository.revert(merged)
    )
    _deploy(state, "prod")
    _require_serving(state, "prod", state.content("prod"))
    _require_no_drift(state, "prod")


def _traffic(state: GitOps) -> Traffic:
    prod = state.environment("prod")
    requests = load_workload(prod.workload, state.workspace.root).requests
    folder = workload_folder(prod.workload, state.workspace.root)
    return Traffic(state.target("prod"), Names(prod).serving_endpoint, requests, folder)


def _require_serving(state: GitOps, name: str, content: str) -> None:
    """Raise ShoalError unless the endpoint answers with this model."""
    endpoint = Names(state.environment(name)).serving_endpoint
    answer = json.loads(
        state.shoal("invoke", *state.words(name), "--local", "--endpoint", endpoint)
    )
    actual = answer["model"].get("content_sha256")
    if actual != content:
        raise ShoalError(f"{endpoint} answers with the model {actual}, not {content}")
    state.facts.served.append({"environment": name, "content_sha256": content})


def _require_no_drift(state: GitOps, name: str) -> None:
    state.shoal("release", "status", name, "--local", "--invoke")
    state.facts.without_drift.append(name)


def _train_second_workload(state: GitOps) -> None:
    place = ("dev", str(state.second_workload), "--local")
    state.shoal("data", "upload", *place)
    state.shoal("run", *place, "--follow")
    state.shoal("approve", *place)


def _release_second_workload(state: GitOps) -> None:
    """Serve the second workload in staging: what serves the first one must stay untouched."""
    workload, environment = str(state.second_workload), state.environment("staging")
    serves, pins = _endpoint(state, Names(environment).serving_endpoint), environment.release
    _merge_promotion(state, "dev", "staging", "--workload", workload)
    state.shoal("deploy", "staging", workload, "--local")
    root = state.repository.root
    second = load_environment("staging", root, workload=workload)
    if state.environment("staging").release != pins or second.release is None:
        raise ShoalError(f"the release of {workload} is not pinned beside that of {MAIN}")
    state.shoal("invoke", "staging", workload, "--local")
    if _endpoint(state, Names(environment).serving_endpoint) != serves:
        raise ShoalError(f"a release of {workload} changed the endpoint of {MAIN}")
    arn = second.release.model_package_arn
    state.facts.second_workload = {"workload": workload, "model_package_arn": arn}


def _endpoint(state: GitOps, name: str) -> object:
    """Return when the endpoint in staging was changed last, and by what it is configured."""
    sagemaker = state.target("staging").client("sagemaker")
    description = sagemaker.describe_endpoint(EndpointName=name)
    return description["LastModifiedTime"], description["EndpointConfigName"]


PHASES: tuple[Phase[GitOps], ...] = (
    Phase("runtimes", _build_runtimes),
    Phase("emulator", _start_local_server, _stop_local_server, "stop emulator"),
    Phase("look before", _look_before, _look_after, "look after"),
    Phase("repository", _make_repository),
    Phase("accounts", None, _remove_bootstraps, "remove bootstraps"),
    Phase("environments", None, _destroy_environments, "destroy prod, staging and dev"),
    Phase("dev: deploy", _deploy_dev),
    Phase("dev: train release 1", _train(1)),
    Phase("staging: release 1", _release_to_staging),
    Phase("prod: release 1", _first_to_prod),
    Phase("dev: train release 2", _train(2)),
    Phase("staging: release 2", _release_to_staging),
    Phase("prod: release 2 by canary", _canary),
    Phase("dev: train release 3, with a mistake", _train_with_mistake),
    Phase("staging: release 3", _release_to_staging),
    Phase("prod: release 3 is rolled back", _roll_back),
    Phase("prod: revert", _revert),
    Phase("dev: an archive changed by hand", _refuse_changed_archive),
)
"""The order of the demonstration.

Begun phases are undone in reverse order: the environments, the bootstraps, a look at all accounts,
shoal-local.
"""
_SECOND_WORKLOAD: tuple[Phase[GitOps], ...] = (
    Phase("dev: train the second workload", _train_second_workload),
    Phase("staging: the second workload beside the first", _release_second_workload),
)
_AFTER_FIRST = [phase.name for phase in PHASES].index("prod: release 1")
"""Where they come: when staging serves the first release."""
