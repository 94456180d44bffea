"""Environment files as frozen, typed settings: see `config.settings`, `config.loader` and
`config.names`.
"""
