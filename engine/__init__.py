"""The engine turns requests into tokens. It knows no Django, no users, no HTTP."""
