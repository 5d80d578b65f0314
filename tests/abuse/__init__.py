"""Attacks on all ports of a node at once, at full size: ``python -m tests.abuse``."""
