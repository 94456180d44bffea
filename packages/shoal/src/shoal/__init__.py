"""The `shoal` command: `cli` reads and prints words, `verbs` do the work, `demo` shows it all."""
