"""``iot-mqtt passwd``: keep the file that ``auth.users_file`` names."""

from __future__ import annotations

from pathlib import Path

import click

from iot_mqtt.app.passwords import ask_password, password_stdin_option


@click.command()
@click.argument("file", type=click.Path(dir_okay=False))
@click.argument("user")
@password_stdin_option
@click.option("--scram", is_flag=True, help="Let the user log in by SCRAM-SHA-256, too.")
@click.option("--delete", is_flag=True, help="Remove the user.")
@click.option("--disable", is_flag=True, help="Let nobody in as this user; the password is kept.")
@click.option("--enable", is_flag=True, help="Let the user in again.")
def passwd(file: str, user: str, password_stdin: bool, scram: bool, delete: bool, disable: bool, enable: bool) -> None:
    """Set the password of USER in FILE, or remove, disable or enable the user.

    A file that exists keeps its owner and its mode. A new one has mode 0600; root's is for the owner of its folder, and
    for the group of a folder that is closed to others. A running node reads it again by itself, within a second, and
    disconnects users who were removed or disabled. A new password is asked for at the next CONNECT.
    """
    # Late: argon2 is a compiled library that the other commands need not load.
    from iot_mqtt.auth import passwd as users
    from iot_mqtt.auth.files import FileError

    if delete + disable + enable > 1:
        raise click.UsageError("one of --delete, --disable and --enable")
    if (delete or disable or enable) and (password_stdin or scram):
        raise click.UsageError("only a new password is read")
    made = not Path(file).exists()
    try:
        if delete:
            known = users.remove_user(file, user)
        elif disable or enable:
            known = users.set_disabled(file, user, disabled=disable)
        else:
            known = True
            users.set_password(file, user, ask_password(password_stdin).encode(), scram=scram)
            if users.is_disabled(file, user):
                click.echo(f"{user} is disabled; let the user in with --enable", err=True)
        if not known:
            raise click.ClickException(f"{file}: there is no user {user}")
        if made and users.is_roots_alone(file):
            click.echo(f"only root can read {file}: give it to the user that the node runs as (chown)", err=True)
    except (FileError, ValueError) as error:
        raise click.ClickException(str(error)) from error
