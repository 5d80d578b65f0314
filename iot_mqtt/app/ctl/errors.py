"""What a command of ``ctl`` says when it cannot do what it was asked for."""

import click


class CtlError(click.ClickException):
    """What went wrong, for the person who typed the command."""
