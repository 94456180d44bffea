"""Whether an environment may read the release that it pins, asked before anything is deployed: the
block in its file in, an error out.

The registry's policy and the bucket's are of one stack, so the registry is asked for both.
"""

from __future__ import annotations

from botocore.exceptions import ClientError

from config.loader import environment_file
from config.release import Release
from config.settings import Environment
from shoal.verbs.errors import NotSharedError, error_code, refusal
from shoal.verbs.target import Target

_REFUSED = frozenset({"AccessDenied", "AccessDeniedException"})
_OTHER_SIDE = "no resource-based policy allows"
"""How AWS words a refusal that the caller's own policies are not the reason of (IAM user guide,
"Troubleshoot access denied errors").
"""


def require_shared(target: Target, environment: Environment, release: Release, first: str) -> str:
    """Raises NotSharedError where the release is another account's, and that does not let the
    environment's account read it.

    `first` is the command that lets it. Returns a notice where the caller may not ask, else an
    empty text.
    """
    if release.account == environment.account:
        return ""
    registry = (
        target
        if release.region == target.region
        else Target(target.account, release.region, target.endpoint_url)
    )
    try:
        registry.client("sagemaker").describe_model_package(
            ModelPackageName=release.model_package_arn
        )
    except ClientError as error:
        if error_code(error) not in _REFUSED:
            raise
        if _OTHER_SIDE not in str(error):
            return (
                f"whether {environment.name} may read the release that it pins was not checked:"
                f" {refusal(error)}"
            )
        what = (
            f"account {release.account} does not let {environment.account} read"
            f" {release.model_package_arn}"
        )
        advice = f"deploy what says so, from this commit, first: `{first}`"
        raise NotSharedError(
            f"{what}, which {environment_file(environment.name)} pins; nothing was deployed;"
            f" {advice}"
        ) from error
    return ""
