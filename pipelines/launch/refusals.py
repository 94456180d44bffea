"""A training section in; the strategy that runs, its contract, and every reason why it cannot run,
with what could instead, out.

What is offered instead has been asked everything first: whoever follows the advice is not refused
for it.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from config.errors import Problem
from config.settings import Collective, Launcher, Strategy, Training
from pipelines.launch import obstacles, tables
from pipelines.launch.availability import FALLBACKS, SMDDP, blocking, fallbacks_of
from pipelines.launch.contract import (
    Contract,
    Horovod,
    Mirrored,
    MultiWorkerMirrored,
    ParameterServer,
    PytorchDdp,
    SingleProcess,
    SmddpAllGather,
    SmddpAllGatherByMpirun,
    SmddpAllReduce,
    Torchrun,
)
from pipelines.launch.source_code import SourceCode

_SOURCE_DIR = "training.source_dir"


def chosen(training: Training, code: SourceCode) -> tuple[Strategy, list[Problem]]:
    """The strategy that runs, and if it is the fallback, why."""
    why = list(blocking(training, training.strategy, code))
    if why and training.fallback in fallbacks_of(training):
        return training.fallback, why
    return training.strategy, []


def contract_of(training: Training, strategy: Strategy) -> Contract:
    """The contract of the strategy that runs, with what `training` says of it."""
    options, ranks = training.custom_mpi_options, training.processes_per_host
    if strategy is Strategy.SMDDP and training.collective is Collective.ALLGATHER:
        return (
            SmddpAllGatherByMpirun(options, ranks)
            if training.launcher is Launcher.MPIRUN
            else SmddpAllGather(ranks)
        )
    contracts: dict[Strategy, Contract] = {
        Strategy.SMDDP: SmddpAllReduce(options, ranks),
        Strategy.PYTORCHDDP: PytorchDdp(options, ranks),
        Strategy.TORCHRUN: Torchrun(ranks),
        Strategy.HOROVOD: Horovod(options, ranks),
        Strategy.PARAMETER_SERVER: ParameterServer(),
        Strategy.MULTI_WORKER_MIRRORED: MultiWorkerMirrored(),
        Strategy.MIRRORED: Mirrored(),
        Strategy.NONE: SingleProcess(),
    }
    return contracts[strategy]


def problems_of(training: Training, region: str, code: SourceCode) -> list[Problem]:
    """Every reason why `training` cannot run, each with what to do."""
    strategy, _ = chosen(training, code)
    others, blocked = (
        _whatever_runs(training, strategy, region, code),
        list(blocking(training, strategy, code)),
    )
    instead = (
        _instead(training, region, code, others) if blocked else ""
    )  # it tries every strategy: too much for what runs
    return [_offering(problem, instead) for problem in blocked] + others


def _whatever_runs(
    training: Training, strategy: Strategy, region: str, code: SourceCode
) -> list[Problem]:
    """What no other strategy would mend by being one."""
    contract, swapped = contract_of(training, strategy), strategy is not training.strategy
    return [
        *obstacles.in_strategy(training, strategy),
        *obstacles.in_images(training, strategy, region, code),
        *obstacles.in_options(training, contract, swapped),
    ]


def _instead(training: Training, region: str, code: SourceCode, others: list[Problem]) -> str:
    """The strategies and fallbacks that run, but for the mistakes that stay whatever runs."""
    offers: list[str] = []
    for key in ("strategy", "fallback"):
        able = [
            each
            for each in FALLBACKS[training.framework]
            if _runs(_with(training, key, each), each, region, code, others)
        ]
        if able:
            offers.append(f"training.{key}: {' or '.join(able)}")
    if training.strategy in SMDDP and not offers:
        offers = _with_another_version(training, region, code, others)
    return f", or set {', or '.join(offers)}" if offers else ""


def _with_another_version(
    training: Training, region: str, code: SourceCode, others: list[Problem]
) -> list[str]:
    """The first later version of AWS's images with which another strategy runs; none for an image
    of the user's own.
    """
    given, images = (
        tables.ordered(training.framework_version),
        tables.image_tags(training.framework),
    )
    is_aws = training.image_uri is None and training.build_image is None
    later = [version for version in images if is_aws and tables.ordered(version) > given]
    for version, each in product(later, FALLBACKS[training.framework]):
        if _runs(
            _with(_with(training, "framework_version", version), "strategy", each),
            each,
            region,
            code,
            others,
        ):
            return [f"training.framework_version: {version} with training.strategy: {each}"]
    return []


def _with(training: Training, key: str, value: str) -> Training:
    """As if the file said so; what it leaves out follows."""
    return Training.model_validate({**training.model_dump(exclude_unset=True), key: value})


def _runs(
    tried: Training, strategy: Strategy, region: str, code: SourceCode, known: list[Problem]
) -> bool:
    if chosen(tried, code)[0] is not strategy or any(blocking(tried, strategy, code)):
        return False
    before = {(problem.key, problem.message) for problem in known}
    return all(
        (problem.key, problem.message) in before
        for problem in _whatever_runs(tried, strategy, region, code)
    )


def _offering(problem: Problem, instead: str) -> Problem:
    return (
        problem if problem.key == _SOURCE_DIR else replace(problem, advice=problem.advice + instead)
    )
