"""Signatures: only what was signed with the trusted key is loaded."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from helpers import unchecked
from typer.testing import CliRunner

from gauge import GaugeClassifier
from gauge.cli.main import app
from gauge.data.signature import check_signature, sign, signature_path
from gauge.tabular.saved import checksum

serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")
ed25519 = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ed25519")


def keys(folder, name, form="OpenSSH"):
    """A private key and its public one, in files."""
    secret, private, public = ed25519.Ed25519PrivateKey.generate(), folder / name, folder / f"{name}.pub"
    inner = serialization.PrivateFormat.OpenSSH if form == "OpenSSH" else serialization.PrivateFormat.PKCS8
    private.write_bytes(secret.private_bytes(serialization.Encoding.PEM, inner, serialization.NoEncryption()))
    outer = (
        (serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
        if form == "OpenSSH"
        else (serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    public.write_bytes(secret.public_key().public_bytes(*outer))
    return private, public


@pytest.fixture(scope="module")
def rows():
    draw = np.random.default_rng(0)
    return pd.DataFrame({"a": draw.normal(size=60), "b": draw.normal(size=60)})


@pytest.fixture(scope="module")
def saved(rows, tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "model"
    model = GaugeClassifier(experts="trees", trust=False, random_state=0, verbose=False)
    model.fit(rows, np.where(rows["a"] > 0, "x", "y")).save(folder)
    return folder


@pytest.fixture
def model(saved, tmp_path):
    return shutil.copytree(saved, tmp_path / "model")


@pytest.mark.parametrize("form", ["OpenSSH", "PEM"])
def test_a_signed_model_is_loaded_with_the_key_of_its_signer(model, rows, tmp_path, form):
    private, public = keys(tmp_path, "mine", form)
    assert sign(model, private) == model / "model.json.sig"
    for trusted in (public, str(public), public.read_text()):
        answers = GaugeClassifier.load(model, trusted=trusted).predict_proba(rows)
    np.testing.assert_array_equal(answers, GaugeClassifier.load(model).predict_proba(rows))


def test_what_is_not_signed_or_signed_by_somebody_else_is_refused(model, tmp_path):
    private, public = keys(tmp_path, "mine")
    with pytest.raises(ValueError, match="is not signed .there is no model.json.sig.*gauge sign"):
        GaugeClassifier.load(model, trusted=public)
    sign(model, keys(tmp_path, "other")[0])
    with pytest.raises(ValueError, match="is signed with another key .*, not with the trusted one"):
        GaugeClassifier.load(model, trusted=public)
    sign(model, private)
    GaugeClassifier.load(model, trusted=public)


def test_a_change_with_renewed_checksums_breaks_the_signature(model, tmp_path):
    private, public = keys(tmp_path, "mine")
    sign(model, private)
    path = model / "model.json"
    metadata = json.loads(path.read_text()) | {"target": "other"}
    metadata.pop("sha256")
    path.write_text(json.dumps(metadata | {"sha256": checksum(metadata)}))
    GaugeClassifier.load(model)
    with pytest.raises(ValueError, match="was changed after it was signed"):
        GaugeClassifier.load(model, trusted=public)


def test_weights_of_another_model_under_a_signature_are_refused(model, tmp_path):
    private, public = keys(tmp_path, "mine")
    sign(model, private)
    (model / "metrics.jsonl").write_text("{}\n")
    with pytest.raises(ValueError, match="metrics.jsonl is damaged: its checksum does not match"):
        GaugeClassifier.load(model, trusted=public)


def test_a_file_is_signed_beside_it(tmp_path):
    private, public = keys(tmp_path, "mine")
    exported = tmp_path / "model.onnx"
    exported.write_bytes(b"graph")
    assert sign(exported, private) == signature_path(exported) == tmp_path / "model.onnx.sig"
    check_signature(exported, public)
    exported.write_bytes(b"other graph")
    with pytest.raises(ValueError, match=r"model.onnx was changed after it was signed"):
        check_signature(exported, public)


@pytest.mark.parametrize(
    "content", ["", "{}", "[]", '{"format": "x", "key": "", "signature": ""}', "[" * 9000, "x" * 20_000]
)
def test_a_wrong_signature_file_is_one_clear_line(model, tmp_path, content):
    _, public = keys(tmp_path, "mine")
    (model / "model.json.sig").write_text(content)
    with pytest.raises(ValueError, match=r"model.json.sig (is not a signature|has format 'x'|has more than)") as error:
        GaugeClassifier.load(model, trusted=public)
    assert "\n" not in str(error.value)


def test_wrong_keys_are_refused_with_the_command_that_makes_right_ones(model, tmp_path):
    private, public = keys(tmp_path, "mine")
    with pytest.raises(ValueError, match="is not a private key that can be read .*ssh-keygen -t ed25519"):
        sign(model, public)
    with pytest.raises(
        ValueError, match="there is no key .*nowhere; make it with: gauge sign MODEL --key .*nowhere --new-key"
    ):
        sign(model, tmp_path / "nowhere")
    sign(model, private)
    with pytest.raises(ValueError, match="is not a public key that can be read; give KEY.pub"):
        GaugeClassifier.load(model, trusted=private)


def test_the_command_line_signs_and_checks(model, rows, tmp_path):
    private, public = keys(tmp_path, "mine")
    rows.to_csv(tmp_path / "rows.csv", index=False)

    def gauge(*words):
        with unchecked():
            return CliRunner().invoke(app, [str(word) for word in words])

    command = ("predict", model, tmp_path / "rows.csv", "--out", tmp_path / "answers.csv", "--trusted", public)
    assert "is not signed" in str(gauge(*command).exception)
    assert "model.json.sig" in gauge("sign", model, "--key", private).stdout
    assert gauge(*command).exit_code == 0
    assert len(pd.read_csv(tmp_path / "answers.csv")) == len(rows)


def test_a_new_key_is_for_its_owner_alone_signs_at_once_and_is_never_replaced(model, tmp_path):
    key = tmp_path / "key"

    def command():
        with unchecked():
            return CliRunner().invoke(app, ["sign", str(model), "--key", str(key), "--new-key"])

    assert f"the public one, for others, in {key}.pub" in command().stdout
    assert key.stat().st_mode & 0o077 == 0
    check_signature(model, tmp_path / "key.pub")
    written = key.read_bytes()
    assert "key already exists, and a key is never replaced" in str(command().exception)
    assert key.read_bytes() == written
