"""Why a client does or does not get its messages: what a node knows of it, and what that means.

``facts`` is what is known, ``connection``, ``delivery`` and ``places`` say what it means, ``resource`` answers.
"""
