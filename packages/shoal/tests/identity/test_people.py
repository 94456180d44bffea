"""Each permission set lets people do their job, and none of the others'."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shoal.settings.loading.loader import load_environment
from shoal.settings.names import Names
from shoal.verbs.permission_sets import JOBS, policy_for
from shoal_local.control.authorization.evaluator import Evaluator
from tests.identity.permissions import question, read
from tests.identity.roles import TO_ACCOUNT
from tests.identity.test_bootstrap_policy import MAX_LENGTH
from tests.repository import ROOT

ROWS: list[dict[str, Any]] = read("people.yaml")["rows"]
POLICIES = {job: policy_for(job, [Names(load_environment("dev", ROOT))]) for job in JOBS}
SOMEBODY = "arn:aws:iam::111122223333:role/somebody"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['action']} {row['may']}")
def test_a_job_may_do_its_own_and_no_other(evaluator: Evaluator, row: dict[str, Any]) -> None:
    asked = question({key: row[key] for key in row if key != "may"})
    on_key = {"Statement": [TO_ACCOUNT]} if asked.service == "kms" else None
    allowed = [
        job
        for job, policy in POLICIES.items()
        if evaluator.decide(asked, SOMEBODY, {"people": policy}, resource_policy=on_key).allowed
    ]
    assert allowed == row["may"]


@pytest.mark.parametrize("job", JOBS)
def test_a_policy_of_one_workload_fits_into_a_managed_policy(job: str) -> None:
    assert len(json.dumps(POLICIES[job], separators=(",", ":"))) <= MAX_LENGTH
