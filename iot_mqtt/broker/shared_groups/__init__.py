"""Durable shared groups: ``$share/…`` subscriptions with a member that is kept when it is away."""
