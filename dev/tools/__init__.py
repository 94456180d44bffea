"""What developers run: installer, lock files, gates, generated pages. Only tests import it."""
