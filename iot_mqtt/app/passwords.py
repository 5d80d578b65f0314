"""Passwords as commands take them: from a terminal, or from standard input, and never from the command line."""

from __future__ import annotations

import sys

import click

password_stdin_option = click.option(
    "--password-stdin", is_flag=True, help="Read the password from the first line of standard input."
)


def ask_password(from_stdin: bool) -> str:
    """The password, which is not empty."""
    if from_stdin:
        text = sys.stdin.readline().rstrip("\r\n")
    else:
        text = click.prompt("Password", hide_input=True, confirmation_prompt=True)
    if not text:
        raise click.UsageError("the password is empty")
    return str(text)
