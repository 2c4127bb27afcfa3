"""Detached ed25519 signatures of saved models: who wrote a file, which no checksum can say.

The signature of a folder is that of its `model.json`, which has the checksums of all other files that are read; the
signature of an exported model is that of the file. It is a small JSON file beside it, and changes nothing else. Keys are
those of OpenSSH (`ssh-keygen -t ed25519`) or PEM files (`openssl genpkey -algorithm ed25519`).
"""

import base64
import hashlib
import json
import os
from pathlib import Path
from typing import Any

from gauge.data.files import write_text

FORMAT = "gauge-signature-1"
SUFFIX = ".sig"
SIGNED = "model.json"  # of a folder
MAX_BYTES = 10_000  # of a key or a signature


def sign(model: Path, key: Path) -> Path:
    """Write the signature of a saved or exported model with the private key in a file; returns the path of the signature."""
    signed = _signed(model)
    secret = _private_key(key)
    content = {
        "format": FORMAT,
        "key": _text(_raw(secret.public_key())),
        "signature": _text(secret.sign(_message(_digest(signed)))),
    }
    path = signature_path(model)
    write_text(path, json.dumps(content, indent=1) + "\n")
    return path


def new_key(path: Path) -> Path:
    """Make a private key at this path, for its owner alone, and the public key beside it, whose path is returned."""
    serialization = _serialization()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    public = path.with_name(path.name + ".pub")
    for each in (path, public):
        if each.exists():
            raise ValueError(f"{each} already exists, and a key is never replaced; choose another path")
    key, openssh = Ed25519PrivateKey.generate(), serialization.Encoding.OpenSSH
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secret)
    except OSError as error:
        raise ValueError(f"{path} cannot be written ({error.strerror}); choose another path") from error
    public.write_bytes(key.public_key().public_bytes(openssh, serialization.PublicFormat.OpenSSH) + b"\n")
    return public


def check_signature(model: Path, trusted: Path | str, content: bytes | None = None) -> None:
    """An error unless the model was signed with the private key that belongs to `trusted`: a public key, or the path of a
    file with one. `content` is what was read of the signed file, by default what it has now."""
    key, path = _public_key(trusted), signature_path(model)
    from cryptography.exceptions import InvalidSignature  # installed, as there is a key

    if not path.is_file():
        raise ValueError(
            f"{model} is not signed (there is no {path.name}), but a signature was asked for; ask its author to sign it "
            "with `gauge sign`, or load it without `trusted` if you know where it comes from"
        )
    signature, signer = _read(path)
    digest = _digest(_signed(model)) if content is None else hashlib.sha256(content).hexdigest()
    try:
        key.verify(signature, _message(digest))
    except InvalidSignature:
        if signer == _raw(key):
            raise ValueError(f"{model} was changed after it was signed; do not use it") from None
        raise ValueError(
            f"{model} is signed with another key ({_text(signer)}), not with the trusted one ({_text(_raw(key))}); "
            "do not use it unless you trust that key, too"
        ) from None


def signature_path(model: Path) -> Path:
    """Where the signature of a folder or a file is."""
    signed = _signed(model)
    return signed.with_name(signed.name + SUFFIX)


def _signed(model: Path) -> Path:
    signed = model / SIGNED if model.is_dir() else model
    if not signed.is_file():
        raise ValueError(
            f"there is no model {model}; give a folder that `gauge fit` or a file that `gauge export` wrote"
        )
    return signed


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _message(digest: str) -> bytes:
    """What is signed; the format keeps signatures for other purposes with the same key apart."""
    return f"{FORMAT} sha256 {digest}".encode()


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _read(path: Path) -> tuple[bytes, bytes]:
    """The signature, and the public key that it claims to be made with."""
    try:
        content = json.loads(_small(path))
        signature, signer = (base64.b64decode(content[name], validate=True) for name in ("signature", "key"))
        known = content["format"] == FORMAT
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise ValueError(f"{path} is not a signature ({error!r:.100}); sign the model again") from error
    if not known:
        raise ValueError(f"{path} has format {content['format']!r:.50}, this version reads {FORMAT!r}; sign it again")
    return signature, signer


def _small(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ValueError(f"{path} cannot be read ({error.strerror})") from error
    if len(content) > MAX_BYTES:
        raise ValueError(f"{path} has more than {MAX_BYTES} bytes")
    return content


def _private_key(path: Path) -> Any:
    serialization = _serialization()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    if not path.exists():
        raise ValueError(
            f"there is no key {path}; make it with: gauge sign MODEL --key {path} --new-key (or ssh-keygen -t ed25519)"
        )
    content = _small(path)
    openssh = content.startswith(b"-----BEGIN OPENSSH")
    load = serialization.load_ssh_private_key if openssh else serialization.load_pem_private_key
    try:
        key = load(content, None)
    except Exception as error:  # those of the library share no base class
        raise ValueError(
            f"{path} is not a private key that can be read ({str(error).partition(chr(10))[0]:.100}); make one with: "
            "ssh-keygen -t ed25519 -N '' -f KEY"
        ) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise ValueError(f"{path} is not an ed25519 key; make one with: ssh-keygen -t ed25519 -N '' -f KEY")
    return key


def _public_key(given: Path | str) -> Any:
    serialization = _serialization()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    written = isinstance(given, str) and given.startswith(("ssh-", "-----BEGIN"))
    content = str(given).encode() if written else _small(Path(given))
    openssh = content.startswith(b"ssh-")
    load = serialization.load_ssh_public_key if openssh else serialization.load_pem_public_key
    try:
        key = load(content)
    except Exception as error:  # those of the library share no base class
        raise ValueError(
            f"{str(given)[:100]!r} is not a public key that can be read; give KEY.pub, which ssh-keygen wrote beside the "
            "private key"
        ) from error
    if not isinstance(key, Ed25519PublicKey):
        raise ValueError(
            f"{str(given)[:100]!r} is not an ed25519 key; make one with: ssh-keygen -t ed25519 -N '' -f KEY"
        )
    return key


def _raw(key: Any) -> bytes:
    content: bytes = key.public_bytes_raw()
    return content


def _serialization() -> Any:
    try:
        from cryptography.hazmat.primitives import serialization
    except ImportError as error:
        raise ValueError("signatures need cryptography; install it with: pip install 'gauge-ml[sign]'") from error
    return serialization
