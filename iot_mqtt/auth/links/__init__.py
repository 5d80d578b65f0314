"""The links of the chain: each one way to know a client."""
