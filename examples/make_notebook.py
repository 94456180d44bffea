"""Makes train_without_pipeline.ipynb from train_without_pipeline.py, with its cells executed.

The script is the source (cells start with `# %%`); the notebook has the same cells with what they
really printed. `make examples` calls this with shoal-local running. If a cell fails, this fails,
and no notebook is written.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

from examples.cells import cells_of

HERE = Path(__file__).resolve().parent
SCRIPT, NOTEBOOK = HERE / "train_without_pipeline.py", HERE / "train_without_pipeline.ipynb"
_TIMEOUT_S = 1800
_KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}


def _is_blank(output: Mapping[str, Any]) -> bool:
    """Return whether a text is what the SDK's progress bar leaves when it is done."""
    return output["output_type"] == "display_data" and not output["data"]["text/plain"].strip()


def main() -> int:
    """Execute and write the notebook; 0 if every cell ran."""
    notebook = nbformat.v4.new_notebook(metadata={"kernelspec": _KERNEL})
    make = {"markdown": nbformat.v4.new_markdown_cell, "code": nbformat.v4.new_code_cell}
    cells = cells_of(SCRIPT.read_text(encoding="utf-8"))
    notebook.cells = [
        make[kind](source, id=f"cell-{number}") for number, (kind, source) in enumerate(cells)
    ]
    NotebookClient(
        notebook,
        timeout=_TIMEOUT_S,
        record_timing=False,
        resources={"metadata": {"path": str(Path.cwd())}},
    ).execute()
    notebook.metadata = nbformat.from_dict({"kernelspec": _KERNEL})
    for cell in (each for each in notebook.cells if each.cell_type == "code"):
        cell.outputs = [output for output in cell.outputs if not _is_blank(output)]
    text = nbformat.writes(notebook) + "\n"
    for private in (str(HERE.parent), str(Path.home()), str(Path.cwd())):
        if f"{private}/" in text:
            print(
                f"a cell printed a path of this machine, {private}; nothing was written",
                file=sys.stderr,
            )
            return 1
    NOTEBOOK.write_text(text, encoding="utf-8")
    print(f"executed {len(cells)} cells into {NOTEBOOK.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
