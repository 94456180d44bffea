"""ARNs, identifiers and instants in SageMaker's form."""

import random
import string
import time

from shoal_local.context import ServiceContext

_ALPHABET = string.ascii_lowercase + string.digits
_random = random.SystemRandom()


def now() -> float:
    """Return the current epoch seconds with milliseconds, as the API's JSON has them."""
    return round(time.time(), 3)


def execution_id() -> str:
    """Return 12 characters [a-z0-9], the form of a pipeline execution's id."""
    return "".join(_random.choices(_ALPHABET, k=12))


def suffix() -> str:
    """Return 10 characters [a-zA-Z0-9] that end the names of jobs which a pipeline starts."""
    return "".join(_random.choices(string.ascii_letters + string.digits, k=10))


def arn(context: ServiceContext, resource: str, name: str) -> str:
    """Return `arn:aws:sagemaker:REGION:ACCOUNT:resource/name`; SageMaker lower-cases the name."""
    return f"arn:aws:sagemaker:{context.region}:{context.account}:{resource}/{name.lower()}"


def name_in(context: ServiceContext, resource: str, name_or_arn: str) -> str:
    """Return the name in an ARN of this account and region, or the name itself.

    Any other ARN is returned whole, which is nothing's name: IAM evaluated its text, so it must not
    stand for a resource with another one.
    """
    name = name_or_arn.partition(f":{resource}/")[2]
    return name if name_or_arn == arn(context, resource, name) else name_or_arn
