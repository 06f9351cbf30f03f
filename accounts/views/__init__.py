"""The account pages: sign_in (and password), api_keys, people (and invitations), setup."""
