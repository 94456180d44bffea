"""Send inference.py requests as the serving container would, and write the answers.

send_requests.py MODEL_DIR IMAGES_FILE ANSWER_FILE
"""

import importlib
import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path[:0] = [f"{sys.argv[1]}/code", str(Path(__file__).parent)]  # the served copies first
inference, requests = map(importlib.import_module, ("inference", "digit_requests"))
model = inference.model_fn(sys.argv[1])


def ask(body: bytes, content_type: str, accept: str) -> Any:
    """Return what the container would answer."""
    prediction = inference.predict_fn(inference.input_fn(body, content_type), model)
    answer = inference.output_fn(prediction, accept)
    return json.loads(answer) if isinstance(answer, str) else np.load(io.BytesIO(answer))


answers = requests.answers(ask, requests.read_digits(sys.argv[2]))
Path(sys.argv[3]).write_text(json.dumps(answers))
