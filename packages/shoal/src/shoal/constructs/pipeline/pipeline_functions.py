"""What steps call: one function compares, one proves that the endpoint answers."""

import base64
import json
from pathlib import Path

from constructs import Construct

from shoal.constructs.python_function import PythonFunction
from shoal.settings.loading.workload import load_workload, workload_folder
from shoal.settings.names import Names


class Compare(Construct):
    """It may read this workload's registry."""

    def __init__(self, scope: Construct, construct_id: str, *, names: Names) -> None:
        super().__init__(scope, construct_id)
        self.comparer = PythonFunction(self, "Comparer", names=names, purpose="compare")
        self.comparer.role.allow_part("compare")


REQUESTS = "smoke_test.json"
"""Name of the file, which packages/shoal/src/shoal/functions/smoke_test/smoke_test.py reads."""
FUNCTION = "workload_smoke_test.py"
"""Name of the workload's own function among the others, which it cannot replace."""


def smoke_test_file(workload: str, root: Path) -> bytes:
    """Return the content for a workload of the repository at `root`, which has an endpoint, its own
    function's text at `function`.

    Raises ConfigError.
    """
    test, folder = load_workload(workload, root).smoke_test, workload_folder(workload, root)
    if test is None:
        raise ValueError(f"workload {workload} has no smoke test")
    document = test.model_dump(mode="json", exclude_unset=True) | {
        "requests": [
            {
                "name": Path(request.body).name,
                "body": base64.b64encode((folder / request.body).read_bytes()).decode(),
                "content_type": request.content_type,
                "accept": request.accept,
                "expect": {
                    expression: expected.model_dump(exclude_unset=True)
                    for expression, expected in request.expect.items()
                },
            }
            for request in test.requests
        ],
        "must_pass": test.must_pass or len(test.requests),
    }
    if test.function:
        document["function"] = (folder / test.function).read_text(encoding="utf-8")
    return json.dumps({"every_answer": {}, "show": {}} | document, sort_keys=True).encode()


def packed_files(content: bytes) -> dict[str, bytes]:
    """Return the files to pack, by name: the content, and its function as one of its own."""
    document = json.loads(content)
    function = document.pop("function", None)
    if function is None:
        return {REQUESTS: content}
    return {REQUESTS: json.dumps(document, sort_keys=True).encode(), FUNCTION: function.encode()}


class SmokeTest(Construct):
    """It may call this pipeline's endpoints, and nothing else."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        names: Names,
        requests: bytes,
    ) -> None:
        """`requests` is what shoal.constructs.pipeline.pipeline_functions returns."""
        super().__init__(scope, construct_id)
        self.caller = PythonFunction(
            self,
            "Caller",
            names=names,
            purpose="smoke-test",
            files=packed_files(requests),
        )
        self.caller.role.allow_part("smoke-test")
        if names.environment.endpoint and names.environment.endpoint.has_own_server:
            self.caller.role.allow_part("smoke-test-archive")
