"""Settings of all tests: hypothesis tries few examples, the same ones each time, and the CDK's own
validation of templates, half of a synth, is left to the team's tests.
"""

import os

from local_kit import values  # noqa: F401 - loading it chooses hypothesis's profile

os.environ.setdefault("CDK_VALIDATION", "false")
