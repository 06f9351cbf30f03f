"""People, groups, keys and usage in the administration."""

from accounts.admin import api_keys, people, usage

__all__ = ["api_keys", "people", "usage"]
