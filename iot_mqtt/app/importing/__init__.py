"""Coming from another broker: its files in our words."""
