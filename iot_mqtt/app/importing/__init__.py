"""Coming from another broker: its files in our words, its sessions, and its retained messages."""
