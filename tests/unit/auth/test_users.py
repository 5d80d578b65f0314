"""The file of users: what it holds, and errors that name the line but never a password."""

from __future__ import annotations

import pytest

from iot_mqtt.auth import argon
from iot_mqtt.auth.files import FileError
from iot_mqtt.auth.users import parse_users
from tests.unit.auth.authkit import cheap_hash

HASH = cheap_hash("pw")


def test_users_comments_and_blank_lines() -> None:
    """Names may have spaces and any script; lines may end as on Windows."""
    users = parse_users(f"# staff\r\n\r\nann lee:{HASH}\r\n#bob:{HASH}\n名:{HASH}", "users")
    assert len(users) == 2
    assert "ann lee" in users
    assert "名" in users
    assert "bob" not in users
    assert users.hash_of("ann lee") == HASH


def test_an_unknown_name_costs_what_known_ones_cost() -> None:
    """Two of three hashes are cheap: so are two of three names that are not there, and always the same ones."""
    dear = argon.hash_password(b"x")
    text = f"a:{HASH}\nb:{cheap_hash('x')}\nc:{dear}"
    users, again = parse_users(text, "users"), parse_users(text, "users")
    names = [f"nobody-{number}" for number in range(900)]
    costs = [argon.cost(users.hash_of(name)) for name in names]
    assert set(costs) == {argon.cost(HASH), argon.cost(dear)}
    assert 500 < costs.count(argon.cost(HASH)) < 700
    assert costs == [argon.cost(again.hash_of(name)) for name in names]
    assert "nobody-1" not in users


def test_an_empty_file_is_a_file_without_users() -> None:
    """Nobody gets in, and asking costs what it costs with users."""
    users = parse_users("", "users")
    assert len(users) == 0
    assert argon.cost(users.hash_of("x")) == argon.cost(argon.decoy())


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("# fine\nann", 2, "name:hash"),
        ("ann:secret", 1, "argon2id"),
        (f"ann:{HASH}\n:{HASH}", 2, "empty"),
        (f" ann:{HASH}", 1, "space"),
        (f"a\tb:{HASH}", 1, "printable"),
        (f"ann:{HASH}\nbob:{HASH}\nann:{HASH}", 3, "second time"),
        (f"ann:{HASH}:more", 1, "argon2id"),
    ],
    # The hash is another one in each process.
    ids=["no hash", "a plain password", "no name", "a space", "a tab", "twice", "more"],
)
def test_an_error_names_its_line(text: str, line: int, words: str) -> None:
    """The first bad line, and not what stands in it."""
    with pytest.raises(FileError) as caught:
        parse_users(text, "users")
    assert caught.value.line == line
    assert words in caught.value.detail
    assert "secret" not in str(caught.value)
