"""What becomes of data when its stack goes."""

from __future__ import annotations

import aws_cdk as cdk


def removal_policy(protect: bool) -> cdk.RemovalPolicy:
    """Keep what a protected environment has; otherwise delete it.

    A stack whose first deployment fails takes along what it made: it would be empty, and its names
    taken when the stack is deployed again.
    """
    return cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE if protect else cdk.RemovalPolicy.DESTROY
