"""Runs in an image's Python: a request per line on stdin (content type, accept, body in base64),
what input_fn made of it on stdout.
"""

import base64
import json
import sys

sys.path.insert(0, sys.argv[1])
import inference

print("ready", flush=True)
for line in sys.stdin:
    request = json.loads(line)
    try:
        images = inference.input_fn(base64.b64decode(request["body"]), request["content_type"])
        outcome = f"images {tuple(images.shape)} {images.dtype}"
    except ValueError as refused:
        outcome = f"ValueError: {' '.join(str(refused).split())}"
    except Exception as broken:  # noqa: BLE001 - what it is, is the answer
        outcome = f"{type(broken).__name__}: {broken}"
    print(json.dumps(outcome), flush=True)
