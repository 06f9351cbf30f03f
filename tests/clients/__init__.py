"""Other people's client packages against the running service, each in an environment of its own."""
