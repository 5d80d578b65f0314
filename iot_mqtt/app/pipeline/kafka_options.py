"""From ``uplink.kafka.security`` to the options of Spark's Kafka connector, whose client is the one in Java.

It reads PEM as the broker's does, but takes a private key only as PKCS #8, and wants user and password in a line of
JAAS, its own little language.
"""

from __future__ import annotations

from pathlib import Path

from iot_mqtt.app.pipeline.errors import PipelineError
from iot_mqtt.uplink.kafka.settings import SecuritySettings


def kafka_options(security: SecuritySettings) -> dict[str, str]:
    """What Spark has to be told beside the servers. Passwords and keys are in it."""
    if security.protocol == "plaintext":
        return {}
    protocol = security.protocol.upper()
    found = {"security.protocol": protocol}
    if "SSL" in protocol:
        found |= _tls(security)
    if "SASL" in protocol:
        found |= {"sasl.mechanism": security.mechanism, "sasl.jaas.config": _login(security)}
    return {f"kafka.{name}": value for name, value in found.items()}


def _tls(security: SecuritySettings) -> dict[str, str]:
    found: dict[str, str] = {}
    if security.ca is not None:
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": security.ca}
    if security.cert is not None:
        key = _text(security.key or security.cert)
        if "-----BEGIN PRIVATE KEY-----" not in key:
            raise PipelineError(
                f"uplink.kafka.security.key: {security.key or security.cert}: Spark's Kafka client reads PKCS #8 "
                "without a password only; make one with: openssl pkcs8 -topk8 -nocrypt -in KEY -out NEW-KEY"
            )
        found |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": _text(security.cert),
            "ssl.keystore.key": key,
        }
    return found


def _login(security: SecuritySettings) -> str:
    kind = "scram.Scram" if security.mechanism.upper().startswith("SCRAM") else "plain.Plain"
    user, password = _quoted(security.username or ""), _quoted(security.password or "")
    return f"org.apache.kafka.common.security.{kind}LoginModule required username={user} password={password};"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise PipelineError(f"uplink.kafka.security: cannot read {path}: {error}") from error
