"""Benchmarks of the whole service and of its engine, each beside a named rival in the same run."""
