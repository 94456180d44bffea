"""A training hyperparameter's name in the environment file in, the name and type of its pipeline
parameter out.

`learning-rate: 0.003` becomes the pipeline parameter `LearningRate` (Float), so that one run can
change it without a deployment.
"""

from __future__ import annotations

import re
from typing import Literal

HyperparameterValue = str | int | float | bool
ParameterType = Literal["String", "Integer", "Float"]

PIPELINE_PARAMETERS = (
    "TrainDataUri",
    "TestDataUri",
    "CodeUri",
    "InstanceType",
    "InstanceCount",
    "MinAccuracy",
)
"""Parameters of a pipeline that reads S3; a hyperparameter may not take their names, nor the next.
"""
FILE_SYSTEM_PARAMETERS = ("TrainDataPath", "TestDataPath")
"""Parameters that a pipeline with a file system has besides; it has no TrainDataUri, because
training does not read S3.
"""


def parameter_name(hyperparameter: str) -> str:
    """`batch-size`, `batch_size` and `batchSize` become `BatchSize`."""
    words = [word for word in re.split(r"[-_.]+", hyperparameter) if word]
    return "".join(word[0].upper() + word[1:] for word in words)


def parameter_type(value: HyperparameterValue) -> ParameterType:
    """Type of the pipeline parameter; true and false travel as text, because a Boolean cannot be
    joined into a string.
    """
    if isinstance(value, bool | str):
        return "String"
    return "Integer" if isinstance(value, int) else "Float"


def as_text(value: HyperparameterValue) -> str:
    """The value as the training script gets it on its command line."""
    return str(value).lower() if isinstance(value, bool) else str(value)
