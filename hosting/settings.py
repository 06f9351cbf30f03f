"""Settings, all from the environment. Every default is safe; no file has to be written by hand.

Variable                 Default             Meaning
HEARTH_DATA_DIR          <checkout>/data     database, secret key, sockets, logs, models
HEARTH_BIND, PORT        127.0.0.1, 8000     where the web process listens
HEARTH_ALLOWED_HOSTS     this machine        host names, with commas, under which people reach it;
                                             this machine itself may always call it localhost
HEARTH_CORS_ORIGINS      none                origins of browser applications that may call /v1, with
                                             commas, or *
HEARTH_HTTPS             0                   1 behind a TLS proxy that sets X-Forwarded-Proto
HEARTH_SECRET_KEY        data/secret_key     made at first start
HEARTH_DEBUG             0                   1 only while developing
HEARTH_LOG_FORMAT        text                text or json
HEARTH_LOG_LEVEL         INFO                or DEBUG, WARNING, ERROR, CRITICAL
HEARTH_RETENTION_DAYS    90                  how long generation rows are kept
HEARTH_MAX_FILE_MB       100                 the largest file that may be uploaded for a batch
HEARTH_MAX_FILES_MB_PER_PERSON  1000         what a person's files and images may have
HEARTH_MAX_IMAGE_MB      10                  the largest image that a message may have
HEARTH_MAX_IMAGES        16                  how many images a request may have, with those before
HEARTH_MIN_FREE_DISK_MB  1024                less free space on the disk, and no file is taken
HEARTH_BATCH_REQUESTS_AT_ONCE  16            of all batches of everybody
HEARTH_MAX_CONCURRENT    8                   requests of one person at once, where no limits are set
HEARTH_SETTINGS_KEPT_SECONDS  0.5            how soon a changed limit, key or model counts
DATABASE_URL             data/db.sqlite3     postgres://user:password@host/name
REDIS_URL                private socket      any Redis 6.2 or newer

hosting/sign_in_settings.py has those for second factors and for OpenID Connect.
`manage.py check --deploy` is clean with HEARTH_HTTPS=1 and HEARTH_ALLOWED_HOSTS=<the public name>.
"""

from __future__ import annotations

import os
import socket
import urllib.parse
from pathlib import Path
from typing import Any

from celery.schedules import crontab

from engine import wire
from hosting import environment, secret_key
from hosting.admin_theme import UNFOLD as UNFOLD
from hosting.data_folder import prepare_data_folder
from hosting.sign_in_settings import *  # noqa: F403

BASE_DIR = Path(__file__).resolve().parent.parent

# -- Where things are ---------------------------------------------------------------------------

_DATA_DIR = os.path.expanduser(environment.text("HEARTH_DATA_DIR", str(BASE_DIR / "data")))
DATA_DIR = Path(_DATA_DIR).resolve()
prepare_data_folder(DATA_DIR)
MODELS_DIR = DATA_DIR / "models"
DEMO_MODEL_DIR = BASE_DIR / "engine" / "demo" / "model"
REDIS_URL = environment.redis_url("REDIS_URL", wire.default_redis_url(str(DATA_DIR)))
BIND = environment.text("HEARTH_BIND", "127.0.0.1").strip("[]")
PORT = environment.number("PORT", 8000, least=1, most=65535)
RETENTION_DAYS = environment.number("HEARTH_RETENTION_DAYS", 90, least=1, most=36_500)
_MB = 1024 * 1024
_MOST_MB = 1024 * 1024
MAX_FILE_BYTES = _MB * environment.number("HEARTH_MAX_FILE_MB", 100, least=1, most=_MOST_MB)
MAX_FILE_BYTES_PER_PERSON = _MB * environment.number(
    "HEARTH_MAX_FILES_MB_PER_PERSON", 1000, least=1, most=_MOST_MB
)
MAX_IMAGE_BYTES = _MB * environment.number("HEARTH_MAX_IMAGE_MB", 10, least=1, most=20)
MAX_IMAGES = environment.number("HEARTH_MAX_IMAGES", 16, least=1, most=16)
MIN_FREE_DISK_BYTES = _MB * environment.number(
    "HEARTH_MIN_FREE_DISK_MB", 1024, least=0, most=_MOST_MB
)
BATCH_REQUESTS_AT_ONCE = environment.number("HEARTH_BATCH_REQUESTS_AT_ONCE", 16, least=1, most=1000)
MAX_CONCURRENT_PER_PERSON = environment.number("HEARTH_MAX_CONCURRENT", 8, least=1, most=1_000_000)

# -- Safety -------------------------------------------------------------------------------------

DEBUG = environment.flag("HEARTH_DEBUG")
SECRET_KEY = environment.text("HEARTH_SECRET_KEY") or secret_key.load_or_create(
    DATA_DIR / "secret_key"
)
IS_HTTPS = environment.flag("HEARTH_HTTPS")
_ALL_INTERFACES = BIND in ("0.0.0.0", "::")
_TOLD_HOSTS = environment.hosts("HEARTH_ALLOWED_HOSTS")
_OWN_ADDRESS = f"[{BIND}]" if ":" in BIND else BIND
_OWN_HOSTS = [socket.gethostname().lower(), _OWN_ADDRESS, *([".local"] if _ALL_INTERFACES else [])]
_HOSTS = _TOLD_HOSTS or _OWN_HOSTS
# The supervisor, doctor and whoever collects metrics ask from this machine
ALLOWED_HOSTS = [*_HOSTS, "localhost", "127.0.0.1", "[::1]"]
# Not those of this machine: what else listens there is another origin
CSRF_TRUSTED_ORIGINS = [
    f"https://{'*' if host.startswith('.') else ''}{host}" for host in _HOSTS if IS_HTTPS
]
_ORIGINS = environment.origins("HEARTH_CORS_ORIGINS")
CORS_ALLOW_ALL_ORIGINS = _ORIGINS == ["*"]
CORS_ALLOWED_ORIGINS = [] if CORS_ALLOW_ALL_ORIGINS else _ORIGINS
CORS_URLS_REGEX = "^/(v1/|(v2/)?rerank$)"
CORS_ALLOW_CREDENTIALS = False  # a key opens the API, a cookie never
# Without cookies * is every header but the one with the key
CORS_ALLOW_HEADERS, CORS_EXPOSE_HEADERS = ["*", "authorization"], ["*"]
# The name in the links that the terminal prints
PUBLIC_HOST = next((host for host in _TOLD_HOSTS if host[0] not in ".*"), None)
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT = IS_HTTPS
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if IS_HTTPS else None
SECURE_REDIRECT_EXEMPT = [r"^(healthz|readyz|metrics)$"]
SECURE_HSTS_SECONDS = 365 * 24 * 3600 if IS_HTTPS else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = IS_HTTPS
SECURE_REFERRER_POLICY = "same-origin"
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SESSION_ENGINE = "accounts.session_store"
# Two installations on one machine differ by port only, and cookies do not know ports
SESSION_COOKIE_NAME, CSRF_COOKIE_NAME = f"hearth_session_{PORT}", f"hearth_csrf_{PORT}"
X_FRAME_OPTIONS = "DENY"
# Agents send long turns; the API answers above this with its own JSON 413
DATA_UPLOAD_MAX_MEMORY_SIZE = 32 * 1024 * 1024
DATA_UPLOAD_MAX_NUMBER_FIELDS = 10_000  # a question about many rows posts each of them

AUTH_USER_MODEL = "accounts.User"
LOGIN_URL = "sign-in"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "sign-in"
# Accounts itself knows no models and no generations: which model the key page's examples name,
# and who ends the open answers of a person or key whose access has ended
ACCOUNTS_EXAMPLE_MODEL = "hosting.actions.hosted_models.default_model_name"
# The names of the models that a person may use
ACCOUNTS_MODELS_OF = "hosting.actions.hosted_models.names_for"
# The names of all models
ACCOUNTS_MODEL_NAMES = "hosting.actions.hosted_models.model_names"
# What a group may be allowed in the administration, in words
ACCOUNTS_PERMISSIONS = "hosting.admin.permissions.PERMISSIONS"
# How a person is deleted with everything that the service keeps of them
ACCOUNTS_DELETE_PERSON = "hosting.actions.my_data.delete_person"
ACCOUNTS_ACCESS_ENDED = "hosting.actions.access.end_open_generations"
PASSWORD_HASHERS = ["accounts.hashers.Argon2"]
_VALIDATION = "django.contrib.auth.password_validation"
AUTH_PASSWORD_VALIDATORS: list[dict[str, Any]] = [
    {"NAME": f"{_VALIDATION}.UserAttributeSimilarityValidator"},
    {"NAME": f"{_VALIDATION}.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": f"{_VALIDATION}.CommonPasswordValidator"},
    {"NAME": f"{_VALIDATION}.NumericPasswordValidator"},
]

# -- Applications -------------------------------------------------------------------------------

INSTALLED_APPS = [
    "unfold.apps.BasicAppConfig",  # before the admin, whose templates it replaces
    "hosting.apps.HearthAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.humanize",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "channels",
    "corsheaders",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "accounts",
    "hosting",
]
# Every middleware here is async-capable: one that is not would tie each open stream to a thread
MIDDLEWARE = [
    "hosting.middleware.request_ids",
    *(["corsheaders.middleware.CorsMiddleware"] if _ORIGINS else []),
    "hosting.rate_headers.rate_headers",
    "hosting.django_middleware.Security",
    "hosting.static_files.StaticFilesMiddleware",
    "hosting.middleware.content_security_policy",
    "hosting.middleware.not_stored",
    "hosting.django_middleware.Session",
    "hosting.django_middleware.Common",
    "hosting.middleware.dead_ends",  # before Common tells the length
    "hosting.django_middleware.Csrf",
    "hosting.django_middleware.Authentication",
    "hosting.django_middleware.Messages",
    "allauth.account.middleware.AccountMiddleware",
    "hosting.django_middleware.SecondFactor",
    "hosting.django_middleware.FrameOptions",
]
# They ask for Django's own classes by name, where subclasses of these serve
SILENCED_SYSTEM_CHECKS = ["security.W001", "security.W002", "security.W003"]
ROOT_URLCONF = "hosting.urls"
ASGI_APPLICATION = "hosting.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
STATIC_URL = "/static/"
# Served from where the packages keep them: no STATIC_ROOT, no collectstatic, no network
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = DEBUG

LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_TZ = True
FORMAT_MODULE_PATH = ["hosting.formats"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# -- Stores -------------------------------------------------------------------------------------

SQLITE_OPTIONS = {
    "transaction_mode": "IMMEDIATE",  # a writer waits its turn instead of failing midway
    "timeout": 20,  # seconds
    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA cache_size=-16000; "
    "PRAGMA wal_autocheckpoint=10000; "  # pages, 40 MB: the ledger is there before (sqlite/log.py)
    "PRAGMA secure_delete=ON;",  # what is deleted is overwritten
}
_SQLITE_FILE = urllib.parse.quote(str(DATA_DIR / "db.sqlite3"))
_database = environment.database("DATABASE_URL", f"sqlite:///{_SQLITE_FILE}")
if _database["ENGINE"].endswith("sqlite3"):
    _database["ENGINE"] = "hosting.sqlite"
    _database["OPTIONS"] = SQLITE_OPTIONS
    # A file, not memory: tests use several threads and processes
    _database["TEST"] = {"NAME": DATA_DIR / f"test-{os.getpid()}.sqlite3"}
DATABASES = {"default": _database}

# How soon a request sees a changed limit, key or model at the latest; a revoked key ends within 1 s
SETTINGS_KEPT_SECONDS = environment.seconds("HEARTH_SETTINGS_KEPT_SECONDS", 0.5, most=60)
HUB_LINGER_SECONDS = 30  # how long an idle web process keeps its readers' connections to Redis

CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {
            # redis-py's default of 5 s would end every idle wait with an error
            "hosts": [{"address": REDIS_URL, "socket_timeout": None}],
            "prefix": "hearth-channels",
        },
    }
}


def celery_url(redis_url: str) -> str:
    """Celery's name for the same Redis: it spells unix sockets and their database differently."""
    if not redis_url.startswith("unix://"):
        return redis_url
    path, _, query = redis_url.removeprefix("unix://").partition("?")
    database = query.removeprefix("db=") or "0"
    return f"redis+socket://{path}?virtual_host={database}"


CELERY_BROKER_URL = celery_url(REDIS_URL)
# Celery by itself believes any certificate; what the URL says of it counts before this
CELERY_BROKER_USE_SSL = {"ssl_cert_reqs": "required"} if REDIS_URL.startswith("rediss://") else None
CELERY_BROKER_TRANSPORT_OPTIONS = {"global_keyprefix": "hearth-celery:", "visibility_timeout": 7200}
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_PUBLISH_RETRY = False  # a request must not wait for Redis to come back
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_TIMEZONE = "UTC"
CELERY_BEAT_SCHEDULE_FILENAME = str(DATA_DIR / "celerybeat-schedule")
CELERY_BEAT_SCHEDULE = {
    "templates": {"task": "hosting.tasks.look_at_templates", "schedule": crontab()},
    "fetches": {"task": "hosting.tasks.look_at_fetches", "schedule": crontab()},
    "batches": {"task": "hosting.tasks.look_at_batches", "schedule": crontab()},
    "quantisations": {"task": "hosting.tasks.look_at_quantisations", "schedule": crontab()},
    "benchmarks": {"task": "hosting.tasks.look_at_benchmarks", "schedule": crontab()},
    "tool rounds": {"task": "hosting.tasks.look_at_tool_rounds", "schedule": crontab()},
    "roll up usage": {"task": "hosting.tasks.roll_up_usage", "schedule": crontab(minute="*/5")},
    "retention": {"task": "hosting.tasks.apply_retention", "schedule": crontab(minute=30, hour=3)},
}

# -- API ----------------------------------------------------------------------------------------

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": ["accounts.auth.ApiKeyAuthentication"],
    "DEFAULT_PERMISSION_CLASSES": [
        "rest_framework.permissions.IsAuthenticated",
        "hosting.api.scopes.KeyIsMeantForThis",
    ],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "hosting.api.negotiation.AlwaysJson",
    "DEFAULT_SCHEMA_CLASS": "hosting.api.schema.Schema",
    "EXCEPTION_HANDLER": "hosting.api.errors.handle_exception",
    "UNAUTHENTICATED_USER": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Hearth API",
    "DESCRIPTION": "The models of this installation, in OpenAI's and Anthropic's dialects.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": "/v1",
    "PREPROCESSING_HOOKS": ["hosting.api.schema.only_v1"],
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_SETTINGS": {"deepLinking": False},  # a link inside a button reads badly
}

CSRF_FAILURE_VIEW = "hosting.chat.endpoint.csrf_failure"

# -- Logs: a fixed sentence, fields, the request id. Never prompt text, never keys. ---------------

LOG_FORMAT = environment.choice("HEARTH_LOG_FORMAT", "text", "json")
LOG_LEVEL = environment.choice("HEARTH_LOG_LEVEL", "INFO", "DEBUG", "WARNING", "ERROR", "CRITICAL")
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {
        "request_id": {"()": "hosting.logs.RequestIdFilter"},
        "closed_links": {"()": "hosting.logs.ClosedLinks"},
        "one_warning": {"()": "hosting.logs.OneWarning"},
    },
    "formatters": {
        "text": {
            "format": "{asctime} {levelname} {name} [{request_id}] {message}",
            "style": "{",
        },
        "json": {"()": "hosting.logs.JsonFormatter"},
    },
    "handlers": {
        "console": {
            "class": "logging.StreamHandler",
            "formatter": LOG_FORMAT,
            "filters": ["request_id", "closed_links"],
        }
    },
    "root": {"handlers": ["console"], "level": LOG_LEVEL},
    "loggers": {
        "django.server": {"handlers": [], "propagate": True},
        "django.security.DisallowedHost": {"filters": ["one_warning"]},
        "celery.beat": {"level": "WARNING"},
        "daphne.http_protocol": {"level": "WARNING"},
    },
}
