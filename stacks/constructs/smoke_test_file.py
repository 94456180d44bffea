"""The file with a workload's requests and expectations that is packed with the functions that send
them.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path

from config.smoke_test import Request
from config.workload import load_workload, workload_folder

REQUESTS = "smoke_test.json"
"""Name of the file, which stacks/functions/smoke_test/smoke_test.py reads."""


def smoke_test_file(workload: str, root: Path) -> bytes:
    """Return the content for a workload of the repository at `root`, which has an endpoint.

    Raises ConfigError.
    """
    test, folder = load_workload(workload, root).smoke_test, workload_folder(workload, root)
    if test is None:
        raise ValueError(f"workload {workload} has no smoke test")
    document = test.model_dump(mode="json", exclude_unset=True) | {
        "requests": [_request(request, folder) for request in test.requests],
        "must_pass": test.must_pass or len(test.requests),
    }
    return json.dumps({"every_answer": {}, "show": {}} | document, sort_keys=True).encode()


def _request(request: Request, folder: Path) -> dict[str, object]:
    file = folder / request.body
    return {
        "name": file.name,
        "body": base64.b64encode(file.read_bytes()).decode(),
        "content_type": request.content_type,
        "accept": request.accept,
        "expect": {
            expression: expected.model_dump(exclude_unset=True)
            for expression, expected in request.expect.items()
        },
    }
