"""``iot-mqtt passwd``: keep the file that ``auth.users_file`` names."""

from __future__ import annotations

import sys

import click


@click.command()
@click.argument("file", type=click.Path(dir_okay=False))
@click.argument("user")
@click.option("--password-stdin", is_flag=True, help="Read the password from the first line of standard input.")
@click.option("--delete", is_flag=True, help="Remove the user.")
def passwd(file: str, user: str, password_stdin: bool, delete: bool) -> None:
    """Set the password of USER in FILE, or remove the user.

    The file is created with mode 0600 if it does not exist. A running node reads it again by itself.
    """
    # Late: argon2 is a compiled library that the other commands need not load.
    from iot_mqtt.auth import passwd as users
    from iot_mqtt.auth.files import FileError

    if delete and password_stdin:
        raise click.UsageError("--delete takes no password")
    try:
        if not delete:
            users.set_password(file, user, _password(password_stdin).encode())
        elif not users.remove_user(file, user):
            raise click.ClickException(f"{file}: there is no user {user}")
    except (FileError, ValueError) as error:
        raise click.ClickException(str(error)) from error


def _password(from_stdin: bool) -> str:
    if from_stdin:
        text = sys.stdin.readline().rstrip("\r\n")
    else:
        text = click.prompt("Password", hide_input=True, confirmation_prompt=True)
    if not text:
        raise click.UsageError("the password is empty")
    return str(text)
