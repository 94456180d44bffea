"""Environment files as frozen, typed settings: see `shoal.settings.settings`,
`shoal.settings.loading.loader` and `shoal.settings.names`.
"""
