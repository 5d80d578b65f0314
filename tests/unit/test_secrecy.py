"""What is a secret by its name or its look, and what is none."""

from __future__ import annotations

import pytest

from iot_mqtt.app.config import ConfigError, load_config, read_config
from iot_mqtt.app.config.text import explained, shown
from iot_mqtt.secrecy import MASK, is_secret, masked, secrets_in, without

SECRET = [
    "password",
    "sasl.password",
    "sslKeyPassphrase",
    "ssl.key.pem",
    "ssl.keystore.key",
    "sasl.jaas.config",
    "sasl.oauthbearer.config",
    "sasl.oauthbearer.client.secret",
    "token",
    "api_key",
    "AWS_SECRET_ACCESS_KEY",
    "aws.credentials",
    "private_key",
    "secret_key",
    "client_secret",
    "access_key",
    "shared-access-key",
    "SharedAccessSignature",
    "signing_key",
    "hmac.key",
    "masterKey",
    "storage_account_key",
    "session_key",
    "app_key",
    "appSKey",
    "NwkSKey",
    "psk",
    "PSK",
    "tls_psk",
    "wifiPsk",
    "psks",
    "psk_hex",
    "pre_shared_key",
    "pin",
    "sim_pin",
    "simPin",
    "pin1",
    "pin-code",
    "puk",
    "pass",
    "db_pass",
    "keypass",
    "passcode",
    "pwd",
    "dbPwd",
    "creds",
    "cookie",
    "session_cookie",
    "bearer",
    "basic_auth",
    "otp",
    "dsn",
    "sentry.dsn",
    "connection_string",
    "connectionString",
    "conn_str",
    "sas",
    "blob_sas",
    "snmp_community",
]
OPEN = [
    *("key", "tls.key", "id", "ssl.ca.pem", "ssl.certificate.pem", "keep_alive", "users_file", "hash_queue", "bypass"),
    *(
        "keys",
        "key_prefix",
        "monkey",
        "keyboard",
        "hockey",
        "routing_key",
        "partition_key",
        "primary_key",
        "tls.client_key",
    ),
    *("pins", "pin_mode", "pinned", "spin", "mapping", "opinion", "psk_identity", "low_pass", "bandpass", "compass"),
    *(
        "passes",
        "cookie_name",
        "bearer_id",
        "forbearer",
        "credits",
        "sasl.mechanisms",
        "connection_strategy",
        "designed",
    ),
    *("communities", "jwt", "jwt_leeway", "hmac", "auth", "sign", "apply_key_map", "on_key"),
]
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEabc\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize("name", SECRET)
def test_secret_names(name: str) -> None:
    """Whatever stands there is masked, also a number or a mapping."""
    assert is_secret(name)
    for value in ("hunter2", 1234, ["hunter2"], {"value": "hunter2"}):
        assert masked(name, value) == MASK
    assert masked(name, None) is None
    assert masked(name, "") == ""
    assert masked(name, True) is True
    assert list(secrets_in(name, {"value": ["hunter2"]})) == ["hunter2"]


@pytest.mark.parametrize("name", OPEN)
def test_other_names(name: str) -> None:
    """Shown, unless the value itself looks like a secret."""
    assert masked(name, "plain") == "plain"
    assert masked(name, {"inner": ["plain", {"password": "x"}]}) == {"inner": ["plain", {"password": MASK}]}
    assert masked(name, f"see {PEM}.") == f"see {MASK}."
    assert masked(name, "http://me:hunter2@proxy:3128/x") == f"http://{MASK}@proxy:3128/x"
    assert masked(name, "https://proxy:3128/a:b@c") == "https://proxy:3128/a:b@c"


def test_sentences() -> None:
    """As it is or escaped; what is too short to be found for certain is left."""
    assert without("wrong: 'a\\nb12' for x", ["a\nb12"]) == f"wrong: '{MASK}' for x"
    assert without("five or 5", ["5"]) == "five or 5"


def test_no_key_shows_a_secret_of_another_layer() -> None:
    """Overridden values are values, too."""
    sets = ["uplink.kafka.options={ssl.key.password: hunter2}", "uplink.kafka.options={ssl.key.password: swordfish}"]
    sets += ["registry.zookeeper.password=hunter2", "grid.ignite.token=hunter2", "grid.ignite.token=swordfish"]
    loaded = read_config(None, sets, {})
    said = [shown(loaded)] + [
        explained(loaded, key) or "hunter2"
        for key in (
            "uplink.kafka",
            "uplink.kafka.options",
            "registry",
            "registry.zookeeper.password",
            "grid.ignite.token",
        )
    ]
    assert [text for text in said if "hunter2" in text or "swordfish" in text] == []


@pytest.mark.parametrize(
    "sets",
    [
        ["uplink.kafka.options={ssl.key.pem: hunter2}", "uplink.kafka.options={acks: hunter2}"],
        ["uplink.kind=kafka", "uplink.kafka.options={sasl.jaas.config: hunter2, hunter2.x: hunter2}"],
        ["grid.ignite.token=hunter2", "node.id=hunter2 is no name"],
        ["registry.zookeeper.username=u", "registry.zookeeper.password=hunter2", "registry.kind=hunter2"],
    ],
)
def test_no_error_shows_a_secret(sets: list[str]) -> None:
    """Wherever its text comes from, and though the same text stands under another key."""
    with pytest.raises(ConfigError) as caught:
        load_config(None, sets, {})
    assert "hunter2" not in str(caught.value)


def test_the_name_of_a_listener_makes_no_secret() -> None:
    """However it is called."""
    with pytest.raises(ConfigError) as caught:
        read_config(None, ["listeners.private.protocol=mqtt", "listeners.private.port=123456"], {})
    assert "not 123456" in str(caught.value)
