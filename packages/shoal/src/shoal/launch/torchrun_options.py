"""Names of hyperparameters that torchrun would take for the beginning of its own options.

Source and reason: torchrun.yaml.
"""

from __future__ import annotations

from functools import cache

from shoal.settings.parsing.yaml_file import read_table


@cache
def _options() -> tuple[str, ...]:
    names = read_table(__file__, "torchrun.yaml")["options"].split()
    return tuple(sorted({*names, *(name.replace("-", "_") for name in names)}))


def ambiguous_with(name: str) -> tuple[str, ...]:
    """Return the options of which `name` is the beginning, if that ends a job; else nothing.

    The toolkit writes a name of one letter with one dash, which is the beginning of none.
    """
    if len(name) == 1 or name in _options():
        return ()
    matches = tuple(option for option in _options() if option.startswith(name))
    return matches if len(matches) > 1 else ()
