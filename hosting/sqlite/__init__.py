"""Django's SQLite backend, whose writers wait for each other without polling."""
