"""From YAML files to checked settings, with one line per mistake."""
