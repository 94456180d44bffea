"""The CDK stacks, one file each; `platform.EnvironmentStage` makes an environment's, in order.

Stacks only wire; what they wire are the constructs of `shoal.constructs`. Nothing here reads a
clock, the network or credentials, so the same checkout gives the same bytes. References between
stacks are exports (`defaultCrossStackReferences: strong`, of the library's feature flags):
CloudFormation then refuses to delete what another stack still uses.
"""
