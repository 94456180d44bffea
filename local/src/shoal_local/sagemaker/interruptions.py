"""Jobs and executions that ran when an emulator with `--keep` stopped: the next one tells that they
failed, and why.
"""

from __future__ import annotations

from functools import partial

from shoal_local.sagemaker import names
from shoal_local.sagemaker.core import Core
from shoal_local.sagemaker.hosting import endpoints
from shoal_local.sagemaker.jobs import warm_pools
from shoal_local.sagemaker.jobs.job import PROCESSING, TRAINING, TRANSFORM, TUNING, Job, Kind
from shoal_local.sagemaker.jobs.training_run import end_training
from shoal_local.sagemaker.pipelines import records
from shoal_local.sagemaker.pipelines.definition import parse
from shoal_local.sagemaker.pipelines.records import ExecutionRecord
from shoal_local.sagemaker.shapes import Document
from shoal_local.sagemaker.store import Store
from shoal_local.sagemaker.tracking import servers

REASON = "InternalServerError: shoal-local was stopped while this ran."
_JOBS = (TRAINING, PROCESSING, TRANSFORM, TUNING)
_STATUS_KEYS = {
    **{kind.store: f"{kind.prefix}Status" for kind in _JOBS},
    records.KIND: "PipelineExecutionStatus",
    endpoints.KIND: "EndpointStatus",
    servers.KIND: "TrackingServerStatus",
}
_SUCCEEDED = {"Completed", "Succeeded", "CompletedWithFailures"}
_ENDED = {*_SUCCEEDED, "Failed", "Stopped"}
Documents = dict[str, dict[str, Document]]


def running(store: Store) -> Documents:
    """Return the documents of what runs, by kind and name."""
    return {
        kind: {
            name: document
            for name, document in documents.items()
            if document[_STATUS_KEYS[kind]] not in _ENDED
        }
        for kind, documents in store.everything().items()
        if kind in _STATUS_KEYS
    }


def as_they_ran(store: Store, before: Documents) -> Documents:
    """Return every document, those in `before` as they were before everything was stopped, unless
    they succeeded meanwhile.

    A stop of the emulator is not the stop that a user asks for, and not an error of a program.
    """
    documents = store.everything()
    for kind, ran in before.items():
        for name, document in ran.items():
            now = documents[kind].get(name, {})
            if now.get(_STATUS_KEYS[kind]) not in _SUCCEEDED:
                documents[kind][name] = document
    return documents


def fail_interrupted(core: Core) -> None:
    """End the jobs and executions of an earlier emulator, and the warm pools, whose caches are
    gone.
    """
    for kind in _JOBS:
        for each in core.store.select(kind.store, partial(_runs, kind.store)):
            Job(core, kind, each["_name"]).change(partial(_fail, kind))
    for each in core.store.select(TRAINING.store, warm_pools.is_available):
        core.store.change(TRAINING.store, each["_name"], warm_pools.terminate)
    for each in core.store.select(records.KIND, partial(_runs, records.KIND)):
        _fail_execution(core, each)


def _runs(kind: str, document: Document) -> bool:
    return document[_STATUS_KEYS[kind]] not in _ENDED


def _fail(kind: Kind, document: Document) -> None:
    if kind is TRAINING:
        end_training(document, "Failed", "Failed", REASON)
        return
    ended_at = f"{kind.prefix.removesuffix('Job')}EndTime"
    document.update(
        {_STATUS_KEYS[kind.store]: "Failed", "FailureReason": REASON, ended_at: names.now()}
    )


def _fail_execution(core: Core, document: Document) -> None:
    record = ExecutionRecord(core, document["_name"])
    steps = parse(document["_definition"]).steps
    for name, entry in document["_steps"].items():
        if entry["StepStatus"] not in _ENDED:
            record.set_step(steps[name], "Failed", FailureReason=REASON)
    record.set_status("Failed", REASON)
