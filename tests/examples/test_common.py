"""What the training scripts in examples/ stand on: the sampled softmax, streams of text, weights on disk, trainings that go on exactly."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from examples.common.language import SampledSoftmax, perplexity, streams, windows
from examples.common.training import Average, Training, load_weights, one_cycle, save_weights
from zoo.sequence import RNNLanguageModel


def test_a_softmax_over_every_word_is_cross_entropy() -> None:
    torch.manual_seed(0)
    h, w, b, y = torch.randn(6, 8), torch.randn(50, 8), torch.randn(50), torch.randint(0, 50, (6,))
    got = SampledSoftmax(torch.ones(50), 50)(h, w, b, y, torch.Generator())
    assert torch.allclose(got, F.cross_entropy(h @ w.T + b, y), atol=1e-5)


def test_a_sampled_softmax_estimates_the_normalizer_without_bias() -> None:
    torch.manual_seed(0)
    h, w, y = torch.randn(4, 8), 0.3 * torch.randn(400, 8), torch.randint(0, 400, (4,))
    sampled = SampledSoftmax(torch.arange(400, 0, -1).float() ** 2, 100)
    assert abs(float(sampled.keep.sum()) - 100) < 0.1
    generator = torch.Generator().manual_seed(1)
    right = (h * w[y]).sum(1)
    normalizers = []
    for _ in range(2000):
        part = [sampled(h[i : i + 1], w, None, y[i : i + 1], generator) + right[i] for i in range(4)]
        normalizers.append(torch.stack(part).exp())
    ratio = torch.stack(normalizers).mean(0) / (h @ w.T).exp().sum(1)
    assert torch.allclose(ratio, torch.ones(4), atol=0.02)


def test_streams_go_on_from_step_to_step_and_windows_begin_anew() -> None:
    text = torch.arange(100)
    (x0, y0), (x1, _) = list(streams(text, 4, 10, 3))[:2]
    assert torch.equal(y0, x0 + 1) and torch.equal(x1[:, 0], x0[:, -1] + 1) and int(x0[0, 0]) == 3
    pieces = list(windows(text, 3, 16))
    assert [len(x) for x, _ in pieces] == [3, 3] and torch.equal(torch.cat([x for x, _ in pieces]).flatten(), torch.arange(96))


def test_the_perplexity_of_a_model_that_knows_nothing_is_the_size_of_its_vocabulary() -> None:
    assert perplexity(lambda x: torch.zeros(*x.shape, 50), torch.arange(100) % 50, 2, 16) == pytest.approx(50)


def test_tied_weights_are_stored_once_and_come_back_tied(tmp_path: Path) -> None:
    model = RNNLanguageModel("lstm", 30, 8, 8, 2, tied=True)
    save_weights(model, tmp_path / "w.safetensors", seed="0")
    again = load_weights(RNNLanguageModel("lstm", 30, 8, 8, 2, tied=True), tmp_path / "w.safetensors")
    assert again.head.weight is again.embed.weight
    assert torch.equal(again.embed.weight, model.embed.weight.half().float())
    with pytest.raises(ValueError, match="lacks"):
        load_weights(RNNLanguageModel("lstm", 30, 8, 8, 3, tied=True), tmp_path / "w.safetensors")


def run(epochs: int) -> nn.Module:
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    average = Average(model, 0.9)
    training = Training("tiny", 0, model=model, optimizer=optimizer, average=average)
    for _ in training.epochs(epochs):
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.randn(5, 4, generator=training.generator)).square().sum().backward()
            optimizer.step()
            average.update(model)
    return average.model


def test_an_interrupted_training_goes_on_with_the_same_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOWBIT_CACHE", str(tmp_path / "a"))
    want = run(4)
    monkeypatch.setenv("LOWBIT_CACHE", str(tmp_path / "b"))
    run(2)
    got = run(4)
    assert all(torch.equal(a, b) for a, b in zip(got.state_dict().values(), want.state_dict().values()))


def test_the_learning_rate_rises_and_falls() -> None:
    assert one_cycle(0, 100) == pytest.approx(0.1) and one_cycle(20, 100) == pytest.approx(1) and one_cycle(100, 100) == pytest.approx(0.01)
