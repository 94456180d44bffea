"""Tables of plain text: the same on a terminal and in a pipe, and never cut."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from shoal.settings.parsing.errors import one_line


def columns(
    rows: Iterable[Sequence[str]], *, indent: str = "", right: bool = False
) -> Iterator[str]:
    """Yield each row as a line, with columns as wide as their widest cell.

    With `right`, all but the first are aligned to the right. Cells may come from outside.
    """
    table = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for first, *rest in table:
        cells = [first.ljust(widths[0])]
        for cell, width in zip(rest, widths[1:], strict=True):
            cells.append(cell.rjust(width) if right else cell.ljust(width))
        yield f"{indent}{'  '.join(cells)}".rstrip()
