"""What README, the checklist of the first run and the page about operating have a reader type on
AWS, typed as it stands, in their order: `target: local` sends it to shoal-local.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs.pages import NEEDS_AWS, TAKES_A_MINUTE, blocks, marked, scripts, text_of
from tests.docs.tutorials import typed, writable_checkout

README = [each for each in scripts(text_of("README.md")) if "/shoal " in each]
FIRST_RUN = text_of("docs/first-aws-run.md")
CHECKLIST = re.findall(r"^\| [4-9] \| `(.+?)` \|", FIRST_RUN, re.M)
"""Lines 1 to 3 are README's own; shoal-local draws no dashboards, and has no EFA."""
(BEFORE,) = re.findall(r"```yaml\n(.*?)```", FIRST_RUN, re.S)
OPERATE = scripts(marked(text_of("docs/operate.md"), TAKES_A_MINUTE))
TYPED = {"README.md": README, "docs/first-aws-run.md": [], "docs/operate.md": OPERATE}
SHELL = """\
export PATH="$PWD/.venv/bin:$PATH"
eval "$(shoal local up | grep '^ *export ')"
"""


def page(*scripts: str) -> str:
    """Return a page of these blocks, after what makes a shell one for shoal-local."""
    return "".join(f"```sh\n{each}\n```\n" for each in (SHELL, *scripts))


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Path]:
    """Return a checkout whose `dev` is on this machine, and has what the checklist has it changed
    to; its shoal-local is stopped at the end.
    """
    checkout = writable_checkout(tmp_path)
    edit(checkout, {"target": "local"}, yaml.safe_load(BEFORE)["training"])
    yield checkout
    typed(checkout, "```sh\n.venv/bin/shoal local down || true\n```\n")


def edit(checkout: Path, keys: dict[str, Any], training: dict[str, Any]) -> None:
    file = checkout / "environments" / "dev.yaml"
    dev = yaml.safe_load(file.read_text()) | keys
    of_smddp = ("collective", "custom_mpi_options")
    kept = {key: value for key, value in dev["training"].items() if key not in of_smddp}
    file.write_text(yaml.safe_dump(dev | {"training": kept | training}))


@pytest.mark.parametrize("name", TYPED)
def test_every_block_is_typed_here_or_needs_aws(name: str) -> None:
    rest = [
        block
        for block in blocks(text_of(name))
        if block not in TYPED[name] and not block.lstrip().startswith(("make ", NEEDS_AWS))
    ]
    assert rest == []


@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_readme_and_the_checklist_lead_to_a_run_and_to_its_end(checkout: Path) -> None:
    *begin, end = [each.replace("make install\n", "") for each in README]
    assert len(CHECKLIST) == 6
    printed = typed(checkout, page(*begin, *CHECKLIST, end), timeout_s=1100)
    assert printed.count(" succeeded") == 2
    assert printed.count(" files uploaded") == 2
    assert "backend=gloo" in printed
    assert '"Endpoints": []' in printed
    assert '"EndpointConfigs": []' in printed
    assert "destroyed: " in printed


@pytest.mark.nightly
@pytest.mark.timeout(1200)
def test_a_protected_environment_is_deployed_and_taken_away_but_for_its_data(
    checkout: Path,
) -> None:
    edit(checkout, {"protect": True}, {})
    questions = """
BUCKET=$(aws s3 ls | grep -o 'shoal-mnist-dev-data-.*')
aws cloudformation list-stacks --query "StackSummaries[].[StackName,StackStatus]" --output text
aws sagemaker list-model-packages --model-package-group-name shoal-mnist-dev --output text
rule="ServerSideEncryptionConfiguration.Rules[0].ApplyServerSideEncryptionByDefault.KMSMasterKeyID"
key=$(aws s3api get-bucket-encryption --bucket $BUCKET --query $rule --output text)
aws kms describe-key --key-id $key --query "['key', KeyMetadata.KeyState]" --output text
"""
    text = page(*OPERATE).replace("PROJECT-ENV", "mnist-dev")
    assert " succeeded" in typed(checkout, text.rpartition("\naws s3 ls")[0] + "\n```\n", 1100)
    printed = typed(checkout, page("aws s3 ls", questions))
    kept = re.findall(r"^[-\d]+ [:\d]+ shoal-mnist-dev-(data|artifacts|logs)-\S+$", printed, re.M)
    assert {*kept} == {"data", "artifacts", "logs"}
    stacks = re.findall(r"^(shoal-\S+)\s+(\w+)$", printed, re.M)
    assert len(stacks) == 4
    assert {status for _, status in stacks} == {"DELETE_COMPLETE"}
    assert ":model-package/shoal-mnist-dev/1" in printed
    assert "key\tEnabled" in printed
