"""The HTTP API under /v1: OpenAI's dialect over the actions. One file maps the wire to it."""
