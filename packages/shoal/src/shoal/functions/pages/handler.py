"""Keeps the page of each execution that ends, however it ended and whether or not anybody follows.

EventBridge sends the terminal status. What an execution made may go a little later, by the teardown
function, and CloudWatch shows logs late: this one waits for both, as long as its own time lasts. It
replaces a page that is there, and takes from it the commit, which a checkout found. Safe to run
twice.
"""

import json
import logging
import os
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from shoal.aws.execution import Pipeline
from shoal.aws.target import Target
from shoal.errors import AWS_ERRORS
from shoal.page.history import is_over, with_others
from shoal.page.look import Place
from shoal.page.page import keep, kept_commit
from shoal.page.record import record

HERE = Path(__file__).parent
LOOK_EVERY_S, LOGS_AFTER_S = 30, 120
LOCALLY_S = 1
"""How long shoal-local is waited for, whose logs are there at once."""
SPARE_MS = 5 * 60 * 1000
"""What reading the logs and writing the page may take."""

log = logging.getLogger()
log.setLevel(logging.INFO)


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Answer one event. A refusal of AWS is raised: Lambda tries twice more."""
    place, arn = own_place(), event["detail"]["pipelineExecutionArn"]
    while _goes_on(place, arn) and context.get_remaining_time_in_millis() > SPARE_MS:
        time.sleep(LOCALLY_S if place.is_local else LOOK_EVERY_S)
    time.sleep(LOCALLY_S if place.is_local else LOGS_AFTER_S)
    known = partial(kept_commit, place, arn.rpartition("/")[2])
    run = with_others(replace(place, commit_of=known), arn)
    if not run["run"]["ended_at"]:
        log.info("%s: started again, so its next end is told", arn)
        return {"page": None}
    page = keep(place, run, HERE)
    log.info("%s: %s", arn, page)
    return {"page": page}


def _goes_on(place: Place, arn: str) -> bool:
    """Return whether something of a run is left, or could not be looked at now."""
    try:
        return not is_over(record(place, arn, with_logs=False))
    except AWS_ERRORS:
        log.warning("%s: to be looked at again", arn, exc_info=True)
        return True


def own_place() -> Place:
    """Return the pipeline that this function was deployed for, as `place.json` says."""
    known = json.loads((HERE / "place.json").read_text(encoding="utf-8"))
    is_local = "AWS_ENDPOINT_URL" in os.environ
    if known.pop("target") == "aws" and is_local:
        known["arguments"] += " --local"
    target = Target(known.pop("account"), known.pop("region"))
    like: Any = SimpleNamespace  # instead of Metric and Price, whose modules need pydantic
    prices, metrics = (
        {name: like(**each) for name, each in known.pop(key).items()}
        for key in ("prices", "metrics")
    )
    pipeline = Pipeline(target, known.pop("pipeline"))
    return Place(
        **known,
        target=target,
        pipeline=pipeline,
        is_local=is_local,
        metrics=metrics,
        price_of=prices.get,
        commit_of=lambda _: None,
    )
