"""Settings in, CloudFormation templates out: `stage.EnvironmentStage` makes one environment's
stacks.

Stacks only wire; what they wire lives in `constructs/`, one file per capability. Nothing here reads
a clock, the network or credentials, so the same checkout gives the same bytes. References between
stacks are exports (`defaultCrossStackReferences: strong` in cdk.json): CloudFormation then refuses
to delete what another stack still uses.

`DeliveryStack` (the roles that a CI system assumes, one stack per account) stands outside the
stages.

Not here yet: `ServingStack` (the pinned release behind an endpoint, after pipeline).
"""
