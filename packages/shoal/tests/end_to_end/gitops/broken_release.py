"""A bad release: a committed mistake in the code that serves.

It shows only after some answers, so it passes every test that asks a few.
"""

from __future__ import annotations

GOOD_ANSWERS = 25
"""More than any check without load asks: the pipeline's test and the proof of a deployment ask ten
digits.
"""
_MISTAKE = f'''

_predict, _kept = predict_fn, []


def predict_fn(data, model):
    """Keeps every answer, for an analysis that is to come."""
    if len(_kept) == {GOOD_ANSWERS}:
        raise MemoryError("no room for another answer")
    _kept.append(_predict(data, model))
    return _kept[-1]
'''.encode()


def with_mistake(code: bytes) -> bytes:
    """Return `code/inference.py` with the mistake."""
    return code + _MISTAKE
