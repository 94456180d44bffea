"""The endpoint's code in front of TensorFlow Serving. SageMaker's container looks for these two
functions.
"""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

from archive import METADATA_FILE, content_sha256
from messages import rows_of, text_of

MODEL_DIR = Path(__file__).resolve().parent.parent


def input_handler(data: Any, context: Any) -> str:
    """Return TensorFlow Serving's request from the client's, a stream. Raise ValueError for another
    request.
    """
    rows = rows_of(data.read().decode(), context.request_content_type)
    return json.dumps({"instances": rows})


def output_handler(response: Any, context: Any) -> tuple[str, str]:
    """Return the client's answer and its media type from TensorFlow Serving's. Raise ValueError if
    the model did not answer.
    """
    if response.status_code != 200:
        answer = response.content.decode(errors="replace")
        raise ValueError(f"TensorFlow Serving answered {response.status_code}: {answer}")
    outputs = json.loads(response.content)["predictions"]
    return text_of(outputs, identity(), context.accept_header)


@functools.cache
def identity() -> dict[str, str]:
    """Return the job that trained the model, and its digest."""
    metadata = json.loads((MODEL_DIR / METADATA_FILE).read_text())
    return {
        "training_job_name": metadata["training_job_name"],
        "content_sha256": content_sha256(MODEL_DIR),
    }
