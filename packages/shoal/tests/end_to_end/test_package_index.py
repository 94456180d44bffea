"""A job installs its requirements from an index that asks who asks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from shoal.aws.target import Target
from tests.end_to_end.conftest import Checkout
from tests.end_to_end.test_workloads import PRICES
from tests.private_index import PACKAGE, VERSION, private_index

PASSWORDS = ('pa"ss\\w0rd/with@signs', "n0t-the-passw0rd")
"""The index's, and another one."""
TRAIN = f"""
import os
import pathlib
import {PACKAGE}

assert {PACKAGE}.VERSION == "{VERSION}"
assert "NETRC" not in os.environ and "@" not in os.environ["PIP_INDEX_URL"]
pathlib.Path(os.environ["SM_MODEL_DIR"], "model.txt").write_text({PACKAGE}.VERSION)
"""
SCRIPTS = {"train.py": TRAIN, "requirements.txt": f"{PACKAGE}=={VERSION}\n"}
SCRIPTS |= dict.fromkeys(("evaluate.py", "inference.py"), "print()  # rmse r2\n")


def trained(target: Target) -> list[tuple[dict[str, Any], str]]:
    """Return what is known of each training job, the first one first, and all that was logged."""
    sagemaker, logs = target.client("sagemaker"), target.client("logs")
    by_age = {"SortBy": "CreationTime", "SortOrder": "Ascending"}
    group, answers = {"logGroupName": "/aws/sagemaker/TrainingJobs"}, list[Any]()
    for job in sagemaker.list_training_jobs(**by_age)["TrainingJobSummaries"]:
        name = job["TrainingJobName"]
        streams = logs.describe_log_streams(**group, logStreamNamePrefix=name)["logStreams"]
        pages = (logs.get_log_events(**group, logStreamName=s["logStreamName"]) for s in streams)
        lines = "\n".join(each["message"] for page in pages for each in page["events"])
        answers.append((sagemaker.describe_training_job(TrainingJobName=name), lines))
    return answers


@pytest.mark.nightly
def test_requirements_come_from_a_private_index_and_no_log_has_its_password(
    checkout: Checkout, tmp_path: Path
) -> None:
    """Deployed with the policies of every role applied, and the watch off."""
    training = "training: {strategy: none, source_dir: mine, stall_s: off, "
    text = PRICES.replace("training: {strategy: torchrun, ", training)
    text = text.replace("count: 2", "count: 1")
    with private_index("team", PASSWORDS[0]) as url:
        index = f"{{url: '{url}', secret: team/index}}"
        text += f"\ntarget: local\norganisation: {{package_index: {index}}}\n"
        own = checkout.with_environment(tmp_path, "prices", text)
        (own.root / "mine").mkdir()
        for name, content in SCRIPTS.items():
            (own.root / "mine" / name).write_text(content)
        with own.emulator("prices"):
            secrets = own.local_target.client("secretsmanager")
            values = [json.dumps({"username": "team", "password": each}) for each in PASSWORDS]
            secrets.create_secret(Name="team/index", SecretString=values[0])
            own.succeed("deploy", "prices", "--local")
            own.succeed("data", "upload", "prices", "--local")
            outputs = [own.run("run", "prices", "--local", "--follow").output]
            secrets.put_secret_value(SecretId="team/index", SecretString=values[1])
            outputs += [own.run("run", "prices", "--local", "--follow").output]
            (installed, first), (refused, second) = trained(own.local_target)
    assert installed["TrainingJobStatus"] == "Completed", outputs[0]
    reason = refused["FailureReason"]
    assert "PackageIndexError: requirements.txt was not installed: pip ended with 1" in reason
    assert "; the index answers team 401" in reason
    assert f"No matching distribution found for {PACKAGE}=={VERSION}" in reason
    kept = "".join([*outputs, first, second, *map(str, (installed, refused))])
    assert second.count("shoal: installing requirements.txt from") == 1
    assert [each for each in PASSWORDS if each in kept or json.dumps(each)[1:-1] in kept] == []
