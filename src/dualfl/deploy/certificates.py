"""The coordinator's certificates for TLS: an authority of the project's own, and the server's, which is renewed often.

Both are renewed by `dualfl deploy renew`. The authority keeps its key when it is renewed, so that silos with the old
ca.crt go on until that one expires, and take the new one over when it suits them.
"""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import ssl
import time
from pathlib import Path
from typing import Any

from dualfl.deploy.keys import write_secret
from dualfl.errors import InputError
from dualfl.files import write_atomically

AUTHORITY_DAYS, SERVER_DAYS = 3650, 730
WARNED = 60  # days ahead
LONGEST = 64  # characters of a common name, by X.509
DAY = 86_400.0
TITLES = {"server.pem": "the server's certificate", "ca.crt": "the project's ca.crt"}


def write_certificates(folder: Path, host: str) -> None:
    """An authority, and the server's certificate for this host and loopback."""
    from cryptography.hazmat.primitives.asymmetric import ec

    authority = ec.generate_private_key(ec.SECP384R1())
    write_secret(folder / "ca.key", private_pem(authority))
    write_authority(folder, authority)
    write_server(folder, host)


def renew(folder: Path, host: str, authority_too: bool) -> list[str]:
    """A new certificate and key of the server, and a new certificate of the authority if asked or due soon."""
    due = any(one["days"] < SERVER_DAYS for one in lifetimes(folder, ("ca.crt",)))
    renewed = ["server.pem"]
    if authority_too or due:
        write_authority(folder, read_key(folder / "ca.key"))
        renewed.append("ca.crt")
    write_server(folder, host)
    return renewed


def write_authority(folder: Path, key: Any) -> None:
    from cryptography import x509

    usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    extensions = [(x509.BasicConstraints(True, 0), True), (usage, True)]
    made = certificate("dualfl project", key, None, key, AUTHORITY_DAYS, extensions)
    write_atomically(folder / "ca.crt", pem(made))


def write_server(folder: Path, host: str) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    authority, server = read_key(folder / "ca.key"), ec.generate_private_key(ec.SECP384R1())
    root = x509.load_pem_x509_certificate((folder / "ca.crt").read_bytes())
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    try:
        address = x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        address = x509.DNSName(host)
    names += [] if address in names else [address]
    extensions = [
        (x509.BasicConstraints(False, None), True),
        (x509.SubjectAlternativeName(names), False),
        (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
        (x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()), False),
    ]
    title = host if len(host) <= LONGEST else "dualfl coordinator"  # clients compare the alternative names alone
    leaf = certificate(title, server, root.subject, authority, SERVER_DAYS, extensions)
    write_secret(folder / "server.key", private_pem(server))
    write_atomically(folder / "server.pem", pem(leaf))


def certificate(
    name: str, subject_key: Any, issuer: Any, issuer_key: Any, days: int, extensions: list[tuple[Any, bool]]
) -> Any:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import NameOID

    now = datetime.datetime.now(datetime.UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer)
        .public_key(subject_key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=days))
    )
    for extension, critical in extensions:
        made = made.add_extension(extension, critical)
    return made.sign(issuer_key, hashes.SHA384())


def pem(made: Any) -> bytes:
    from cryptography.hazmat.primitives import serialization as form

    return bytes(made.public_bytes(form.Encoding.PEM))


def private_pem(key: Any) -> bytes:
    from cryptography.hazmat.primitives import serialization as form

    return bytes(key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption()))


def read_key(path: Path) -> Any:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        return load_pem_private_key(path.read_bytes(), None)
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path}, the key of the project's authority, cannot be read ({error}); take it from a backup. Without it "
            "no certificate can be renewed, and a new project is needed."
        ) from error


def read(path: Path) -> Any:
    """A certificate, or a sentence."""
    from cryptography import x509

    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except OSError as error:
        raise InputError(f"There is no certificate {path} ({error.strerror}); the coordinator hands it out.") from error
    except ValueError as error:
        raise InputError(f"{path} is not a certificate; the coordinator hands it out as ca.crt.") from error


def same_authority(one: Path, other: Path) -> bool:
    """Whether two certificates are of one authority: its key is the same."""
    return bool(read(one).public_key() == read(other).public_key())


def lifetimes(folder: Path, names: tuple[str, ...]) -> list[dict[str, Any]]:
    """How long certificates are valid, and a sentence for those that are not, or not for long."""
    found = []
    for name in names:
        if (folder / name).exists():
            begins, ends = span(folder / name)
            days = (ends - time.time()) / DAY
            found.append({"name": name, "days": round(days, 1), "sentence": verdict(name, begins, ends)})
    return found


def span(path: Path) -> tuple[float, float]:
    """From when to when a certificate is valid.

    Python's own ssl reads that of an authority, which is all that a silo's service has: `cryptography` would be 10 MB
    of its memory for two dates.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    with contextlib.suppress(OSError):  # what cannot be read is read below, and gets its sentence
        context.load_verify_locations(path)
    if len(authorities := context.get_ca_certs()) == 1:
        begins, ends = (ssl.cert_time_to_seconds(str(authorities[0][when])) for when in ("notBefore", "notAfter"))
        return float(begins), float(ends)
    made = read(path)
    return made.not_valid_before_utc.timestamp(), made.not_valid_after_utc.timestamp()


def verdict(name: str, begins: float, ends: float) -> str:
    """Empty if all is well for the next 60 days."""
    title, now = TITLES.get(name, name), time.time()
    remedy = "renew it (`dualfl deploy renew` at the coordinator)"
    if now < begins:
        return (
            f"{title[0].upper()}{title[1:]} is valid from {on(begins)} on, and this machine's clock says {on(now)}; "
            "set the clock, by NTP."
        )
    if now > ends:
        return f"{title[0].upper()}{title[1:]} expired on {on(ends)}; {remedy}. Nobody can connect until then."
    if ends - now < WARNED * DAY:
        return f"{title[0].upper()}{title[1:]} expires on {on(ends)}, in {(ends - now) / DAY:.0f} days; {remedy}."
    return ""


def is_valid(one: dict[str, Any]) -> bool:
    return not one["sentence"] or (one["days"] > 0 and "expires on" in one["sentence"])


def on(seconds: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))
