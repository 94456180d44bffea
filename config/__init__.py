"""Environment files in, frozen typed settings out; see `config.settings`, `config.loader` and
`config.names`.
"""
