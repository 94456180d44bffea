"""Where the files of Shoal's own top level lie that a team's repository is made of, or falls back
to: in the wheel, which packs them, or else in the checkout.
"""

from pathlib import Path

_PACKED = Path(__file__).with_name("template") / "repository"
TOP_LEVEL = _PACKED if _PACKED.is_dir() else Path(__file__).resolve().parents[4]
