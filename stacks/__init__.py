"""The CDK stacks. `stage.EnvironmentStage` makes those of one environment.

Stacks only wire; what they wire lives in `constructs/`, one file per capability. Nothing here reads
a clock, the network or credentials, so the same checkout gives the same bytes. References between
stacks are exports (`defaultCrossStackReferences: strong` in cdk.json): CloudFormation then refuses
to delete what another stack still uses.

`DeliveryStack` (the roles that a CI system assumes, one stack per account) stands outside the
stages.
"""
