"""Tests of the web side."""
