"""`python -m config schema` writes environments/schema.json again, after a change of
`config.settings`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from config.schema import FILE, schema_text


def main(arguments: list[str], root: Path) -> int:
    """Write the schema; return 0, or 2 for wrong usage."""
    if arguments != ["schema"]:
        print("usage: python -m config schema", file=sys.stderr)
        return 2
    (root / FILE).write_text(schema_text(), encoding="utf-8")
    print(f"wrote {FILE}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Path(__file__).resolve().parent.parent))
