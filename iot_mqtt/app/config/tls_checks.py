"""TLS of one port: what must hold between its keys, and what they come to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from iot_mqtt.app.config.errors import Layer, Problem
from iot_mqtt.app.config.reading import LoadedConfig
from iot_mqtt.app.config.sections import TlsConfig
from iot_mqtt.pipeline.settings import TlsSettings

#: More than that is a mistake, or a matter for a balancer: each has an OpenSSL context of its own.
MAX_CERTIFICATES = 100
#: Listeners that are on because of their certificate.
_SECURE = ("mqtts", "wss")


def tls_sections(loaded: LoadedConfig) -> dict[str, TlsConfig]:
    """The sections of the ports that are open, by the beginning of their keys."""
    found = {f"listeners.{name}.tls": one.tls for name, one in loaded.config.enabled_listeners.items()}
    if loaded.config.admin.enabled:
        found["admin.tls"] = loaded.config.admin.tls
    return found


def tls_problems(loaded: LoadedConfig) -> Iterator[Problem]:
    """Of all ports."""
    for prefix, tls in tls_sections(loaded).items():
        for part, text in _of_port(prefix.split(".")[1], tls):
            key = f"{prefix}.{part}"
            origin = loaded.origin(key)
            yield Problem(None if origin.layer is Layer.DEFAULT else origin, key, text)


def make_tls_settings(config: TlsConfig) -> TlsSettings | None:
    """TLS of a port as the pipeline knows it; None: the port speaks plain text."""
    if config.cert is None:
        return None
    return TlsSettings(
        certificate=config.cert,
        key=config.key or config.cert,
        client_ca=config.ca or "",
        require_client_certificate=config.require_client_certificate,
        min_version=config.min_version,
        ciphers=config.ciphers or "",
        groups=config.groups,
        crl=config.crl,
        certificates=config.pairs,
    )


def _of_port(name: str, tls: TlsConfig) -> Iterator[tuple[str, str]]:
    if name in _SECURE and tls.cert is None:
        yield "cert", "must be set where the listener is enabled"
    if tls.cert is not None and tls.key is None:
        yield "key", "must be set beside cert"
    if tls.cert is None and name not in _SECURE:
        for part in ("key", "certificates", "crl", "require_client_certificate"):
            if getattr(tls, part):
                yield "cert", f"must be set beside {part}, or the port would speak plain text"
    if tls.ca is None:
        for part in ("require_client_certificate", "crl"):
            if getattr(tls, part):
                yield "ca", f"must be set beside {part}: it says whose client certificates are valid"
    if len(tls.certificates) > MAX_CERTIFICATES:
        yield "certificates", f"has more than {MAX_CERTIFICATES} entries"
    for number, entry in enumerate(tls.certificates, 1):
        if (text := _wrong_in(entry)) is not None:
            yield "certificates", f"entry {number}: {text}"


def _wrong_in(entry: Mapping[str, object]) -> str | None:
    unknown = [str(key) for key in entry if key not in ("cert", "key")]
    if unknown:
        return f"{unknown[0]}: there is no such key; there are cert and key"
    if not isinstance(entry.get("cert"), str) or not isinstance(entry.get("key", ""), str):
        return "needs cert, the path of a certificate, and may have key, that of its key"
    return None
