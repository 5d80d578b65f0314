"""What makes many nodes one broker: who is there, and what they tell each other."""
