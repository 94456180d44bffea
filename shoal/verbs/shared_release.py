"""Whether an environment may read the release that it pins, asked before a deployment.

The registry's policy and the bucket's belong to one stack, so asking the registry is enough.
"""

from __future__ import annotations

from botocore.exceptions import ClientError

from config.loader import environment_file
from config.release import Release
from config.settings import Environment
from shoal.verbs.errors import NotSharedError, error_code, refusal
from shoal.verbs.target import Target

_ACCESS_DENIED = frozenset({"AccessDenied", "AccessDeniedException"})
_RESOURCE_POLICY_REFUSAL = "no resource-based policy allows"
"""AWS's words if the other account's policy is the reason (IAM user guide, "Troubleshoot access
denied errors").
"""


def require_shared(target: Target, environment: Environment, release: Release, command: str) -> str:
    """Raise NotSharedError if another account has the release and does not let this one read it.

    `command` is what would let it. Returns a notice if the caller may not ask, else an empty text.
    """
    if release.account == environment.account:
        return ""
    registry = target if release.region == target.region else target.in_region(release.region)
    try:
        registry.client("sagemaker").describe_model_package(
            ModelPackageName=release.model_package_arn
        )
    except ClientError as error:
        if error_code(error) not in _ACCESS_DENIED:
            raise
        if _RESOURCE_POLICY_REFUSAL not in str(error):
            return (
                f"whether {environment.name} may read the release that it pins was not checked:"
                f" {refusal(error)}"
            )
        what = (
            f"account {release.account} does not let {environment.account} read"
            f" {release.model_package_arn}"
        )
        advice = f"deploy what says so, from this commit, first: `{command}`"
        raise NotSharedError(
            f"{what}, which {environment_file(environment.name)} pins; nothing was deployed;"
            f" {advice}"
        ) from error
    return ""
