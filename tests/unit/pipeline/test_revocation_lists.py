"""Lists of revoked certificates: whose they are, which of several counts, and when an end is said."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from iot_mqtt.pipeline import TlsConfigurationError, TlsContext, TlsSettings
from iot_mqtt.pipeline.revocation_lists import RevocationList, counting, read_lists
from tests.unit.pipeline.tls_kit import Files, renew

DAY = 86_400.0
#: Valid for eight days from the hundredth on.
LIST = RevocationList("crl.pem", "CN=ca", 100 * DAY, 108 * DAY)


def write(files: Files, name: str, *, begins: float = 100, ends: float = 108, signed_by: Files | None = None) -> str:
    """An empty list of the client authority; the days count from 1970. ``signed_by``: with another's key."""
    authority = x509.load_pem_x509_certificate(files.client_authority.cert_pem.bytes())
    signer = (signed_by or files).client_authority
    key = serialization.load_pem_private_key(signer.private_key_pem.bytes(), None)
    first, last = (datetime.datetime.fromtimestamp(day * DAY, datetime.UTC) for day in (begins, ends))
    made = x509.CertificateRevocationListBuilder().issuer_name(authority.subject).last_update(first).next_update(last)
    path = files.folder / f"{name}.pem"
    path.write_bytes(made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))  # type: ignore[arg-type]
    return str(path)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """Certificates and keys, of which the clients' authority is one."""
    return Files(tmp_path)


@pytest.fixture
def others(tmp_path: Path) -> Files:
    """Of somebody else."""
    (tmp_path / "others").mkdir()
    return Files(tmp_path / "others")


def context(files: Files, *crl: str) -> TlsContext:
    return TlsContext(TlsSettings(files.certificate, files.key, client_ca=files.client_ca, crl=crl))


@pytest.mark.parametrize(
    ("day", "words"),
    [
        (99, "is not valid before 1970-04-11 00:00:00 UTC"),
        (100, None),
        (105.9, None),
        (106.1, "is over at 1970-04-19 00:00:00 UTC"),
        (107.9, "is over at 1970-04-19 00:00:00 UTC"),
        (108, "is over since 1970-04-19 00:00:00 UTC"),
        (500, "is over since 1970-04-19 00:00:00 UTC"),
    ],
)
def test_the_last_quarter_of_a_list_is_said(day: float, words: str | None) -> None:
    """A list that lives an hour has a quarter of one, one of a month a week."""
    said = LIST.trouble(day * DAY)
    assert (said is None) if words is None else (said is not None and said.startswith(words) and "CN=ca" in said)


def test_of_several_lists_of_an_authority_the_valid_one_counts() -> None:
    """Of those the one that ends last; what is over, or comes later, counts where no other does."""
    over, long, later = (
        LIST._replace(path=path, begins=begin * DAY, ends=end * DAY)
        for path, begin, end in (("over", 90, 100), ("long", 100, 120), ("later", 107, 200))
    )
    lists = (later, LIST, long, over)
    assert [one.path for one in counting(lists, 101 * DAY)] == ["long"]
    assert [one.path for one in counting((later, over), 101 * DAY)] == ["later"]
    other = LIST._replace(authority="CN=other")
    assert {one.authority for one in counting((*lists, other), 101 * DAY)} == {"CN=ca", "CN=other"}


def test_a_file_may_have_several(files: Files, others: Files) -> None:
    """In PEM, with anything between them; a file with none is none."""
    path = Path(write(files, "one"))
    path.write_text(f"{path.read_text()}\nwords\n{Path(write(others, 'two', begins=101)).read_text()}")
    assert [(one.path, one.begins / DAY, one.ends / DAY) for one in read_lists(str(path))] == [
        (str(path), 100, 108),
        (str(path), 101, 108),
    ]
    with pytest.raises(ValueError, match="no list"):
        read_lists(files.client_ca)


def test_a_list_that_is_over_is_used_and_known(files: Files) -> None:
    """There may be no other one, and users without a certificate are to get in."""
    assert [one.ends for one in context(files, write(files, "crl")).revocation_lists] == [108 * DAY]


def test_a_list_of_another_authority_is_a_mistake(files: Files, others: Files) -> None:
    """It would let nobody in; so would one that another key than the authority's has signed."""
    good, foreign = write(files, "good"), write(others, "foreign")
    with pytest.raises(TlsConfigurationError, match=r"crl: .*foreign.pem is of .*not.*client-ca"):
        context(files, good, foreign)
    with pytest.raises(TlsConfigurationError, match=r"crl: .*forged.pem .*another key"):
        context(files, write(files, "forged", signed_by=others))


def test_a_foreign_list_in_place_of_a_good_one_changes_nothing(files: Files, others: Files) -> None:
    """The old one stays."""
    path = write(files, "crl")
    made = context(files, path)
    before = made.revocation_lists
    Path(path).write_bytes(Path(write(others, "foreign")).read_bytes())
    with pytest.raises(TlsConfigurationError, match="crl"):
        renew(made, changed_only=False)
    assert made.outdated and made.revocation_lists == before
