"""The account pages: sign_in (and password), api_keys, setup."""
