"""hyc.initialize: DeepSpeed's loop over compiled steps, to PyTorch's losses."""

import pytest

torch = pytest.importorskip("torch")

from conftest import SEQUENCE, VOCABULARY, causal_loss, make_language_model, train_by_torch

import hyc
from hyc.engine import Loss

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


def test_what_a_script_does_with_losses_and_deepspeeds_engine_is_refused_with_a_way_out():
    engine, _, _, _ = hyc.initialize(model=make_language_model(), config=CONFIG)
    loss = Loss(engine)
    for computed in (lambda: loss * 2, lambda: 2 * loss, lambda: 0.0 + loss, lambda: loss / 4, lambda: -loss, lambda: loss < 1):
        with pytest.raises(hyc.UsageError, match="expected engine.backward.loss. with the loss as it is"):
            computed()
    with pytest.raises(hyc.UsageError, match="loss.mean is asked for.*the loss as it is"):
        loss.mean()
    with pytest.raises(hyc.UsageError, match="engine.save_checkpoint is asked for.*engine.state_dict"):
        engine.save_checkpoint("x")
    with pytest.raises(hyc.UsageError, match="engine.monitor is asked for.*docs/python.md"):
        engine.monitor
    assert not hasattr(engine, "save_checkpoint")
    with pytest.raises(hyc.UsageError, match="1 tensors without names, expected input_ids, labels"):
        engine([tokens_of(4)])


def test_batches_of_a_tensor_data_set_are_taken_in_forwards_order():
    data = torch.utils.data.TensorDataset(torch.randn(8, 6), torch.arange(8) % 3)
    torch.manual_seed(2)
    model = torch.nn.Linear(6, 3).eval()
    engine, _, loader, _ = hyc.initialize(
        model=model, config={**CONFIG, "gradient_accumulation_steps": 1}, training_data=data, loss="cross_entropy", dp=2
    )
    assert engine.train() is engine and model.training
    x, y = next(iter(loader))
    expected = torch.nn.functional.cross_entropy(model(x), y).item()
    for batch in ([[x, y]], [x, y]):
        loss = engine(*batch)
        engine.backward(loss)
        engine.step()
    assert engine.losses[0] == pytest.approx(expected, rel=1e-5) and engine.losses[1] < expected
    assert engine.get_lr() == [5e-3] and engine.get_global_grad_norm() > 0
    assert engine.train() is engine


def test_a_module_in_evaluation_mode_is_refused_where_it_is_too_late():
    torch.manual_seed(2)
    model = torch.nn.Linear(6, 3).eval()
    engine, _, _, _ = hyc.initialize(model=model, config=CONFIG, loss="cross_entropy", plan_only=True)
    engine(input=torch.randn(2, 6), labels=torch.arange(2))
    with pytest.raises(hyc.UsageError, match="engine.train.. is called behind the first batch.*expected it before"):
        engine.train()


def test_the_data_loader_makes_batches_of_all_ranks():
    data = [{"input_ids": row} for row in tokens_of(10)]
    _, _, loader, _ = hyc.initialize(model=make_language_model(), config=CONFIG, training_data=data, dp=2)
    assert [len(batch["input_ids"]) for batch in loader] == [4, 4]
