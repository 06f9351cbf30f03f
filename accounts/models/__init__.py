"""People, their API keys, their limits, the ledger of what they used, and the audit record.

Rows only: keys.py makes and checks keys, ledger.py writes usage, audit.py adds to the record,
first_admin.py opens the installation. Nothing here knows of conversations or the engine.
"""

from accounts.models.api_keys import ApiKey, ApiKeyQuerySet, Scope
from accounts.models.audit import AppendOnly, AuditHead, AuditRecord
from accounts.models.invitation import Invitation
from accounts.models.people import LowercaseEmailField, User, UserManager
from accounts.models.policy import LEAST_USAGE_DAYS, Policy
from accounts.models.quota import Quota, Spending
from accounts.models.sign_in import SetupToken, SignInAttempt
from accounts.models.usage import (
    DailyUsage,
    HourlyUsage,
    RollUpMark,
    TokenCounts,
    UsageRecord,
    WeeklyUsage,
)

__all__ = [
    "LEAST_USAGE_DAYS",
    "ApiKey",
    "ApiKeyQuerySet",
    "AppendOnly",
    "AuditHead",
    "AuditRecord",
    "DailyUsage",
    "HourlyUsage",
    "Invitation",
    "LowercaseEmailField",
    "Policy",
    "Quota",
    "RollUpMark",
    "Scope",
    "SetupToken",
    "SignInAttempt",
    "Spending",
    "TokenCounts",
    "UsageRecord",
    "User",
    "UserManager",
    "WeeklyUsage",
]
