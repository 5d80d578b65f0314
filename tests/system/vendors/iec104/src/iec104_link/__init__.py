"""Substations that speak IEC 60870-5-104."""
