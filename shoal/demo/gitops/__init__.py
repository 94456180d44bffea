"""`shoal demo --gitops`: three releases from a commit to production, in three accounts."""
