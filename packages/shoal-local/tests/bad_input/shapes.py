"""Values of the shapes that botocore's models give requests: a shape in, a hypothesis strategy
out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from botocore.model import ListShape, MapShape, Shape, StructureShape
from hypothesis import strategies as st

from local_kit.values import TEXT

Strategy = st.SearchStrategy[Any]
_DEEPEST = 4
_MEMBERS = 8
"""Optional ones of a structure that are tried: some have hundreds."""


def of_shape(
    shape: Shape | None,
    leaf: Callable[[Shape], Strategy],
    spoil: Callable[[Strategy], Strategy] | None = None,
) -> Strategy:
    """Structures, lists and maps as the model has them; `leaf` makes the strategy of any other
    shape, `spoil` may add what is not right.
    """

    def inner(shape: Shape, depth: int) -> Strategy:
        if depth > _DEEPEST:
            return st.just({})
        return spoil(right(shape, depth)) if spoil else right(shape, depth)

    def later(member: Shape, depth: int) -> Strategy:
        return st.deferred(lambda: inner(member, depth))

    def right(shape: Shape, depth: int) -> Strategy:
        if isinstance(shape, StructureShape):
            needed = {
                name: inner(shape.members[name], depth + 1) for name in shape.required_members
            }
            others = {
                name: later(member, depth + 1)
                for name, member in list(shape.members.items())[:_MEMBERS]
            }
            return st.fixed_dictionaries(
                needed,
                optional={name: value for name, value in others.items() if name not in needed},
            )
        if isinstance(shape, ListShape):
            return st.lists(inner(shape.member, depth + 1), max_size=2)
        if isinstance(shape, MapShape):
            return st.dictionaries(TEXT, inner(shape.value, depth + 1), max_size=2)
        return leaf(shape)

    return st.just({}) if shape is None else right(shape, 0)
