"""Coming from another broker: its files in our words, and its retained messages."""
