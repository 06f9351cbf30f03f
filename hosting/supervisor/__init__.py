"""Starts, watches and ends the processes of one installation: what `manage.py up` runs.

It knows how each process is started and when one is dead or stuck; of requests it knows nothing.
"""
