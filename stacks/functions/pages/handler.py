"""Keeps the page of each execution that ends, however it ended and whether or not anybody follows.

EventBridge sends the terminal status. What an execution made may go a little later, by the teardown
function: this one waits for that, as long as its own time lasts. A page that is there already
stays: who followed the run may have kept one that names the commit. Safe to run twice.
"""

from __future__ import annotations

import json
import logging
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from shoal.verbs.execution import Pipeline
from shoal.verbs.runs.history import brief, is_over, with_others
from shoal.verbs.runs.kept import keep
from shoal.verbs.runs.place import Place
from shoal.verbs.target import Target

HERE = Path(__file__).parent
LOOK_EVERY_S = 10
SPARE_MS = 5 * 60 * 1000
"""What reading the logs and writing the page may take."""

log = logging.getLogger()
log.setLevel(logging.INFO)


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Answer one event. A refusal of AWS is raised: Lambda tries twice more."""
    place, arn = own_place(), event["detail"]["pipelineExecutionArn"]
    while not is_over(brief(place, arn)) and context.get_remaining_time_in_millis() > SPARE_MS:
        time.sleep(LOOK_EVERY_S)
    page = keep(place, with_others(place, arn), HERE, replace=False)
    log.info("%s: %s", arn, page)
    return {"page": page}


def own_place() -> Place:
    """Return the pipeline that this function was deployed for, as `place.json` says.

    A commit is found in a checkout only, so it is not looked for.
    """
    known = json.loads((HERE / "place.json").read_text(encoding="utf-8"))
    target = Target(known.pop("account"), known.pop("region"))
    prices = {name: _like(**each) for name, each in known.pop("prices").items()}
    metrics = {name: _like(**each) for name, each in known.pop("metrics").items()}
    pipeline = Pipeline(target, known.pop("pipeline"))
    return Place(
        **known,
        target=target,
        pipeline=pipeline,
        is_local="AWS_ENDPOINT_URL" in os.environ,
        metrics=metrics,
        price_of=prices.get,
        commit_of=lambda _: None,
    )


def _like(**values: Any) -> Any:
    """Return what has these attributes, as Metric and Price have: their modules need pydantic."""
    return SimpleNamespace(**values)
