"""The command line: read arguments, call `shoal.verbs`, print text and choose exit codes."""
