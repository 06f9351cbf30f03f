"""How dates and numbers are written, by language: Django looks here before its own formats."""
