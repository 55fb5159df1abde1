"""hyc.initialize: DeepSpeed's loop over compiled steps, to PyTorch's losses."""

import pytest

torch = pytest.importorskip("torch")

from conftest import SEQUENCE, VOCABULARY, causal_loss, make_language_model, train_by_torch

import hyc

torch.set_num_threads(1)

CONFIG = {
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": 2,
    "optimizer": {"type": "AdamW", "params": {"lr": 5e-3, "weight_decay": 0.0}},
    "zero_optimization": {"stage": 1},
}


def tokens_of(samples):
    return torch.randint(0, VOCABULARY, (samples, SEQUENCE), generator=torch.Generator().manual_seed(4))


@pytest.fixture(scope="module")
def trained():
    """Seven steps of two micro-batches; the losses are asked for after three steps, after five, and at the end."""
    model, tokens = make_language_model(), tokens_of(56)
    engine, optimizer, loader, scheduler = hyc.initialize(model=model, config=CONFIG, loss="causal_lm", dp=2)
    assert loader is None and scheduler is None
    losses = []
    for micro in range(14):
        loss = engine({"input_ids": tokens[4 * micro : 4 * micro + 4]}).loss
        with pytest.raises(hyc.UsageError, match="the loss is not known yet"):
            loss.item()
        engine.backward(loss)
        assert engine.is_gradient_accumulation_boundary() == (micro % 2 == 1)
        engine.step()
        optimizer.zero_grad()
        losses.append(loss)
        if micro in (5, 9):
            assert f"{loss:.3f}" == f"{float(loss):.3f}"
    return engine, tokens, [losses[2 * step].item() for step in range(7)]


def test_losses_and_weights_are_those_of_pytorch(trained):
    engine, tokens, losses = trained
    model = make_language_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0)
    expected = train_by_torch(model, optimizer, [tokens[8 * s : 8 * s + 8] for s in range(7)], causal_loss)
    assert losses == pytest.approx(expected, abs=1e-5)
    assert engine.losses == losses and engine.global_steps == 7
    state = engine.state_dict()
    for name, tensor in model.state_dict().items():
        assert (state[name] - tensor).abs().max() < 1e-3, name


def test_patterns_that_no_compiled_step_has_are_refused(trained):
    engine, tokens, _ = trained
    with pytest.raises(hyc.UsageError, match="expected engine.batch. and engine.backward"):
        engine.step()
    with pytest.raises(hyc.DataError, match=r"3 samples, expected micro-batch × dp = 2 × 2 = 4"):
        engine({"input_ids": tokens[:3]})
    with pytest.raises(hyc.UsageError, match="expected tensors by input name"):
        engine(tokens[:4])
    with pytest.raises(hyc.UsageError, match="expected job.evaluate"):
        engine.eval()
    loss = engine(input_ids=tokens[:4])
    with pytest.raises(hyc.UsageError, match="expected engine.backward.loss. between"):
        engine(input_ids=tokens[:4])
    with pytest.raises(hyc.UsageError, match="cross_entropy.* is called on what the engine gives"):
        torch.nn.functional.cross_entropy(loss, tokens[:4])
    with pytest.raises(hyc.UsageError, match="expected engine.backward"):
        loss.backward()
    with pytest.raises(hyc.UsageError, match="expected engine.step"):
        engine.optimizer.step()
    with pytest.raises(hyc.UsageError, match="optimizer is an object"):
        hyc.initialize(model=make_language_model(), optimizer=object())
    with pytest.raises(hyc.UsageError, match="lr_schedule is linear"):
        hyc.initialize(model=make_language_model(), lr_schedule="linear")


def test_the_data_loader_makes_batches_of_all_ranks():
    data = [{"input_ids": row} for row in tokens_of(10)]
    _, _, loader, _ = hyc.initialize(model=make_language_model(), config=CONFIG, training_data=data, dp=2)
    assert [len(batch["input_ids"]) for batch in loader] == [4, 4]
