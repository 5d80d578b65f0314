"""Faults that somebody could put into the core, and the tests that must find them (``python -m tests.mutants``)."""
