"""The chat page and the JSON it lives on: session cookie, CSRF header, one action call a view."""
