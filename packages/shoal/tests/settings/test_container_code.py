"""What makes a container run other code than its archive's is found in its variables."""

from __future__ import annotations

import pytest

from shoal.settings.loading.container_code import foreign_code_variable


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({}, None),
        (
            {
                "SAGEMAKER_SUBMIT_DIRECTORY": "/opt/ml/model/code",
                "SAGEMAKER_PROGRAM": "inference.py",
            },
            None,
        ),
        (
            {"SAGEMAKER_SUBMIT_DIRECTORY": "/opt/ml/model"},
            "SAGEMAKER_SUBMIT_DIRECTORY=/opt/ml/model",
        ),
        (
            {"SAGEMAKER_SUBMIT_DIRECTORY": "s3://bucket/code.tar.gz"},
            "SAGEMAKER_SUBMIT_DIRECTORY=s3://bucket/code.tar.gz",
        ),
        ({"SAGEMAKER_PROGRAM": "../other.py"}, "SAGEMAKER_PROGRAM=../other.py"),
        ({"PYTHONUNBUFFERED": "1", "BATCH_SIZE": "8"}, None),
        ({"PYTHONPATH": "/opt/ml/model/extra"}, "PYTHONPATH=/opt/ml/model/extra"),
        ({"LD_PRELOAD": "/opt/ml/model/hook.so"}, "LD_PRELOAD=/opt/ml/model/hook.so"),
    ],
)
def test_a_container_that_takes_its_code_from_elsewhere_is_found(
    environment: dict[str, str], message: str | None
) -> None:
    assert foreign_code_variable(environment) == message
