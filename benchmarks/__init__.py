"""The project's own benchmarks: ``python -m benchmarks``; see README.md."""
