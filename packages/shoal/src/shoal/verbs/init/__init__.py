"""`shoal init`: the repository of a team, rendered from this version's own top level."""
