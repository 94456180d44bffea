"""Settings of all tests, hypothesis tries few examples, the same ones each time; and values that a
person, a script or a program might put where something else belongs.

With SHOAL_FUZZ=300 it tries 300 new ones (`make fuzz`, `make test-all`).
"""

import copy
import os
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

_QUIET = (
    HealthCheck.too_slow,
    HealthCheck.data_too_large,
    HealthCheck.filter_too_much,
    HealthCheck.large_base_example,
)
settings.register_profile(
    "gate",
    max_examples=10,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=_QUIET,
)
settings.register_profile(
    "fuzz",
    max_examples=int(os.environ.get("SHOAL_FUZZ", "10")),
    deadline=None,
    print_blob=True,
    suppress_health_check=_QUIET,
)
settings.load_profile("fuzz" if "SHOAL_FUZZ" in os.environ else "gate")


TEXT = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        [
            "",
            " ",
            "..",
            "/",
            "null",
            "NaN",
            "-1",
            "0",
            "1e400",
            "\x00",
            "\ud800",
            "é" * 300,
            "{{",
            "${x}",
            "%s",
            "ml.p4d.24xlarge",
        ]
    ),
)
NUMBERS = st.one_of(
    st.integers(),
    st.sampled_from([0, -1, 2**31, 2**63, 2**70, 10**400]),
    st.floats(allow_nan=True, allow_infinity=True),
)
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, TEXT)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXT, inner, max_size=4)),
    max_leaves=8,
)


def json_safe(value: Any) -> Any:
    """The value with text that UTF-8 has; JSON and YAML of a file cannot carry anything else."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {json_safe(key): json_safe(member) for key, member in value.items()}
    return [json_safe(member) for member in value] if isinstance(value, list) else value


def places_in(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of everything in a document, itself first."""
    members: list[Any] = (
        list(document)
        if isinstance(document, dict)
        else list(range(len(document)))
        if isinstance(document, list)
        else []
    )
    return [
        path,
        *(each for member in members for each in places_in(document[member], (*path, member))),
    ]


@st.composite
def spoilt(
    draw: st.DrawFn, good: Any, values: st.SearchStrategy[Any] = ANYTHING, most: int = 3
) -> Any:
    """A copy of `good` in which one to `most` members are replaced, removed, added or doubled."""
    document = copy.deepcopy(good)
    for _ in range(draw(st.integers(1, most))):
        path = draw(st.sampled_from(places_in(document)))
        if not path:
            return draw(values) if draw(st.integers(0, 20)) == 0 else document
        parent = document
        for part in path[:-1]:
            parent = parent[part]
        kind = draw(st.sampled_from(["replace", "replace", "remove", "add", "double"]))
        if kind == "remove":
            del parent[path[-1]]
        elif kind == "add" and isinstance(parent, dict):
            parent[draw(TEXT)] = draw(values)
        elif kind == "double" and isinstance(parent, list):
            parent.append(copy.deepcopy(parent[path[-1]]))
        else:
            parent[path[-1]] = draw(values)
    return document
