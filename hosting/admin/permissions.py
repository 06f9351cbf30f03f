"""What a group may be allowed in the administration, in words: what the code asks for, no more.

tests/hosting/test_admin_permissions.py holds them together.
"""

from __future__ import annotations

PERMISSIONS = {
    "hosting.view_generation": "Live, memory, generations: see them",
    "hosting.change_generation": "Generations: stop them",
    "hosting.view_batch": "Batches: see them; who may stop generations may cancel them",
    "hosting.view_benchmark": "Benchmarks: see them",
    "hosting.add_benchmark": "Benchmarks: start",
    "hosting.change_benchmark": "Benchmarks: cancel",
    "hosting.delete_benchmark": "Benchmarks: delete",
    "hosting.change_memorylimit": "Memory: set an engine's limit",
    "hosting.view_hostedmodel": "Models and prefix cache: see them",
    "hosting.add_hostedmodel": "Models: add",
    "hosting.change_hostedmodel": "Models: change, load, unload; clear the prefix cache",
    "hosting.delete_hostedmodel": "Models: delete",
    "hosting.view_quantisation": "Quantised copies: see them; who may add models may make them",
    "hosting.view_publishedprompt": "Published prompts: see them",
    "hosting.add_publishedprompt": "Published prompts: add",
    "hosting.change_publishedprompt": "Published prompts: publish again",
    "hosting.delete_publishedprompt": "Published prompts: withdraw",
    "hosting.view_toolserver": "Tool servers: see them",
    "hosting.add_toolserver": "Tool servers: add",
    "hosting.change_toolserver": "Tool servers: change, list and allow their tools",
    "hosting.delete_toolserver": "Tool servers: delete",
    "accounts.view_user": "People: see them",
    "accounts.add_user": "People: add, for who may change them too",
    "accounts.change_user": "People: change, switch off, set passwords; only those without powers",
    "accounts.delete_user": "People: delete; only those without powers",
    "auth.view_group": "Groups: see them",
    "auth.add_group": "Groups: add",
    "auth.change_group": "Groups: rename",
    "auth.delete_group": "Groups: delete",
    "accounts.view_quota": "Limits: see them",
    "accounts.add_quota": "Limits: set where there are none",
    "accounts.change_quota": "Limits: change",
    "accounts.delete_quota": "Limits: take away",
    "accounts.view_apikey": "API keys: see whose there are",
    "accounts.change_apikey": "API keys: change, revoke",
    "accounts.delete_apikey": "API keys: delete",
    "accounts.view_auditrecord": "Audit: see it",
    "accounts.view_hourlyusage": "Usage by the hour: see it",
    "accounts.view_usagerecord": "Ledger: see it",
}
