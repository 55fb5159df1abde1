"""hyc.initialize: DeepSpeed's loop over compiled steps, to PyTorch's losses."""

import argparse

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


class Layers(torch.nn.Module):
    """Two layers with a norm between, and one that forward does not use."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(6)
        self.first, self.norm, self.last = torch.nn.Linear(6, 8), torch.nn.LayerNorm(8), torch.nn.Linear(8, 3)
        self.unused = torch.nn.Linear(2, 2)

    def forward(self, x):
        return self.last(torch.relu(self.norm(self.first(x))))


BATCHES = [
    (torch.randn(4, 6, generator=torch.Generator().manual_seed(step)), torch.arange(step, step + 4) % 3) for step in range(4)
]


def losses_by_torch(model, optimizer):
    def loss_of(model, batch):
        return torch.nn.functional.cross_entropy(model(batch[0]), batch[1])

    return train_by_torch(model, optimizer, BATCHES, loss_of)


def losses_by_engine(model, config=None, **given):
    """Of an engine over the same batches, and the weights behind them."""
    config = {"train_micro_batch_size_per_gpu": 4, **(config or {})}
    engine, _, _, _ = hyc.initialize(model=model, config=config, optimize=0, **given)
    for x, labels in BATCHES:
        engine.backward(engine(x=x, labels=labels))
        engine.step()
    return engine.losses, engine.state_dict()


def decaying_groups(model, decay):
    """As nearly every script makes them."""
    plain = [each for each in model.parameters() if each.dim() > 1]
    others = [each for each in model.parameters() if each.dim() < 2]
    return [{"params": plain, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}, {"params": []}]


def assert_as_torch(losses, state, model, expected):
    assert losses == pytest.approx(expected, rel=1e-5)
    for name, tensor in model.state_dict().items():
        assert (state[name] - tensor).abs().max() < 1e-4, name


def test_groups_without_decay_do_not_decay():
    config = {"optimizer": {"type": "AdamW", "params": {"lr": 0.05, "weight_decay": 0.01}}}
    model, theirs = Layers(), Layers()
    losses, state = losses_by_engine(model, config, model_parameters=decaying_groups(model, 0.5))
    expected = losses_by_torch(theirs, torch.optim.AdamW(decaying_groups(theirs, 0.5), lr=0.05))
    assert_as_torch(losses, state, theirs, expected)
    assert config["optimizer"]["params"]["weight_decay"] == 0.01
    all_decay = Layers()
    everywhere = losses_by_torch(all_decay, torch.optim.AdamW(all_decay.parameters(), lr=0.05, weight_decay=0.5))
    assert losses != pytest.approx(everywhere, rel=1e-5)


@pytest.mark.parametrize("named", [False, True])
def test_parameters_that_are_not_given_are_frozen_and_only_for_the_engine(named):
    config = {"optimizer": {"type": "SGD", "params": {"lr": 0.5}}, "gradient_clipping": 0.1}
    model, theirs = Layers(), Layers()
    theirs.first.requires_grad_(False)

    def given(model):
        return [(name, each) for name, each in model.named_parameters() if not name.startswith("first")]

    parameters = given(model) if named else [each for _, each in given(model)]
    losses, state = losses_by_engine(model, config, model_parameters=iter(parameters))
    taken = [each for _, each in given(theirs)]
    expected = []
    for x, labels in BATCHES:
        loss = torch.nn.functional.cross_entropy(theirs(x), labels)
        theirs.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(taken, 0.1)
        with torch.no_grad():
            for each in taken:
                each -= 0.5 * (0 if each.grad is None else each.grad)
        expected.append(loss.item())
    assert_as_torch(losses, state, theirs, expected)
    assert torch.equal(state["first.weight"], model.first.weight) and model.first.weight.requires_grad


@pytest.mark.parametrize(
    "make",
    [
        lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.1),
        lambda parameters: torch.optim.Adam(parameters, lr=0.05, betas=(0.8, 0.9), eps=1e-3, weight_decay=0.1),
        lambda parameters: torch.optim.AdamW(parameters, lr=torch.tensor(0.05), betas=(0.8, 0.9), weight_decay=0.1),
        torch.optim.AdamW,
    ],
)
@pytest.mark.parametrize("is_made", [False, True])
def test_an_optimizer_of_torch_is_hycs_with_its_values(make, is_made):
    model, theirs = Layers(), Layers()
    # The configuration's gives way, as under DeepSpeed.
    config = {"optimizer": {"type": "Lamb", "params": {"lr": 1.0}}}
    optimizer = make if is_made else make(model.parameters())
    losses, state = losses_by_engine(model, config, optimizer=optimizer)
    assert_as_torch(losses, state, theirs, losses_by_torch(theirs, make(theirs.parameters())))


def test_groups_of_an_optimizer_and_of_one_that_is_made_of_groups():
    expected = losses_by_torch(model := Layers(), torch.optim.SGD(decaying_groups(model, 0.4), lr=0.1))
    first, second = Layers(), Layers()
    losses, _ = losses_by_engine(first, optimizer=torch.optim.SGD(decaying_groups(first, 0.4), lr=0.1))
    assert losses == pytest.approx(expected, rel=1e-5)
    groups = decaying_groups(second, 0.4)
    losses, _ = losses_by_engine(second, optimizer=lambda given: torch.optim.SGD(given, lr=0.1), model_parameters=groups)
    assert losses == pytest.approx(expected, rel=1e-5)


def stepped(model):
    optimizer = torch.optim.Adam(model.parameters())
    model.last(torch.ones(1, 8)).sum().backward()
    optimizer.step()
    return optimizer


def hooked(model):
    optimizer = torch.optim.Adam(model.parameters())
    optimizer.register_step_post_hook(lambda *_: None)
    return optimizer


def scheduled(model):
    optimizer = torch.optim.Adam(model.parameters())
    torch.optim.lr_scheduler.StepLR(optimizer, 1)
    return optimizer


def halves(model, **first):
    return [{"params": model.first.parameters(), **first}, {"params": model.last.parameters()}]


@pytest.mark.parametrize(
    "given, says",
    [
        (lambda m: {"model_parameters": halves(m, lr=0.0)}, "differ in lr: 0.0 and left open; .*parameters in no group are frozen"),
        (lambda m: {"model_parameters": halves(m, betas=(0.5, 0.6))}, r"differ in betas: \[0.5, 0.6\] and left open"),
        (lambda m: {"model_parameters": halves(m, weight_decay=0.1), "weight_decay": 0.2}, "differ in weight_decay: 0.1 and 0.2"),
        (lambda m: {"model_parameters": [{"params": m.parameters(), "lr": 0.1}], "lr": 0.2}, "lr is 0.2, and 0.1 in groups"),
        (lambda m: {"model_parameters": halves(m, layer_scale=2)}, "have layer_scale, which a compiled step has not; expected lr"),
        (lambda m: {"model_parameters": [torch.nn.Parameter(torch.ones(3))]}, r"a tensor of shape \[3\].* none of its 8"),
        (lambda m: {"model_parameters": [*m.first.parameters(), m.first.bias]}, "'first.bias' is in groups of parameters twice"),
        (lambda m: {"model_parameters": []}, "have none that trains"),
        (lambda m: {"model_parameters": m.first.weight}, "model_parameters is a Parameter, expected parameters, as model.parameters"),
        (lambda m: {"model_parameters": [{"lr": 1}]}, "group 0 is a dict, expected a dict with 'params'"),
        (lambda m: {"optimizer": torch.optim.Adagrad(m.parameters())}, "object of torch.optim.adagrad.Adagrad, expected one of"),
        (lambda m: {"optimizer": object()}, "object of object, expected a name"),
        (lambda m: {"optimizer": lambda _: 3}, "optimizer makes a int"),
        (lambda m: {"optimizer": torch.optim.Adam(m.parameters(), amsgrad=True)}, "have amsgrad True, expected False"),
        (lambda m: {"optimizer": torch.optim.SGD(m.parameters(), momentum=0.9, nesterov=True)}, "have nesterov True"),
        (lambda m: {"optimizer": torch.optim.SGD(halves(m, lr=1.0), lr=0.1)}, "differ in lr: 1.0 and 0.1"),
        (lambda m: {"optimizer": stepped(m)}, "has made steps already"),
        (lambda m: {"optimizer": hooked(m)}, "has hooks of its steps"),
        (lambda m: {"optimizer": scheduled(m)}, "scheduler of torch's has been made for the optimizer"),
    ],
)
def test_what_no_compiled_step_has_of_optimizers_is_refused_by_name(given, says):
    model = Layers()
    with pytest.raises(hyc.UsageError, match=says):
        hyc.initialize(model=model, **given(model))


def test_the_arguments_of_deepspeeds_initialize_are_honoured_or_refused(tmp_path):
    path = tmp_path / "ds.json"
    path.write_text('{"train_micro_batch_size_per_gpu": 4, "optimizer": {"type": "SGD", "params": {"lr": 0.1}}}')
    parsed = argparse.Namespace(local_rank=-1, deepspeed_config=str(path))
    model = Layers()
    expected = losses_by_torch(Layers(), torch.optim.SGD(Layers().parameters(), lr=0.0))[:1]
    engine, _, loader, _ = hyc.initialize(
        args=parsed, model=model, model_parameters=model.parameters(), training_data=[{"x": torch.ones(6)}] * 9, lr_scheduler=None,
        dist_init_required=True, distributed_port=29500, mpu=None, collate_fn=None, optimize=0,
    )  # fmt: skip
    assert [len(batch["x"]) for batch in loader] == [4, 4]
    x, labels = BATCHES[0]
    engine.backward(engine(x=x, labels=labels))
    engine.step()
    assert engine.losses == pytest.approx(expected, rel=1e-5) and engine.get_lr() == [0.1]
    assert hyc.initialize(args=None, model=model, config_params={})[0].job is None
    for given, says in (
        ({"args": parsed, "config": {}}, "config and args.deepspeed_config are given, expected one of them"),
        ({"lr_scheduler": object()}, "lr_scheduler is given, expected the scheduler of the configuration"),
        ({"mpu": object()}, "mpu is given, expected tp= and pp="),
        ({"mesh_param": (2, 2)}, "mesh_param is given, expected dp="),
        ({"argz": None}, "hyc.initialize has no setting 'argz'"),
        ({"micro_bach": 2}, "the nearest is 'micro_batch'"),
        ({"tp": 0}, "--tp is 0"),
        ({"loss": torch.nn.MSELoss()}, "loss is MSELoss"),
    ):
        with pytest.raises(hyc.UsageError, match=says):
            hyc.initialize(model=model, **given)
    with pytest.raises(hyc.DataError, match="zero_optimization.stage"):
        hyc.initialize(model=model, config={"zero_optimization": {"stage": 5}})
    with pytest.raises(hyc.UsageError, match="model is a Namespace, expected a torch.nn.Module"):
        hyc.initialize(parsed, model)


def test_batches_of_other_names_or_shapes_are_refused_where_they_are_given():
    engine, _, _, _ = hyc.initialize(model=Layers(), config={"train_micro_batch_size_per_gpu": 4}, optimize=0)
    x, labels = BATCHES[0]
    with pytest.raises(hyc.DataError, match="no tensor 'labels': it has x, expected x, labels"):
        engine(x=x)
    engine.backward(engine(x=x, labels=labels))
    engine.step()
    for batch, says in (
        ({"X": x, "labels": labels}, "no tensor 'x': it has X, labels, expected x, labels; the nearest is 'X'"),
        ({"x": x, "labels": labels, "id": labels}, "has tensor 'id', expected x, labels, as the first batch has"),
        ({"x": x[:, :5], "labels": labels}, r"x has samples of shape \[5\], expected \[6\], as in the first batch"),
    ):
        with pytest.raises(hyc.DataError, match=says):
            engine(**batch)
    engine.backward(engine(x=x, labels=labels))
    engine.step()
    assert len(engine.losses) == 2


def test_steps_outlive_a_run_that_fails(monkeypatch):
    engine, _, _, _ = hyc.initialize(model=Layers(), config={"train_micro_batch_size_per_gpu": 4}, optimize=0)
    x, labels = BATCHES[0]
    losses = []
    for _ in range(2):
        losses.append(engine(x=x, labels=labels))
        engine.backward(losses[-1])
        engine.step()

    def fails(*_, **__):
        raise hyc.TemporaryError("a peer is lost")

    with monkeypatch.context() as patch:
        patch.setattr(engine.job, "train", fails)
        for _ in range(2):
            with pytest.raises(hyc.TemporaryError, match="a peer is lost"):
                losses[0].item()
    assert losses[1].item() < losses[0].item()
    engine.backward(engine(x=x, labels=labels + 5))
    engine.step()
    for _ in range(2):
        with pytest.raises(hyc.DataError, match="labels, sample 0, element 0: found 5, expected 0 to 2"):
            engine.losses


def test_masks_that_only_make_labels_may_come_later():
    tokens, mask = tokens_of(2), torch.ones(2, SEQUENCE, dtype=torch.int64)
    mask[0, 6:] = 0
    engine, _, _, _ = hyc.initialize(model=make_language_model(), config={**CONFIG, "gradient_accumulation_steps": 1}, loss="causal_lm")
    for batch in ({"input_ids": tokens}, {"input_ids": tokens, "attention_mask": mask}):
        engine.backward(engine(batch))
        engine.step()
    assert len(engine.losses) == 2
