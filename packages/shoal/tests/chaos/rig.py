"""Runs cases in a world, several at once, and judges each by the invariant: the documented status,
nothing left, nobody else touched.
"""

import copy
import json
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Any

from local_kit.control import eventually
from shoal.page.record import record
from shoal.settings.names import EXECUTION_TAG
from tests.chaos.bystanders import Bystanders
from tests.chaos.cases import JOBS, NOTHING_WRONG, TABLE, Case, Trouble
from tests.chaos.world import World

TERMINAL = {"Succeeded", "Failed", "Stopped", "CompletedWithFailures"}
END_LIMIT_S = 240.0
CLEAN_LIMIT_S = 120.0
"""How long a case may take to be clean on a busy machine; the time it took is printed."""
FAULT_LIMIT_S = 15.0
"""How long after an execution's end a fault of the deleter may take to come."""
_NAMED = re.compile(r"-[a-z0-9]{12}(-|$)")
"""A name that says which execution made it."""


@dataclass
class Result:
    """How a case came out. It survived when there is no problem."""

    name: str
    status: str = ""
    seconds: float = 0.0
    """From the start of the execution to its end."""
    cleaned_s: float = 0.0
    """From its end until nothing of it was left."""
    problems: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    """What was left behind, as kind/name or process."""

    @property
    def survived(self) -> bool:
        return not self.problems and not self.left

    @contextmanager
    def judging(self) -> Iterator[None]:
        """Keep an error of the rig as a problem: a rig that fails is a case that failed."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - any
            self.problems.append(f"{type(error).__name__}: {error}")


def run(
    world: World,
    chosen: Sequence[Case],
    at_once: int,
    say: Callable[[Result], None],
    at_last: Callable[[Bystanders], None] = lambda _bystanders: None,
) -> list[Result]:
    """Run cases in their order, `at_once` at a time; the global switches are turned when nothing
    runs. `at_last` is done before the bystanders leave.
    """
    results: list[Result] = []
    before = in_the_account(world.client("sagemaker"))
    bystanders = Bystanders.settle(world)
    for (rule, sweeper), group in groupby(chosen, key=lambda case: case.switches):
        world.layers(rule=rule, sweeper=sweeper)
        with ThreadPoolExecutor(at_once) as pool:
            attempt = partial(run_case, world, bystanders=bystanders, clean_limit_s=CLEAN_LIMIT_S)
            for result in pool.map(attempt, list(group)):
                results.append(result)
                say(result)
    world.layers(rule=True, sweeper=True)
    at_last(bystanders)
    last = [
        Result("bystanders", problems=bystanders.leave()),
        Result("the account afterwards", left=left_of_anybody(world, before)),
    ]
    return results + [result for result in last if not result.survived]


def left_of_anybody(world: World, before: Mapping[str, str]) -> list[str]:
    """What is there that was not there before the first case: a case that was clean may
    have left something later.
    """
    return sorted(in_the_account(world.client("sagemaker")).keys() - before.keys())


def run_case(
    world: World, case: Case, bystanders: Bystanders | None, clean_limit_s: float
) -> Result:
    """One execution under its faults, from its start until nothing of it is left or `clean_limit_s`
    is over.
    """
    result = Result(case.name)
    with result.judging():
        _Run(world, case, result, clean_limit_s).go()
        result.problems += bystanders.disturbed() if bystanders else []
    return result


@dataclass
class _Run:
    world: World
    case: Case
    result: Result
    clean_limit_s: float

    def go(self) -> None:
        self._label = f"{self.case.name}-{time.time_ns():x}"[:82]
        for rule in self.case.rules:
            self.world.fault(**rule, execution=self._label)
        self._sagemaker = self.world.client("sagemaker")
        begun = time.monotonic()
        self._start()
        self._disturb()
        self.result.status = self._ended()
        ended = time.monotonic()
        self.result.seconds = ended - begun
        self.result.left = self._left_in_the_end()
        self.result.cleaned_s = time.monotonic() - ended
        self.result.problems += self._judged()

    def _start(self) -> None:
        trouble, circumstance = self.case.trouble, self.case.circumstance
        definition = variant(
            self.world.definition,
            circumstance.step,
            trouble,
            f"{self.world.names.pipeline}-x" if circumstance.nameless else None,
        )
        self._arn = self.world.begin(definition, self._label, trouble.script)
        self._id = self._arn.rpartition("/")[2]

    def _disturb(self) -> None:
        if self.case.trouble.stop_at and self._reached(self.case.trouble.stop_at):
            time.sleep(random.Random(self.case.seed).uniform(0.1, 1.2))
            self._sagemaker.stop_pipeline_execution(PipelineExecutionArn=self._arn)
        if self.case.circumstance.early_event:
            self._reached("SmokeTest")
            detail = {"pipelineExecutionArn": self._arn, "currentPipelineExecutionStatus": "Failed"}
            body = json.dumps({"source": "aws.sagemaker", "detail": detail})
            self.world.client("sqs").send_message(QueueUrl=self.world.queue_url(), MessageBody=body)

    def _reached(self, step: str) -> bool:
        """Whether the step is executing now; False when the execution ended without."""

        def begins() -> str | None:
            if self._step_status(step) == "Executing":
                return "begun"
            return "ended" if self.world.status(self._arn) in TERMINAL else None

        answer = eventually(begins, END_LIMIT_S)
        if not answer:
            raise TimeoutError(f"{step} never began")
        return bool(answer == "begun")

    def _missing_faults(self) -> set[tuple[str, str]]:
        """Faults of this case that have not happened: where nothing was to be cleaned, the deleter
        may not have come yet.
        """
        expected = {(rule["seam"], rule["do"]) for rule in self.case.rules}

        def missing() -> set[tuple[str, str]]:
            happened = self.world.happened(self._label)
            return expected - {(each["seam"], each["do"]) for each in happened}

        eventually(lambda: not missing(), FAULT_LIMIT_S)
        return missing()

    def _step_status(self, step: str) -> str:
        return self.world.steps(self._arn).get(step, ("", ""))[0]

    def _ended(self) -> str:
        if not eventually(lambda: self.world.status(self._arn) in TERMINAL, END_LIMIT_S):
            raise TimeoutError(f"execution {self._id} is still {self.world.status(self._arn)}")
        return self.world.status(self._arn)

    def _left_in_the_end(self) -> list[str]:
        def left() -> list[str]:
            return [
                *left_in_the_account(self._sagemaker, self._id),
                *self._warm_pools(),
                *self.world.processes(self._id),
            ]

        eventually(lambda: not left(), self.clean_limit_s)
        return left()

    def _warm_pools(self) -> list[str]:
        """Return the jobs whose instances are kept; with neither rule nor sweeper they end by
        themselves, within the hour at most.
        """
        if not (self.case.circumstance.rule or self.case.circumstance.sweeper):
            return []
        wanted = {"NameContains": f"pipelines-{self._id}-", "WarmPoolStatusEquals": "Available"}
        jobs = self._sagemaker.list_training_jobs(**wanted)["TrainingJobSummaries"]
        return [f"warm-pool/{each['TrainingJobName']}" for each in jobs]

    def _judged(self) -> Iterator[str]:
        if self.result.status != self.case.status:
            documented = f"documented is {self.case.status}: {self.world.steps(self._arn)}"
            yield f"the execution ended {self.result.status}, {documented}"
        few, many = self.case.trouble.packages
        packages = self._packages()
        if not few <= len(packages) <= many:
            yield f"{len(packages)} packages registered, {few} to {many} expected"
        if missing := self._missing_faults():
            yield f"the fault never happened: {sorted(missing)}"
        yield from self._misnamed()

    def _misnamed(self) -> Iterator[str]:
        """What the page of the run names wrongly; the jobs here have one host and no ranks."""
        trouble, verdict = self.case.trouble, record(self.world.session.place, self._arn)["verdict"]
        has_failed = self.result.status in ("Failed", "CompletedWithFailures")
        step = "GateFailed" if trouble.step == "Gate" else trouble.step
        expected = {"outcome": self.result.status, "step": step if has_failed else None}
        for part, value in (expected | {"rank": None}).items():
            if verdict[part] != value:
                yield f"the page of the run names the {part} {verdict[part]}"
        if not has_failed:
            return
        told = f"{verdict['reason']} {verdict['line']}"
        failing = [rule for rule in trouble.rules if rule["do"] in ("refuse", "fail")]
        words = [str(rule.get("message") or rule["code"]) for rule in failing]
        words += [TABLE["words"].get(trouble.script, ""), trouble.told]
        if trouble.step in ("SmokeTest", "Teardown"):
            words += [TABLE["ends"].get(rule["do"], "") for rule in trouble.rules]
            message = (verdict["line"] or "").partition(": ")[2]
            if message not in verdict["reason"]:  # functions of all runs share a log
                yield f"the page of the run quotes another run: {message!r}"
        for word in words:
            if word not in told:
                yield f"the page of the run says {told!r}, without {word!r}"
        if trouble.step in JOBS and trouble.script.endswith(":fails"):
            said = (verdict["host"], verdict["line"])
            if said != ("algo-1", "ValueError: this step was told to fail"):
                yield f"the page of the run names {said}"

    def _packages(self) -> list[str]:
        pages = self._sagemaker.get_paginator("list_model_packages").paginate(
            ModelPackageGroupName=self.world.names.model_package_group
        )
        summaries = [each for page in pages for each in page["ModelPackageSummaryList"]]
        arns = [each["ModelPackageArn"] for each in summaries]
        packages = [self._sagemaker.describe_model_package(ModelPackageName=arn) for arn in arns]
        return [
            each["ModelPackageArn"]
            for each in packages
            if each["CustomerMetadataProperties"]["execution_id"] == self._id
        ]


def left_in_the_account(sagemaker: Any, execution_id: str) -> list[str]:
    """Endpoints, configurations and models with the execution's id in their names or tags, as
    kind/name.
    """
    return [
        each
        for each, arn in in_the_account(sagemaker).items()
        if execution_id in each or _is_tagged(sagemaker, arn, execution_id)
    ]


def in_the_account(sagemaker: Any) -> dict[str, str]:
    """Every endpoint, configuration and model that there is: kind/name -> ARN."""
    kinds = {"Endpoint": "endpoint", "EndpointConfig": "endpoint-config", "Model": "model"}
    return {
        f"{kind}/{each[f'{shape}Name']}": each[f"{shape}Arn"]
        for shape, kind in kinds.items()
        for page in sagemaker.get_paginator(f"list_{kind.replace('-', '_')}s").paginate()
        for each in page[f"{shape}s"]
    }


def _is_tagged(sagemaker: Any, arn: str, execution_id: str) -> bool:
    if _NAMED.search(arn):
        return False
    try:
        tags = sagemaker.list_tags(ResourceArn=arn)["Tags"]
    except sagemaker.exceptions.ResourceNotFound:  # gone meanwhile
        return False
    return {"Key": EXECUTION_TAG, "Value": execution_id} in tags


def variant(
    definition: dict[str, Any],
    step: str,
    trouble: Trouble = NOTHING_WRONG,
    config_name: str | None = None,
) -> dict[str, Any]:
    """The deployed definition with another Teardown step, pauses of a second between attempts, and
    the limits and instances of the trouble.
    """
    changed = copy.deepcopy(definition)
    for each in all_steps(changed["Steps"]):
        arguments = each.get("Arguments", {})
        for policy in each.get("RetryPolicies", []):
            policy.update(IntervalSeconds=1, BackoffRate=1.0)
        if trouble.max_runtime_s and each["Name"] == trouble.step:
            arguments["StoppingCondition"]["MaxRuntimeInSeconds"] = trouble.max_runtime_s
        if trouble.types and each["Name"] == "Train":
            del arguments["ResourceConfig"]["InstanceType"]
            listed = [{"InstanceType": kind} for kind in trouble.types]
            arguments["ResourceConfig"]["InstancePreferences"] = listed
        if trouble.max_pending_s and each["Name"] == "Train":
            arguments["StoppingCondition"]["MaxPendingTimeInSeconds"] = trouble.max_pending_s
        for served in arguments.get("ProductionVariants", []) if trouble.startup_s else []:
            served["ContainerStartupHealthCheckTimeoutInSeconds"] = trouble.startup_s
        if config_name and each["Type"] == "EndpointConfig":
            arguments["EndpointConfigName"] = config_name
        if each["Name"] == "Teardown":
            waits = {"Step": "SmokeTest", "Trigger": "Any"} if step == "any" else "SmokeTest"
            each["DependsOn"] = [waits]
        if each["Name"] == "Gate" and step == "none":
            kept = [inner for inner in arguments["IfSteps"] if inner["Name"] != "Teardown"]
            arguments["IfSteps"] = kept
    return changed


def all_steps(steps: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Every step, those in branches included."""
    for each in steps:
        yield each
        for branch in ("IfSteps", "ElseSteps"):
            yield from all_steps(each.get("Arguments", {}).get(branch, []))
