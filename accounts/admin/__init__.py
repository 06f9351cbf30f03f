"""People, groups, keys, usage and the audit record in the administration."""

from accounts.admin import api_keys, audit, people, quotas, usage

__all__ = ["api_keys", "audit", "people", "quotas", "usage"]
