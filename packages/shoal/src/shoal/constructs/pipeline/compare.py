"""The function that compares an evaluation with the newest approved version."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from shoal.constructs.python_function import PythonFunction
from shoal.settings.names import Names

PURPOSE = "compare"


class Compare(Construct):
    """It may read this workload's registry."""

    def __init__(self, scope: Construct, construct_id: str, *, names: Names) -> None:
        super().__init__(scope, construct_id)
        self.comparer = PythonFunction(
            self,
            "Comparer",
            names=names,
            purpose=PURPOSE,
            folder="compare",
            module="compare",
            description=f"Compares an evaluation of {names.pipeline} with the approved model",
            timeout=cdk.Duration.minutes(1),
        )
        self.comparer.role.allow_part("compare")
