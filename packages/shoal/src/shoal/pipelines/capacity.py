"""The parts of CreateTrainingJob's request that say which instances a job gets, and how long it may
wait and run.
"""

from __future__ import annotations

from typing import Any

from shoal.pipelines.parameters import Parameters
from shoal.settings.sections.capacity import Preference
from shoal.settings.settings import Training


def resource_config(training: Training, parameters: Parameters) -> dict[str, Any]:
    """Return `ResourceConfig`: one type, or a list of them (botocore 1.44.5: InstancePreferences
    excludes InstanceType, and a count at each of its types excludes InstanceCount).
    """
    capacity = training.capacity
    preferences = [_preference(each) for each in capacity.preferences]
    values = {
        "InstancePreferences": preferences or None,
        "InstanceType": parameters.instance_type,
        "InstanceCount": parameters.instance_count,
        "VolumeSizeInGB": training.volume_size_gb,
        "TrainingPlanArn": capacity.training_plan_arn,
    }
    return _given(values)


def stopping_condition(training: Training) -> dict[str, Any]:
    """Return `StoppingCondition`."""
    values = {
        "MaxRuntimeInSeconds": training.max_runtime_s,
        "MaxWaitTimeInSeconds": training.max_wait_s if training.spot else None,
        "MaxPendingTimeInSeconds": training.capacity.max_pending_s,
    }
    return _given(values)


def _preference(preference: Preference) -> dict[str, Any]:
    plans = preference.training_plan_arns
    values = {
        "InstanceType": preference.instance_type,
        "InstanceCount": preference.instance_count,
        "TrainingPlanArns": [*plans] if plans else None,
    }
    return _given(values)


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
