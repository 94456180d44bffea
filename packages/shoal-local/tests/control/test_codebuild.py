"""CodeBuild: what is kept of a project, and that nothing claims to have built an image."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from local_kit.control import Account, unique


def project(name: str, **changes: Any) -> dict[str, Any]:
    properties = {
        "Name": name,
        "ServiceRole": "arn:aws:iam::111122223333:role/builder",
        "Artifacts": {"Type": "NO_ARTIFACTS"},
        "Environment": {
            "Type": "LINUX_CONTAINER",
            "ComputeType": "BUILD_GENERAL1_LARGE",
            "Image": "aws/codebuild/standard:7.0",
        },
        "Source": {"Type": "NO_SOURCE", "BuildSpec": "version: 0.2"},
    }
    return {"Project": {"Type": "AWS::CodeBuild::Project", "Properties": properties | changes}}


def timeouts(account: Account, name: str) -> list[int]:
    """Return the timeouts, in minutes, of the projects of this name."""
    return [
        project["timeoutInMinutes"]
        for project in account.client("codebuild").batch_get_projects(names=[name])["projects"]
    ]


def test_a_project_of_a_stack_is_kept_as_the_template_says_changed_and_deleted(
    account: Account,
) -> None:
    stack, name = unique("stack"), unique("project")
    account.stack(project(name, TimeoutInMinutes="60"), stack)
    before = timeouts(account, name)
    account.update(stack, project(name, TimeoutInMinutes=90))
    after = timeouts(account, name)
    account.client("cloudformation").delete_stack(StackName=stack)
    account.client("cloudformation").get_waiter("stack_delete_complete").wait(
        StackName=stack, WaiterConfig={"Delay": 1}
    )
    assert (before, after, timeouts(account, name)) == ([60], [90], [])


def test_a_build_is_refused_by_name(account: Account) -> None:
    name = unique("project")
    account.stack(project(name))
    with pytest.raises(ClientError, match=f"builds no container images .*{name}"):
        account.client("codebuild").start_build(projectName=name)


def test_an_operation_of_codebuild_that_is_not_emulated_is_refused_by_name(
    account: Account,
) -> None:
    with pytest.raises(ClientError, match="does not emulate codebuild ListBuilds"):
        account.client("codebuild").list_builds()
