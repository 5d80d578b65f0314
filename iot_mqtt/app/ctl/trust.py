"""Whom ``ctl`` believes that he is the node: what the command line names, the node's own file, or the system."""

from __future__ import annotations

import ssl

from iot_mqtt.app.ctl.errors import CtlError


def trusting(cacert: str | None, pinned: str | None, certificate: tuple[str, str | None] | None) -> ssl.SSLContext:
    """TLS of a client. ``cacert``: authorities that are believed, and no others. ``pinned``: without any, the very
    certificate that this file begins with, whatever name is in it. ``certificate``: the client's own, and its key.
    """
    at = cacert or pinned or "the system's authorities"
    try:
        context = ssl.create_default_context(cafile=cacert or pinned)
        if pinned is not None and cacert is None:
            context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
            context.check_hostname = False
        if certificate is not None:
            at = certificate[0]
            context.load_cert_chain(*certificate)
    except (OSError, ValueError) as error:
        way_out = "" if cacert or certificate else "; name the authority's file with --cacert"
        raise CtlError(f"cannot use {at}: {getattr(error, 'reason', None) or error}{way_out}") from error
    return context
