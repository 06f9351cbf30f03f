"""OpenAI's published description of its API (MIT, see LICENSE), cut down, as a measure of ours."""
