"""What a command of ``ctl`` says when it cannot do what it was asked for."""


class CtlError(Exception):
    """What went wrong, for the person who typed the command."""
