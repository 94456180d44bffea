"""What no single answer shows: the same seed continues a text the same way, another does not."""

import json
from collections.abc import Callable

PROMPT = "Returns a list of "
SEEDS = (1, 1, 2)


def check(ask: Callable[..., bytes]) -> list[str]:
    """Return a sentence for each rule that the answers break.

    `ask(body, content_type, accept)` returns the bytes of the endpoint's answer.
    """
    first, again, other = (_continuation(ask, seed) for seed in SEEDS)
    broken = []
    if again != first:
        broken.append(f"seed 1 wrote {first!r}, and then {again!r}")
    if other == first:
        broken.append(f"seeds 1 and 2 both wrote {first!r}")
    return broken


def _continuation(ask: Callable[..., bytes], seed: int) -> str:
    parameters = {"max_new_tokens": 16, "temperature": 1, "seed": seed}
    body = json.dumps({"inputs": PROMPT, "parameters": parameters}).encode()
    return str(json.loads(ask(body))["generated_text"])
