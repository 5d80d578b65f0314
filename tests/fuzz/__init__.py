"""Fuzzing: bytes that nobody sends on purpose, to everything that reads bytes."""
