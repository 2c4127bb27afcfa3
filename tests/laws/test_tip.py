"""Tables: a missing cell is seen by nobody, and TIP fills it from the cells that are left and from the image."""

from dataclasses import replace

import helpers
import pytest
import torch
import torch.nn.functional as F
from helpers import noise, rows_of, with_hidden
from torch import nn

from gauge import Batch, Dataset
from gauge.data.augmentation import corrupt
from gauge.nn.contrast import hard_negatives
from gauge.paper.units import Frozen
from gauge.randomness import choose, derive, seeded, uniform
from gauge.registry import ENCODERS
from gauge_lab.imputers.tip import TIP
from gauge_lab.transformers import CrossAttention, TabularTransformer, self_excluding

CARDINALITIES = (1, 3, 1, 2, 4)  # categories need not come first
CATEGORICAL = {1: 3, 3: 2, 4: 4}
DVM, UKBB = 17, 75


def cars(rows: int = 12, seed: int = 0) -> Dataset:
    """A table that the image says all about: brightness, categories and numbers made of it. Some cells are missing."""
    bright = uniform(derive(torch.arange(rows), seed), 1)
    images = 0.05 * noise(rows, 1, 8, 8, seed=seed) + bright[..., None, None]
    columns = [bright, (3 * bright).floor(), 1 - 2 * bright, (2 * bright).floor(), (4 * bright).floor()]
    labels = torch.zeros(rows, dtype=torch.long)
    there = noise(rows, 5, seed=seed + 1) > -1
    return Dataset("train", {"photo": images, "data": torch.cat(columns, 1)}, labels, {"data": there})


def small(train: Dataset | None = None, **options: object) -> TIP:
    with seeded(0, "tip"):
        sizes = {"width": 16, "depth": 1, "heads": 2, "resnet": 18} | options
        return TIP.from_dataset(train or cars(), cardinalities=CARDINALITIES, **sizes).eval()


@pytest.fixture(scope="module")
def tip():
    return small()


@pytest.fixture
def gaps():
    """Six cars: complete, single cells, most cells and whole tables missing, all in one batch."""
    batch = cars().batch(torch.arange(6) + 3)
    rows = [[1, 1, 1, 1, 1], [1, 0, 1, 0, 1], [0, 0, 0, 1, 0], [0] * 5, [1, 1, 0, 1, 0], [0] * 5]
    return replace(batch, observed=dict(batch.observed, data=torch.tensor(rows).bool()))


def tabular(depth: int = 2) -> TabularTransformer:
    with seeded(0, "tabular"):
        return TabularTransformer(CARDINALITIES, 16, depth=depth, heads=2)


def table_of(batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    return batch.inputs["data"], batch.observed["data"]


def test_a_column_begins_as_its_category_or_its_number_or_as_missing_and_where_it_stands(gaps):
    network = tabular(depth=0)
    table, observed = table_of(gaps)
    states = network(table, observed)
    offsets = {1: 0, 3: 3, 4: 5}
    for row in range(6):
        torch.testing.assert_close(states[row, 0], network.norm(network.cls + network.positions.weight[0]))
        for column, size in enumerate(CARDINALITIES):
            if not observed[row, column]:
                value = network.missing
            elif size > 1:
                value = network.categories.weight[offsets[column] + int(table[row, column])]
            else:
                value = network.scale(table[row, column : column + 1])
            expected = network.norm(value + network.positions.weight[column + 1])
            torch.testing.assert_close(states[row, column + 1], expected)


def test_a_missing_column_is_hidden_as_key_from_every_query_but_itself():
    observed = torch.tensor([[True, False, True], [False, False, False]])
    bias = self_excluding(observed)
    for row in range(2):
        for query in range(4):
            for key in range(4):
                hidden = key > 0 and not observed[row, key - 1] and query != key
                assert bias[row, 0, query, key] == (-1e9 if hidden else 0)


@pytest.mark.parametrize("name", ["tabular", "tabular_vector"])
@pytest.mark.parametrize("filling", ["noise", "nan"])
def test_what_a_missing_cell_holds_reaches_neither_a_unit_nor_a_gradient(gaps, name, filling):
    with seeded(0, name):
        encoder = ENCODERS.get(name)((5,), 8, CARDINALITIES, inner=16, depth=2, heads=2)
    first, second = (encoder(*table_of(with_hidden(gaps, value))) for value in (0.0, filling))
    assert torch.equal(first, second)
    found = helpers.gradients(encoder, second.square().sum())
    assert all(gradient.isfinite().all() for gradient in found.values())


@pytest.mark.parametrize(("columns", "masked", "corrupted"), [(DVM, 8, 5), (UKBB, 38, 22)])
def test_as_many_columns_are_hidden_and_corrupted_as_published(columns, masked, corrupted):
    inputs = {"photo": torch.zeros(3, 1, 8, 8), "data": torch.zeros(3, columns)}
    tip = TIP.from_dataset(Dataset("train", inputs, torch.zeros(3).long()), width=8, depth=1, heads=2, resnet=18)
    everything = torch.ones(3, columns, dtype=torch.bool)
    assert choose(torch.arange(3), everything, tip.masked).sum(1).tolist() == [masked] * 3
    table = noise(200, columns)  # hardly a sample draws from itself
    changed = corrupt(table, torch.ones_like(table).bool(), torch.arange(200), 0.3) != table
    assert changed.sum(1).max() == corrupted


def test_hard_negatives_are_others_drawn_by_their_likeness():
    likeness = torch.tensor([2.0, 1.0, 0.0, -20.0]).expand(4, 4)
    drawn = torch.stack([hard_negatives(likeness, derive(torch.arange(4), draw)) for draw in range(1000)])
    assert (drawn != torch.arange(4)).all()
    weight = likeness[0].softmax(0) + 1e-4
    share = torch.stack([(drawn[:, 0] == column).float().mean() for column in range(1, 4)])
    torch.testing.assert_close(share, weight[1:] / weight[1:].sum(), atol=0.05, rtol=0)


def test_contrast_asks_every_image_for_its_table_and_every_table_for_its_image(tip, gaps):
    gaps = rows_of(gaps, torch.tensor([0, 1, 4]))
    image, (table, observed) = gaps.inputs["photo"], table_of(with_hidden(gaps, 0.0))
    corrupted = tip.table(corrupt(table, observed, gaps.key, 0.3), observed)
    a = F.normalize(tip.project_image(tip.photo(image).mean((2, 3))))
    b = F.normalize(tip.project_table(corrupted[:, 0]))
    costs = []
    for row in range(3):
        alike = torch.stack([a[row] @ b[other] for other in range(3)]) / 0.1
        turned = torch.stack([a[other] @ b[row] for other in range(3)]) / 0.1
        costs += [-alike.log_softmax(0)[row] / 2, -turned.log_softmax(0)[row] / 2]
    torch.testing.assert_close(tip.loss(gaps)["contrast"], torch.stack(costs).sum() / 3 / 3)


def test_matching_tells_each_pair_from_one_with_another_table_and_one_with_another_image(tip, gaps):
    image, (table, observed) = gaps.inputs["photo"], table_of(with_hidden(gaps, 0.0))
    features = tip.photo(image)
    states, seen = (
        tip.table(corrupt(table, observed, gaps.key, 0.3), observed),
        tip.interact.read(features.flatten(2).mT),
    )
    likeness = tip._likeness(features, states)
    tables, images = (
        hard_negatives(values, derive(gaps.key, name)) for values, name in ((likeness, "table"), (likeness.T, "image"))
    )
    costs = []
    for row in range(6):
        for mine, theirs, true in ((row, row, 1), (tables[row], row, 0), (row, images[row], 0)):
            logits = tip.match(tip.interact(states[mine][None], seen[theirs][None])[0, 0])
            costs.append(-logits.log_softmax(0)[true])
    torch.testing.assert_close(tip.loss(gaps)["matching"], torch.stack(costs).mean() / 3)


def test_reconstruction_scores_hidden_cells_only_categories_against_those_of_all_columns(tip, gaps):
    table, observed = table_of(with_hidden(gaps, 0.0))
    hidden = choose(derive(gaps.key, "masked"), observed, tip.masked)
    image = tip.interact.read(tip.photo(gaps.inputs["photo"]).flatten(2).mT)
    states = tip.interact(tip.table(table, observed & ~hidden), image)
    categories, numbers, offsets = [], [], {1: 0, 3: 3, 4: 5}
    for row, column in hidden.nonzero().tolist():
        state, truth = states[row, column + 1], table[row, column]
        if column in CATEGORICAL:
            likely = tip.heads.categories(state).softmax(0)
            categories.append(-(likely[offsets[column] + int(truth)] + 1e-8).log())
        else:
            numbers.append((tip.heads.numbers(state)[0] - truth).square())
    expected = (torch.stack(categories).mean() + torch.stack(numbers).mean()) / 2 / 3
    torch.testing.assert_close(tip.loss(gaps)["reconstruction"], expected)


@pytest.mark.parametrize("filling", ["noise", "nan"])
def test_a_loss_does_not_depend_on_hidden_values_and_teaches_every_parameter(tip, gaps, filling):
    first = sum(tip.loss(with_hidden(gaps, 0.0)).values())
    second = sum(tip.loss(with_hidden(gaps, filling)).values())
    assert torch.equal(first, second)
    found = helpers.gradients(tip, second)
    assert found.keys() == dict(tip.named_parameters()).keys()
    assert all(gradient.isfinite().all() for gradient in found.values())


def test_observed_cells_come_back_bit_for_bit_and_missing_ones_ignore_what_they_hold(tip, gaps):
    first, second = (tip.complete(with_hidden(gaps, filling)) for filling in ("nan", "noise"))
    helpers.assert_equal(first.inputs, second.inputs)
    table, observed = table_of(gaps)
    assert torch.equal(first.inputs["data"][observed], table[observed])
    assert first.inputs["data"].isfinite().all()
    assert first.observed is gaps.observed
    assert torch.equal(first.inputs["photo"], gaps.inputs["photo"])


def test_samples_with_different_gaps_are_completed_together_as_one_by_one(tip, gaps):
    together = tip.complete(gaps).inputs["data"]
    for row in range(6):
        alone = tip.complete(rows_of(gaps, torch.tensor([row]))).inputs["data"]
        torch.testing.assert_close(alone[0], together[row], rtol=1e-4, atol=1e-5)


def test_a_category_is_one_of_its_column_and_the_published_choice_is_clamped_into_it(gaps):
    nothing = replace(gaps, observed=dict(gaps.observed, data=torch.zeros(6, 5, dtype=torch.bool)))
    for unrestricted in (False, True):
        tip = small(unrestricted=unrestricted)
        with torch.no_grad():
            tip.heads.categories.bias.copy_(torch.tensor([0.0, 30, 0, 0, 20, 0, 90, 0, 0]))
        found = tip.complete(nothing).inputs["data"][:, list(CATEGORICAL)]
        assert (found == torch.tensor([2.0, 1.0, 1.0] if unrestricted else [1.0, 1.0, 1.0])).all()


def kinds(rows: int) -> Dataset:
    """A bright bar in one of three places, and a table that says which."""
    kind = (torch.arange(rows) % 3)[:, None].float()
    images = 0.1 * noise(rows, 1, 8, 8, seed=rows) + (torch.arange(8) // 3 == kind).float()[:, None, None]
    table = torch.cat([kind - 1, kind, 1 - kind, kind.clamp_max(1), kind + 1], 1)
    return Dataset("train", {"photo": images, "data": table}, torch.zeros(rows).long())


def quick(tip: TIP) -> TIP:
    """Larger weights and faster BatchNorm statistics: thirty steps are enough to learn something."""
    for parameter in (*tip.interact.parameters(), *tip.table.parameters()):
        parameter.data *= 10 if parameter.ndim == 2 else 1
    for layer in tip.photo.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.momentum = 0.5
    return tip.train()


def test_training_learns_a_table_that_is_a_function_of_the_image():
    train, test = kinds(18), kinds(30)
    tip = quick(small(train))
    tip.masked.copy_(torch.arange(6))  # all cells are hidden
    optimizer = torch.optim.Adam(tip.parameters(), 3e-3, fused=True)
    history = []
    for step in range(30):
        optimizer.zero_grad()
        terms = tip.loss(train.batch(torch.arange(18), key=torch.arange(18) + 1000 * step))
        sum(terms.values()).backward()
        optimizer.step()
        history.append({name: float(term.detach()) for name, term in terms.items()})
    assert history[-1]["reconstruction"] < history[0]["reconstruction"] / 2
    # log 6 / log 18 is as good as it gets with six of a kind
    assert history[-1]["contrast"] < history[0]["contrast"] * 0.75
    batch = test.batch(torch.arange(30))
    nothing = replace(batch, observed=dict(batch.observed, data=torch.zeros(30, 5, dtype=torch.bool)))
    found, truth = Frozen(tip).complete(with_hidden(nothing, "nan")).inputs["data"], test.inputs["data"]
    assert not tip.training
    assert (found == truth)[:, list(CATEGORICAL)].float().mean() > 0.9
    assert (found - truth)[:, 0].square().mean() < 0.3 * truth[:, 0].var()


def test_a_sample_without_its_image_is_an_error_that_names_it(tip, gaps):
    blind = replace(gaps, observed=dict(gaps.observed, photo=torch.arange(6) != 4))
    with pytest.raises(ValueError, match=r"sample 7 has no 'photo' \(1 such\); TIP completes tables from images"):
        tip.complete(blind)
    with pytest.raises(ValueError, match="sample 7 has no 'photo'"):
        tip.loss(blind)
    data = cars()
    with pytest.raises(ValueError, match=r"sample 0 has no 'photo' \(1 such\)"):
        small(Dataset("train", data.inputs, data.labels, {"photo": torch.arange(12) > 0}))


def test_data_that_is_no_table_beside_an_image_is_an_error_that_says_so(tip, gaps):
    data = cars()

    def made_of(**inputs: torch.Tensor) -> TIP:
        return TIP.from_dataset(Dataset("train", inputs, data.labels), width=16, depth=1, heads=2, resnet=18)

    photo, table = data.inputs.values()
    with pytest.raises(ValueError, match="TIP needs one image, found 0"):
        made_of(data=table)
    with pytest.raises(ValueError, match=r"TIP needs one table, found 2 \['a', 'b'\]; name it: table=..."):
        made_of(photo=photo, a=table, b=table)
    with pytest.raises(ValueError, match=r"TIP reads one table and one image; the data also has \['text'\]"):
        made_of(photo=photo, data=table, text=torch.zeros(12, 3, 4))
    with pytest.raises(ValueError, match="there is no modality 'foto'; did you mean 'photo'?"):
        TIP.from_dataset(data, image="foto")
    with pytest.raises(ValueError, match=r"the batch has {'data': \(4,\)}, .* was made for {'photo': \(1, 8, 8\)"):
        tip.complete(Batch({"data": torch.zeros(2, 4)}, {"data": torch.ones(2) > 0}))


def test_cross_attention_is_the_mean_of_values_weighed_by_the_softmax_of_products():
    attend = CrossAttention(4, heads=1)
    sequence, other = noise(1, 3, 4), noise(1, 5, 4, seed=1)
    key, value = attend.key_value(other).chunk(2, -1)
    weights = (attend.query(sequence) @ key.mT / 2).softmax(-1)
    torch.testing.assert_close(attend(sequence, other), attend.project(weights @ value))
