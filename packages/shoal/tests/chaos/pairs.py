"""Two workloads of one environment run at once, and one of them goes wrong.

What must hold besides what holds for every case: the other succeeds, what it serves stays as it is
until its own teardown, and no role of one asks for a change of what is the other's.
"""

import copy
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from local_kit.control import eventually
from shoal.settings.names import WORKLOAD_TAG, Names
from tests.chaos.bystanders import with_wait
from tests.chaos.cases import NOTHING_WRONG, TABLE, Case, Circumstance, Seeded, cases
from tests.chaos.rig import (
    CLEAN_LIMIT_S,
    END_LIMIT_S,
    Result,
    in_the_account,
    left_of_anybody,
    run_case,
)
from tests.chaos.world import World

_POLL_S = 0.2
_GO, _OUTPUT = "/tmp/go", "/opt/ml/processing/output/evaluation/went"
_SUCCEEDS = Case(NOTHING_WRONG, Circumstance("all layers"))
_DELETIONS = ("DeleteEndpoint", "DeleteEndpointConfig", "DeleteModel")
_READS = ("BatchGet", "Describe", "Filter", "Get", "Head", "List", "Query")


@dataclass(frozen=True)
class Pair(Seeded):
    """What happens to the first workload, while the endpoint of the second is in service all the
    time (`held`), or while it starts, ends and is torn down, too.
    """

    case: Case
    held: bool

    @property
    def name(self) -> str:
        return f"two-workloads-{self.case.name}"


def pairs() -> list[Pair]:
    """The cases that differ most, in an order that seldom turns the switches."""
    by_name = {case.name: case for case in cases()}
    held = TABLE["held"]
    found = [Pair(by_name[name], held=name in held) for name in (*held, *TABLE["at_once"])]
    return sorted(found, key=lambda pair: pair.case.switches, reverse=True)


def run(world: World, chosen: Sequence[Pair], say: Callable[[Result], None]) -> list[Result]:
    """One pair after the other; the second workload keeps all its layers of teardown."""
    first, second = world.each
    before = in_the_account(world.client("sagemaker"))
    results = []
    for (rule, sweeper), group in groupby(chosen, key=lambda pair: pair.case.switches):
        first.layers(rule=rule, sweeper=sweeper)
        for pair in group:
            results.append(_run(first, second, pair))
            say(results[-1])
    first.layers(rule=True, sweeper=True)
    afterwards = Result("the account afterwards", left=left_of_anybody(world, before))
    return results if afterwards.survived else [*results, afterwards]


def _run(first: World, second: World, pair: Pair) -> Result:
    seen = len(first.requests())
    result = Result(pair.name)
    with result.judging():
        with undisturbed(second, held=pair.held) as other:
            before = served(second) if pair.held else {}
            result = run_case(first, pair.case, None, CLEAN_LIMIT_S)
            result.name = pair.name
            now = served(second) if pair.held else {}
            result.problems += [f"{each} was touched" for each in _differences(before, now)]
        own = other.result()
        names, requests = (first.names, second.names), first.requests()[seen:]
        result.problems += [f"the other workload: {problem}" for problem in own.problems]
        result.problems += [*trespasses(requests, names), *_undeleted(requests, second.names)]
        result.left += [f"{each} of the other workload" for each in own.left]
    return result


@contextmanager
def undisturbed(world: World, *, held: bool) -> Iterator[Future[Result]]:
    """An execution with which nothing is wrong. One that is held has its endpoint in service from
    the beginning of the block to its end, and goes on then.
    """
    holder = copy.copy(world)
    if held:
        command = ["sh", "-c", f"until [ -e {_GO} ]; do sleep 0.2; done; cp {_GO} {_OUTPUT}"]
        holder.definition = with_wait(world.definition, command)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run_case, holder, _SUCCEEDS, None, CLEAN_LIMIT_S)
        try:
            if held:
                _wait_for_service(world, running)
            yield running
        finally:
            while held and not running.done():
                _let_go(world)
                time.sleep(_POLL_S)


def _let_go(world: World) -> None:
    """Make the file that the job waits for, in its container's own folder for such files."""
    for folder in (world.state / "sagemaker-jobs").glob("processing-*-Wait-*/algo-1/tmp"):
        with suppress(FileNotFoundError):  # it has ended
            (folder / Path(_GO).name).touch()


def _wait_for_service(world: World, running: Future[Result]) -> None:
    def serves() -> bool:
        return "InService" in [each.get("EndpointStatus") for each in served(world).values()]

    if not eventually(lambda: running.done() or serves(), END_LIMIT_S) or running.done():
        raise TimeoutError(f"{world.names.pipeline} never served")


def served(world: World) -> dict[str, dict[str, Any]]:
    """Every endpoint, configuration and model of the workload, with its status and its times."""
    found: dict[str, dict[str, Any]] = {}
    for shape in ("Endpoint", "EndpointConfig", "Model"):
        operation = {"EndpointConfig": "endpoint_config"}.get(shape, shape.lower())
        pages = world.client("sagemaker").get_paginator(f"list_{operation}s")
        for page in pages.paginate(NameContains=world.names.pipeline):
            found |= {f"{shape} {each[f'{shape}Name']}": each for each in page[f"{shape}s"]}
    return found


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    return [key for key in sorted({*before, *now}) if before.get(key) != now.get(key)]


def trespasses(requests: Sequence[Mapping[str, Any]], each: Sequence[Names]) -> Iterator[str]:
    """What a role of one workload asked to change of another's, whether it was allowed or not, and
    deletions of what no role of its own has deleted.
    """
    for request in requests:
        operation, role = request["operation"], _role(request["caller"])
        for names in each:
            is_own = role.startswith(f"{names.prefix}-")
            is_others = any(role.startswith(f"{other.prefix}-") for other in each if other != names)
            deletes = operation in _DELETIONS and not is_own
            changes = is_others and not operation.startswith(_READS)
            if (deletes or changes) and _concerns(request, names):
                yield f"{role or request['caller']} asked for {operation} of {names.prefix}"


def _undeleted(requests: Sequence[Mapping[str, Any]], names: Names) -> list[str]:
    """What no role of the workload has deleted, so that the log would not show a trespass."""
    deleted = {
        request["operation"]
        for request in requests
        if _role(request["caller"]).startswith(f"{names.prefix}-") and request["status"] == 200
    }
    return [f"{names.prefix} never did {each}" for each in _DELETIONS if each not in deleted]


def _concerns(request: Mapping[str, Any], names: Names) -> bool:
    questions = request.get("questions", ())
    tag = f"aws:ResourceTag/{WORKLOAD_TAG}"
    return any(
        f"/{names.prefix}-" in question["resource"]
        or question.get("context", {}).get(tag) == names.prefix
        for question in questions
    )


def _role(caller: str) -> str:
    return caller.partition(":assumed-role/")[2].partition("/")[0]
