"""Keeps the page of every run; and watches the pipeline that scores as the one that trains."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_kms as kms
from constructs import Construct

from shoal.constructs.monitoring.alarms import Alarms
from shoal.constructs.pipeline.scoring import ScoringPipeline
from shoal.constructs.python_function import PythonFunction
from shoal.constructs.schedules import ScheduleAlarms
from shoal.constructs.teardown import SWEEPER_PURPOSE as SWEEP
from shoal.constructs.teardown import TEARDOWN_PURPOSE as TEARDOWN
from shoal.constructs.teardown import Sweeper, execution_ended
from shoal.costs import prices
from shoal.settings.names import RUNS, Names
from shoal.settings.parsing.errors import ConfigError, Problem

LIBRARY = Path(__file__).resolve().parents[3]
"""The folder that has the package `shoal`, wherever the app's checkout is."""
_CLEANERS = (TEARDOWN, SWEEP)
_ASKING = "execution logs metrics model_archive objects registry target"
_PAGE_MODULES = "__init__ history lineage look page record resources results step_log"
_MODULES = (
    "shoal/__init__.py",
    "shoal/errors.py",
    "shoal/settings/__init__.py",
    "shoal/settings/hyperparameters.py",
    "shoal/settings/parsing/__init__.py",
    "shoal/settings/parsing/errors.py",
    "shoal/aws/__init__.py",
    *(f"shoal/aws/{name}.py" for name in _ASKING.split()),
    "shoal/functions/seal/model_archive.py",
    *(f"shoal/page/{name}.py" for name in _PAGE_MODULES.split()),
    "shoal/pipelines/__init__.py",
    "shoal/pipelines/step_names.py",
    "shoal/page/page_files/page.css",
    "shoal/page/page_files/page.js",
)
"""What makes a page, and what that imports, in the library."""
_CURVES = (
    "node_modules/uplot/dist/uPlot.iife.min.js",
    "node_modules/uplot/dist/uPlot.min.css",
)
"""What draws a page's curves: in the checkout that the library or the app lies in."""


class PageKeeper(Construct):
    """`keeper`, which reads what an execution did and writes nothing but pages.

    The page is made by the verbs' own modules, which are packed with the function: they need boto3,
    which Lambda has, and nothing else. docs/decisions/run-page.md says why a function.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        key: kms.IKey,
        functions: Iterable[str],
    ) -> None:
        """`functions` are the purposes of the functions that steps call."""
        super().__init__(scope, construct_id)
        files = packed_files(names)
        self.keeper = PythonFunction(self, "Keeper", names=names, purpose="pages", files=files)
        self.keeper.role.allow_part(
            "pages",
            jobs=["TrainingJobs", "ProcessingJobs", "TransformJobs"],
            functions=[names.function(each) for each in sorted({*functions, *_CLEANERS})],
            cleaners=[names.function(each) for each in _CLEANERS],
            ends=["", ":*"],
            evaluation=names.folder("evaluation"),
            runs=names.folder(RUNS),
            key=key.key_arn,
        )
        events.Rule(
            self,
            "ExecutionEnded",
            description=f"Every end of an execution of {names.pipeline}",
            event_pattern=execution_ended(names),
            targets=[targets.LambdaFunction(self.keeper.function)],
        )


def packed_files(names: Names, folders: Sequence[Path] | None = None) -> dict[str, bytes]:
    """Return what is packed with the function, by path; one of `folders` has `node_modules`.

    Raises ConfigError where the library is not installed that draws a page's curves.
    """
    if folders is None:
        folders = (*LIBRARY.parents, Path.cwd(), *Path.cwd().parents)
    files = {name: (LIBRARY / name).read_bytes() for name in _MODULES}
    for name in _CURVES:
        path = next((each / name for each in folders if (each / name).is_file()), None)
        if path is None:
            problem = Problem("", "is missing: pages of runs need it", "run `make install`")
            raise ConfigError(name, [problem])
        files[name] = path.read_bytes()
    place = json.dumps(_place(names), indent=1, sort_keys=True)
    return files | {"place.json": place.encode()}


def _place(names: Names) -> dict[str, Any]:
    """Return what the function knows of the pipeline: `shoal.page.look.Place` as JSON."""
    environment = names.environment
    return {
        "account": environment.account,
        "region": environment.region,
        "pipeline": names.pipeline,
        "environment": environment.name,
        "workload": environment.workload,
        "strategy": environment.training.strategy,
        "arguments": environment.title,
        "target": environment.target.value,
        "model_package_group": names.model_package_group,
        "cleaners": {each: names.function(each) for each in _CLEANERS},
        "bucket": names.bucket("artifacts"),
        "cost_tags": names.bill_tags,
        "folder": names.folder(RUNS),
        "metrics": {
            name: metric.model_dump(mode="json")
            for name, metric in environment.training.metrics.items()
        },
        "prices": {
            name: asdict(price) | {"date": str(price.date)}
            for name, price in prices.instances(environment.region)
        },
    }


class ScoringWatch(Construct):
    """Its alarms send to the topic of the environment's `alarms`, and are among them."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        scoring: ScoringPipeline,
        key: kms.IKey,
        alarms: Alarms,
    ) -> None:
        super().__init__(scope, construct_id)
        names, purposes = scoring.names, [each.purpose for each in scoring.functions]
        sweeper = Sweeper(self, "Sweeper", names=names)
        pages = PageKeeper(self, "Pages", names=names, key=key, functions=purposes)
        own = Alarms(self, "Alarms", names=names, key=key, topic=alarms.topic)
        own.watch_teardown(TEARDOWN)
        own.watch_functions([*purposes, sweeper.cleaner.purpose, pages.keeper.purpose])
        if names.environment.schedules:
            ScheduleAlarms(self, "Schedules", names=names, alarms=own)
        for purpose, alarm in own.alarms.items():
            alarms.alarms[f"{names.part}-{purpose}"] = alarm
