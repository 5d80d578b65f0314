"""What gateways and devices can be called: a name becomes one level of a topic.

The SDK says so of ``Login.gateway``; here it is checked while the reason can still be told to whoever can change it.
"""

from __future__ import annotations


def is_name(text: str) -> bool:
    """1 to 64 printable characters, none of them with a meaning in topics."""
    return 1 <= len(text) <= 64 and text.isprintable() and not any(letter in "/+#$" for letter in text)
