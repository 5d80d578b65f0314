"""Protocols that come with the broker. They import the SDK and nothing else of it, as a vendor's do."""
