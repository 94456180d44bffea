"""CloudFormation: templates are resolved and deployed through the emulator's own API, one resource
type at a time.
"""
