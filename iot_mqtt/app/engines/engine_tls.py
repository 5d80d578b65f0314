"""How each kind of server is told to speak TLS, and to refuse whoever shows no certificate of the cluster."""

from __future__ import annotations

import ssl
from pathlib import Path

from iot_mqtt.app.engines.certificates import Pem
from iot_mqtt.app.engines.plan import BROKER, Plan


def client(plan: Plan) -> ssl.SSLContext | None:
    """What brokers, and those who look whether a server is there, connect with; None: plain text."""
    pem = plan.pem(BROKER)
    return None if pem is None else client_of(pem)


def client_of(pem: Pem) -> ssl.SSLContext:
    """The same with these files."""
    context = ssl.create_default_context(cafile=str(pem.authority))
    context.load_cert_chain(pem.certificate, pem.key)
    return context


def zookeeper(pem: Pem, host: str, port: int) -> str:
    """Lines of zoo.cfg: clients on a secure port only, and the ensemble among itself."""
    stores = "".join(
        f"{prefix}.keyStore.location={pem.both}\n{prefix}.keyStore.type=PEM\n"
        f"{prefix}.trustStore.location={pem.authority}\n{prefix}.trustStore.type=PEM\n{prefix}.clientAuth=need\n"
        for prefix in ("ssl", "ssl.quorum")
    )
    secure = f"secureClientPortAddress={host}\nsecureClientPort={port}\nsslQuorum=true\n"
    return f"{secure}serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n{stores}"


def ignite(pem: Pem) -> dict[str, Path]:
    """Properties of a server and its gateway."""
    return {"iot.tls.cert": pem.certificate, "iot.tls.key": pem.key, "iot.tls.ca": pem.authority}


def kafka(properties: str, pem: Pem) -> str:
    """Its properties in plain text, and then in TLS: clients and the controller."""
    secure = properties.replace("CONTROLLER:PLAINTEXT", "CONTROLLER:SSL").replace("PLAINTEXT", "SSL")
    return (
        f"{secure}\nssl.keystore.type=PEM\nssl.keystore.location={pem.both}\nssl.truststore.type=PEM\n"
        f"ssl.truststore.location={pem.authority}\nssl.client.auth=required\n"
    )
