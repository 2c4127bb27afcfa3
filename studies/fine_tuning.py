"""What fine-tuning a pretrained encoder brings, for images unlike those that it was pretrained on.

    pip install 'gauge-ml[hf]'
    python studies/fine_tuning.py [--seeds 3] [--rows 100]

A small Vision Transformer is pretrained on the digits 0 to 4 of scikit-learn, briefly. The network of `GaugeClassifier` then
learns to tell 5 to 9 apart from some of their images and is tested on all others: with the encoder as it was pretrained,
with LoRA, with all of its weights trained, and with a convolutional encoder that was not pretrained. The records go to
studies/results/fine_tuning.json; `docs/generate.py` makes the table of docs/results-tables.md from them.
"""

import argparse
import json
import logging
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import torch
import transformers
from PIL import Image
from sklearn.datasets import load_digits

from gauge import GaugeClassifier
from gauge.randomness import seeded
from gauge_lab.recording import origin, write_lines

RESULTS = Path(__file__).parent / "results" / "fine_tuning.json"
SIDE, EPOCHS, BATCH = 32, 20, 64
VIT: dict[str, Any] = {
    "num_labels": 5,
    "hidden_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 96,
    "patch_size": 8,
}
KINDS = ("none", "head", "lora", "all")  # "none" is the encoder of images without a pretrained one


def write_images(folder: Path) -> pd.DataFrame:
    """All digits as files, and their labels."""
    digits = load_digits()
    names = [f"{index}.png" for index in range(len(digits.images))]
    for name, pixels in zip(names, digits.images, strict=True):
        image = Image.fromarray((pixels * 255 / 16).round().astype(np.uint8))
        image.resize((SIDE, SIDE), Image.Resampling.BILINEAR).convert("RGB").save(folder / name)
    return pd.DataFrame({"photo": names, "digit": digits.target})


def pretrain(frame: pd.DataFrame, images: Path, folder: Path) -> float:
    """Save a Vision Transformer that has learned these digits; its accuracy on them."""
    pixels = torch.stack([torch.from_numpy(np.array(Image.open(images / name))) for name in frame["photo"]])
    inputs, labels = (pixels.permute(0, 3, 1, 2) / 255 - 0.5) / 0.5, torch.tensor(frame["digit"].to_list())
    with seeded(0, "pretraining"):
        network = transformers.ViTForImageClassification(transformers.ViTConfig(image_size=SIDE, **VIT))
        adam = torch.optim.Adam(network.parameters(), 1e-3)
        for _ in range(EPOCHS):
            for index in torch.randperm(len(labels)).split(BATCH):
                adam.zero_grad()
                network(inputs[index], labels=labels[index]).loss.backward()
                adam.step()
    network.eval().vit.save_pretrained(folder)
    with torch.no_grad():
        return float((network(inputs).logits.argmax(1) == labels).float().mean())


def measure(frame: pd.DataFrame, images: Path, encoder: Path, rows: int, kind: str, seed: int) -> dict[str, object]:
    order = np.random.default_rng(seed).permutation(len(frame))
    train, test = (frame.iloc[part] for part in np.split(order, [rows]))
    options: dict[str, Any] = {} if kind == "none" else {"encoders": {"photo": encoder}, "tune": kind}
    started = time.process_time()
    model = GaugeClassifier(
        columns={"photo": "image"},
        experts="network",
        trust=False,
        image_folder=images,
        image_size=SIDE,
        random_state=seed,
        verbose=False,
        **options,
    ).fit(train, "digit")
    seconds = time.process_time() - started
    scores = model.evaluate(test)
    return {
        "tune": kind,
        "rows": rows,
        "seed": seed,
        "test_rows": len(test),
        "accuracy": scores["accuracy"],
        "log_loss": scores["log_loss"],
        "seconds": seconds,
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--rows", type=int, nargs="*", default=[100])
    given = options.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    logging.getLogger("gauge").setLevel(logging.ERROR)
    records: list[dict[str, object]] = []
    with TemporaryDirectory() as folder:
        images, encoder = Path(folder), Path(folder) / "vit"
        frame = write_images(images)
        learned = pretrain(frame[frame["digit"] < 5], images, encoder)
        others = frame[frame["digit"] >= 5].reset_index(drop=True)
        for rows in given.rows:
            for kind in KINDS:
                for seed in range(given.seeds):
                    result = measure(others, images, encoder, rows, kind, seed)
                    records.append(result | {"pretrained_accuracy": learned} | origin(given))
                    print(
                        json.dumps({name: records[-1][name] for name in (*result, "pretrained_accuracy")}), flush=True
                    )
                    write_lines(RESULTS, records)


if __name__ == "__main__":
    main()
