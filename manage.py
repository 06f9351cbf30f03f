#!/usr/bin/env python
"""Django's command line for this project."""

import os
import sys

if sys.version_info < (3, 11):  # noqa: UP036 - said here, older ones stumble over the rest
    sys.exit("Hearth needs Python 3.11 or newer. `make install` finds one and makes .venv with it.")
try:
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line
except ModuleNotFoundError:
    sys.exit("This Python has no Django. Use .venv/bin/python; `make install` makes it.")


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "hosting.settings")
    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
