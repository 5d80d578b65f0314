"""Power cuts of a real broker, at thousands of points: ``python -m tests.powercut`` (docs/adr/0069)."""
