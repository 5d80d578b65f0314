"""All packet cases in one table."""

from tests.cases import acks, connack, connect, connection, publish, subscribing

CASES = connect.CASES + connack.CASES + publish.CASES + acks.CASES + subscribing.CASES + connection.CASES
