"""Write where the ranks of this job meet."""

import os

import report

report.write(int(os.environ["RANK"]), {"port": os.environ["MASTER_PORT"]})
