"""The three changes of docs/own-pipeline.md at once, deployed with the real CLI and run with the
policies of the roles enforced.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from local_kit.control import eventually
from shoal.aws.target import Target
from shoal.settings.loading.loader import load_environment
from shoal.settings.names import Names
from tests.docs.test_own_pipeline import ASKED, CHECKED, SCORED
from tests.end_to_end.conftest import Checkout
from tests.end_to_end.test_workloads import PRICES
from tests.repository import ROOT

ENVIRONMENT = PRICES.replace("ml.m5.xlarge,", "ml.m5.xlarge, source_dir: my_code,").replace(
    "workload: prices\n", "workload: prices\npipeline: my_pipelines.prices:build\n"
)
MODULE = """
from dataclasses import replace

from my_pipelines import asked, checked, scored


def build(environment, infrastructure, launch):
    given = environment, infrastructure, launch
    check, train, *_ = checked.build(*given).steps
    ask = asked.build(*given).step("Ask")
    pipeline = scored.build(*given)
    _, evaluate, gate = pipeline.steps
    seal, register, *hosting = gate.if_true
    register = replace(register, depends_on=("Ask",))
    gate = replace(gate, if_true=(seal, ask, register, *hosting))
    return replace(pipeline, steps=(check, train, evaluate, gate))
"""
CHECK = """
import pathlib, sys

lines = pathlib.Path(sys.argv[1], "trips.csv").read_text().splitlines()
print(f"{len(lines) - 1} rows")
sys.exit(len(lines) < 1000)
"""
ROWS = b"50,15,800\n5,2,100\n"
"""A long trip, and a short one."""


@pytest.fixture
def mine(checkout: Checkout, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    own = checkout.with_environment(tmp_path_factory.mktemp("steps"), "prices", ENVIRONMENT)
    shutil.copytree(ROOT / "training_code" / "prices" / "pytorch", own.root / "my_code")
    (own.root / "my_code" / "check_data.py").write_text(CHECK)
    (own.root / "my_pipelines").mkdir()
    modules = {"prices": MODULE, "asked": ASKED, "checked": CHECKED, "scored": SCORED}
    for name, text in modules.items():
        (own.root / "my_pipelines" / f"{name}.py").write_text(text)
    with own.emulator("prices"):
        yield own


def question(target: Target, queue: str) -> dict[str, Any]:
    """Return the message of the step Ask, once it is there."""
    sqs = target.client("sqs")
    messages = eventually(
        lambda: sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=5).get("Messages"), 240.0
    )
    return dict(json.loads(messages[0]["Body"]))


@pytest.mark.nightly
def test_data_are_checked_somebody_is_asked_and_a_dataset_is_scored(mine: Checkout) -> None:
    mine.succeed("deploy", "prices", "--local")
    mine.succeed("data", "upload", "prices", "--local")
    names, target = Names(load_environment("prices", mine.root)), mine.local_target
    s3, queues = target.client("s3"), target.client("sqs")
    queue = queues.create_queue(QueueName="releases")["QueueUrl"]
    key = f"datasets/{names.environment.data.dataset}/score/new.csv"
    s3.put_object(Bucket=names.bucket("data"), Key=key, Body=ROWS)

    with mine.running("run", "prices", "--local", "--follow") as running:
        asked = question(target, queue)
        target.client("sagemaker").send_pipeline_execution_step_success(
            CallbackToken=asked["token"], OutputParameters=[{"Name": "answered_by", "Value": "Ada"}]
        )
        output, _ = running.communicate(timeout=240)
    assert running.returncode == 0, output

    assert "2000 rows" in mine.succeed("logs", "prices", "latest", "CheckData", "--local")
    assert mine.succeed("logs", "prices", "latest", "Score", "--local")
    execution = asked["arguments"]["execution_id"]
    result = f"transform/{execution}/new.csv.out"
    scored = s3.get_object(Bucket=names.bucket("artifacts"), Key=result)["Body"].read()
    minutes = [float(line) for line in scored.split()]
    assert len(minutes) == 2
    assert minutes[0] > minutes[1] > 0
    assert target.client("sagemaker").list_models()["Models"] == []
