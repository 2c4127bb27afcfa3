"""HAM10000: the images of a lesion stay together, unknown facts are missing, both official layouts say the same."""

import shutil

import pytest
import torch
from official import LESIONS, check_refused, write_lesions, written_by

from gauge_lab.benchmarks import ham10000

WRONG = {
    "dx is 'melanoma'; it is one of akiec, bcc, bkl, df, mel, nv, vasc": (",mel,", ",melanoma,"),
    "sex is 'f'; it is one of female, male, unknown": (",female,", ",f,"),
    "localization is 'head'; it is one of abdomen, acral, back, chest, ear, face, foot": (",scalp", ",head"),
}

pytestmark = pytest.mark.usefixtures("warnings_anew")
data = written_by(write_lesions)


def lesions(part):
    return (part.inputs["image"][:, 0, 60, 60].float() / 4).round().long()


def test_images_facts_and_labels_are_aligned_by_name(data):
    for split in ("train", "val", "test"):
        part = ham10000.read(split, data)
        lesion = lesions(part)
        assert part.shapes == {"image": (3, 128, 128), "table": (3,)}
        assert torch.equal(part.labels, (lesion % 4 == 0).long())
        observed = part.observed["table"]
        assert torch.equal(observed[:, 0], lesion % 10 != 1)
        assert torch.equal(observed[:, 1], (lesion >= 30) | (lesion % 3 != 2))
        assert torch.equal(observed[:, 2], lesion % 15 != 14)
        assert torch.equal(part.inputs["table"][:, 2][observed[:, 2]], (lesion % 15)[observed[:, 2]].float())
        males = (lesion >= 30) | (lesion % 3 == 0)
        assert torch.equal(part.inputs["table"][:, 1][observed[:, 1]], males[observed[:, 1]].float())
        assert part.inputs["table"][~observed].eq(0).all()


def test_all_images_of_a_lesion_are_in_one_split_and_melanomas_in_all_of_them(data):
    lesion_sets = {split: set(lesions(ham10000.read(split, data)).tolist()) for split in ("train", "val", "test")}
    assert {split: len(numbers) for split, numbers in lesion_sets.items()} == {"train": 42, "val": 6, "test": 12}
    assert set.union(*lesion_sets.values()) == set(range(LESIONS))
    assert [sum(number % 4 == 0 for number in lesion_sets[split]) for split in ("val", "test")] == pytest.approx(
        [1, 3], abs=1
    )
    assert sum(len(ham10000.read(split, data)) for split in lesion_sets) == 80


def test_ages_are_scaled_by_the_training_rows_alone(data):
    train = ham10000.read("train", data)
    ages = train.inputs["table"][:, 0][train.observed["table"][:, 0]]
    assert float(ages.mean()) == pytest.approx(0, abs=1e-6)
    assert float(ages.std()) == pytest.approx(1)
    test = ham10000.read("test", data)
    real = lesions(train) % 17 * 5
    real = real[train.observed["table"][:, 0]].float()
    there = test.observed["table"][:, 0]
    expected = ((lesions(test) % 17 * 5).float() - real.mean()) / real.std()
    torch.testing.assert_close(test.inputs["table"][there, 0], expected[there])


def test_the_two_official_folders_of_images_say_the_same_as_one(data, tmp_path):
    expected = [ham10000.read(split, data).fingerprint for split in ("train", "val", "test")]
    folder = tmp_path / "official"
    for part in (1, 2):
        (folder / f"HAM10000_images_part_{part}").mkdir(parents=True)
    shutil.copy(data / "HAM10000" / "HAM10000_metadata.csv", folder)
    for number, path in enumerate(sorted((data / "HAM10000" / "images").iterdir())):
        shutil.copy(path, folder / f"HAM10000_images_part_{number % 2 + 1}")
    assert [ham10000.read(split, folder).fingerprint for split in ("train", "val", "test")] == expected


@pytest.mark.parametrize("message", WRONG)
def test_a_wrong_table_is_answered_with_what_is_wrong(data, message):
    check_refused(ham10000.read, data, "HAM10000/HAM10000_metadata.csv", *WRONG[message], message)
