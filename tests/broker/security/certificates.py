"""Certificates with any subject, and truststores in PKCS12, for tests of both sides of TLS."""

from __future__ import annotations

import datetime

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, pkcs12
from cryptography.x509.name import _ASN1Type as Asn1
from cryptography.x509.oid import NameOID as Oid

_KEY = ec.generate_private_key(ec.SECP256R1())
_ISSUER = x509.Name([x509.NameAttribute(Oid.COMMON_NAME, "authority")])


def certificate(*parts: list[x509.NameAttribute]) -> bytes:
    """A certificate in DER; each part of its subject has one or more values."""
    now = datetime.datetime(2026, 1, 1)
    subject = x509.Name([x509.RelativeDistinguishedName(part) for part in parts])
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(_ISSUER).public_key(_KEY.public_key())
    builder = builder.serial_number(7).not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1))
    return builder.sign(_KEY, hashes.SHA256()).public_bytes(Encoding.DER)


def truststore(pem: bytes, password: str) -> bytes:
    """Store a certificate as Java's keytool does, if this version of cryptography can (45 and newer)."""
    trusted = x509.load_pem_x509_certificate(pem)
    lock = BestAvailableEncryption(password.encode())
    if hasattr(pkcs12, "serialize_java_truststore"):
        return pkcs12.serialize_java_truststore([pkcs12.PKCS12Certificate(trusted, b"ca")], lock)
    return pkcs12.serialize_key_and_certificates(None, None, None, [trusted], lock)


def part(oid: x509.ObjectIdentifier, value: str, kind: Asn1 | None = None) -> x509.NameAttribute:
    return x509.NameAttribute(oid, value, _type=kind)


ORGANIZATION = [[part(Oid.COUNTRY_NAME, "CH")], [part(Oid.ORGANIZATION_NAME, "Example, Inc.")]]
SUBJECTS = {
    "CN=client,O=Example\\, Inc.,C=CH": [*ORGANIZATION, [part(Oid.COMMON_NAME, "client")]],
    "": [],
    "CN=Jörg Müller,L=Zürich,ST=ZH,STREET=Weg 1": [
        [part(Oid.STREET_ADDRESS, "Weg 1")],
        [part(Oid.STATE_OR_PROVINCE_NAME, "ZH")],
        [part(Oid.LOCALITY_NAME, "Zürich")],
        [part(Oid.COMMON_NAME, "Jörg Müller")],
    ],
    "UID=ada,OU=tests,DC=example,DC=org": [
        [part(Oid.DOMAIN_COMPONENT, "org")],
        [part(Oid.DOMAIN_COMPONENT, "example")],
        [part(Oid.ORGANIZATIONAL_UNIT_NAME, "tests")],
        [part(Oid.USER_ID, "ada")],
    ],
    "1.2.840.113549.1.9.1=#160f616461406578616d706c652e6f7267,CN=ada": [
        [part(Oid.COMMON_NAME, "ada")],
        [part(Oid.EMAIL_ADDRESS, "ada@example.org")],
    ],
    "2.5.4.5=#13023137,2.5.4.12=#0c024472": [[part(Oid.TITLE, "Dr")], [part(Oid.SERIAL_NUMBER, "17")]],
    'CN=\\ two spaces\\ ,O=a\\+b\\=c\\<d\\>e\\;f\\#g\\"h\\\\i': [
        [part(Oid.ORGANIZATION_NAME, 'a+b=c<d>e;f#g"h\\i')],
        [part(Oid.COMMON_NAME, " two spaces ")],
    ],
    "CN=teletex": [[part(Oid.COMMON_NAME, "teletex", Asn1.T61String)]],
    "CN=only blanks:\\ \\ ": [[part(Oid.COMMON_NAME, "only blanks:  ")]],
}
"""Subjects by what Java calls them; an interop test asks Java."""
SEVERAL_VALUES = [[part(Oid.COMMON_NAME, "ada"), part(Oid.USER_ID, "17")], [part(Oid.ORGANIZATION_NAME, "x")]]
