"""What `training.capacity` must be beside the other keys of an environment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from shoal.settings.parsing.errors import Problem
from shoal.settings.settings import Environment


def capacity_problems(environment: Environment) -> Iterator[Problem]:
    """Yield what SageMaker rejects of a preference list or a training plan (developer guide,
    "Instance preference lists for training jobs").
    """
    training, section = environment.training, "training.capacity"
    capacity, key = training.capacity, f"{section}.preferences"
    listed = capacity.preferences
    counts = [each.instance_count for each in listed if each.instance_count]
    if listed:
        first = listed[0]
        for name in ("spot", "other_instance_types"):
            if getattr(training, name):
                message = f"SageMaker chooses from the list, which excludes training.{name}"
                related = (f"training.{name}",)
                yield Problem(key, message, "remove one of them", related=related)
        for kind, times in Counter(each.instance_type for each in listed).items():
            if times > 1:
                yield Problem(key, f"names {kind} {times} times", "name each type once", kind)
        if first.instance_type != training.instance_type:
            message = f"is not the first of {key}, {first.instance_type}"
            advice = "leave it out: the list says the type"
            yield Problem("training.instance_type", message, advice, related=(key,))
        if counts and len(counts) < len(listed):
            message = f"has an instance_count at {len(counts)} of {len(listed)} types"
            advice = "give each type one, or none and write training.instance_count"
            yield Problem(key, message, advice)
        elif counts and counts[0] != training.instance_count:
            message = f"is not what the first of {key} has, {counts[0]}"
            advice = "leave it out: the list says the numbers"
            yield Problem("training.instance_count", message, advice, related=(key,))
    if capacity.training_plan_arn and len(capacity.plans) > 1:
        message = "is for the whole job, and types of the list name plans, too"
        advice = "keep one: the plan of the job, or those of the types"
        yield Problem(f"{section}.training_plan_arn", message, advice, related=(key,))
    if capacity.plans and training.spot and not listed:
        message = "is reserved capacity, and spot capacity is another"
        advice = "remove it, or training.spot"
        yield Problem(f"{section}.training_plan_arn", message, advice, related=("training.spot",))
    if capacity.keep_alive_s and training.spot:
        message = "keeps instances warm, which spot capacity cannot be"
        advice = "remove it, or training.spot"
        yield Problem(f"{section}.keep_alive_s", message, advice, related=("training.spot",))
    if capacity.keep_alive_s and environment.endpoint is None:
        message = "Teardown ends warm instances, and without an endpoint there is none"
        advice = "remove it, or `endpoint: none`"
        yield Problem(f"{section}.keep_alive_s", message, advice, related=("endpoint",))
    for arn in capacity.plans:
        if (region := arn.split(":")[3]) != environment.region:
            message = f"is of {region}, and the jobs run in {environment.region}"
            yield Problem(section, message, "name a plan of that region", arn, ("region",))
