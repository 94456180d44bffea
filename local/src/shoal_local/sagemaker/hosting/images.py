"""Which image a variant runs: the name that its model gives goes in, what a registry has below that
name when it is deployed comes out.
"""

from __future__ import annotations

import re

from botocore.exceptions import ClientError

from shoal_local.errors import AwsError
from shoal_local.sagemaker import names
from shoal_local.sagemaker.core import Core
from shoal_local.sagemaker.shapes import Document

_TAGGED = re.compile(
    r"(?P<host>(?P<registry>\d{12})\.dkr\.ecr\.(?P<region>[a-z0-9-]+)\.amazonaws\.com)/(?P<repository>[^:@]+)(:(?P<tag>[^:@]+))?"
)


def deployed_image(core: Core, specified: str, role_arn: str) -> Document:
    """A DeployedImage: `registry/repository:tag` resolves to `registry/repository@digest`, asked
    for as the role that pulls it.

    An image that ECR does not tell (one that is only declared, or by digest already) stays as it
    was specified. Source: API reference, DeployedImage. AWS refuses an image that is not there when
    the model is made; here it need not be there.
    """
    image = _TAGGED.fullmatch(specified)
    digest = _digest(core, image, role_arn) if image else None
    resolved = f"{image['host']}/{image['repository']}@{digest}" if image and digest else specified
    return {"SpecifiedImage": specified, "ResolvedImage": resolved, "ResolutionTime": names.now()}


def _digest(core: Core, image: re.Match[str], role_arn: str) -> str | None:
    """None where there is no such image, or no such role, or it may not pull: starting the
    container says that better.
    """
    if image["region"] != core.context.region:
        return None
    which = {
        "registryId": image["registry"],
        "repositoryName": image["repository"],
        "imageIds": [{"imageTag": image["tag"] or "latest"}],
    }
    try:
        credentials = core.context.role_credentials(role_arn, "SageMaker-resolves-image")
        found = core.context.clients("ecr", credentials).batch_get_image(**which)["images"]
    except (AwsError, ClientError):
        return None
    return str(found[0]["imageId"]["imageDigest"]) if found else None
