"""Write where the ranks of this job meet."""

import json
import os
import sys
from pathlib import Path

if os.environ["RANK"] == "0":
    Path(sys.argv[1]).write_text(
        json.dumps({"port": os.environ["MASTER_PORT"], "address": os.environ["MASTER_ADDR"]})
    )
