"""What torch.export leaves out without a word: gradients of Python's own, and numbers that Python draws. Each is refused, and the
way out that the refusal names trains to PyTorch's losses."""

import random
import warnings

import numpy
import pytest

torch = pytest.importorskip("torch")

import hyc
from conftest import train_by_torch
from torch.utils.checkpoint import checkpoint

torch.set_num_threads(1)


class Base(torch.nn.Module):
    """Two layers and a head; subclasses do something between."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.first, self.second, self.head = torch.nn.Linear(4, 8), torch.nn.Linear(8, 8), torch.nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.between(torch.tanh(self.first(x))))

    def between(self, h):
        return h


def data_of(samples=16):
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(samples, 4, generator=generator)
    return {"x": x, "labels": torch.randint(0, 3, (samples,), generator=generator)}


def loss_of(model, batch):
    return torch.nn.functional.cross_entropy(model(batch["x"]), batch["labels"])


def assert_trains_as_torch(make):
    data = data_of()
    job = hyc.compile(make(), data["x"][:2], micro_batch=4, optimizer="sgd", lr=0.5, optimize=0)
    model = make()
    batches = [{name: tensor[i : i + 4] for name, tensor in data.items()} for i in range(0, 16, 4)]
    expected = train_by_torch(model, torch.optim.SGD(model.parameters(), lr=0.5), batches, loss_of)
    assert job.train(data, steps=4, shuffle=False).losses == pytest.approx(expected, rel=1e-5)


class Reverse(torch.autograd.Function):
    """Gradient reversal."""

    @staticmethod
    def forward(context, x):
        return x.view_as(x)

    @staticmethod
    def backward(context, gradient):
        return -gradient


class Rounds(torch.autograd.Function):
    """A straight-through estimator, by setup_context."""

    @staticmethod
    def forward(x):
        return x.round()

    @staticmethod
    def setup_context(context, inputs, output):
        pass

    @staticmethod
    def backward(context, gradient):
        return gradient


def test_a_gradient_that_a_function_of_ones_own_defines_is_refused_with_its_line():
    class Reversed(Base):
        def between(self, h):
            return Reverse.apply(h)

    class Straight(Base):
        def between(self, h):
            try:
                return Rounds.apply(h)
            except Exception:
                return h

    for model, name in ((Reversed(), "Reverse"), (Straight(), "Rounds")):
        with pytest.raises(hyc.TraceError, match=f"gradient that {name} defines is lost here") as caught:
            hyc.compile(model, torch.randn(2, 4))
        assert caught.value.file == __file__ and caught.value.code == f"return {name}.apply(h)"
        assert "x + (f(x) - x).detach()" in str(caught.value)
    x = torch.ones(2, requires_grad=True)
    Reverse.apply(x).sum().backward()  # torch is as it was
    assert torch.equal(x.grad, -torch.ones(2))


def test_what_the_refusal_advises_has_that_gradient():
    class Advised(Base):
        def between(self, h):
            h = -h + (2 * h).detach()
            return h + (h.round() - h).detach() + 0.1 * self.second(h) + (0.9 * self.second(h)).detach()

    assert_trains_as_torch(Advised)


def test_functions_whose_gradient_nobody_takes_are_no_loss():
    class Unused(Base):
        def between(self, h):
            with torch.no_grad():
                scale = Reverse.apply(h)
            return h * scale + Rounds.apply(h.detach())

    assert_trains_as_torch(Unused)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints_of_torch_are_what_they_hold(reentrant):
    class Checkpointed(Base):
        def between(self, h):
            return h + checkpoint(lambda x: torch.tanh(self.second(x)), h, use_reentrant=reentrant)

    assert_trains_as_torch(Checkpointed)


def test_functions_of_transformers_have_their_own_gradients():
    transformers = pytest.importorskip("transformers")
    bloom = transformers.BloomConfig(vocab_size=64, hidden_size=32, n_layer=1, n_head=4, hidden_dropout=0, attention_dropout=0)
    gemma = transformers.RecurrentGemmaConfig(
        vocab_size=64, hidden_size=32, num_hidden_layers=1, intermediate_size=48, num_attention_heads=4, lru_width=32, use_cache=False
    )
    for kind, config in ((transformers.BloomForCausalLM, bloom), (transformers.RecurrentGemmaForCausalLM, gemma)):
        torch.manual_seed(1)
        model, tokens = kind(config).train(), torch.randint(0, 64, (8, 6))
        if kind is not transformers.BloomForCausalLM:
            # So small that the root of 1 - a² is of 0, where its derivative is bounded.
            torch.nn.init.constant_(model.model.layers[0].temporal_block.rg_lru.recurrent_param, -25.0)
        job = hyc.compile(model, {"input_ids": tokens[:2]}, loss="causal_lm", micro_batch=4, optimizer="sgd", lr=0.1, optimize=0)
        losses = job.train({"input_ids": tokens}, steps=2, shuffle=False).losses
        batches = [tokens[:4], tokens[4:]]
        expected = train_by_torch(
            model, torch.optim.SGD(model.parameters(), lr=0.1), batches, lambda model, batch: model(batch, labels=batch).loss
        )
        assert losses == pytest.approx(expected, rel=1e-5), kind


@pytest.mark.parametrize(
    "hook, whose",
    [
        (lambda model: model.first.weight.register_hook(lambda gradient: 0 * gradient), "parameter 'first.weight'"),
        (lambda model: model.head.bias.register_post_accumulate_grad_hook(lambda _: None), "parameter 'head.bias'"),
        (lambda model: model.second.register_full_backward_hook(lambda *_: None), r"module 'second' \(Linear\)"),
        (lambda model: model.register_full_backward_pre_hook(lambda *_: None), r"the model \(Base\)"),
        (lambda _: torch.nn.modules.module.register_module_full_backward_hook(lambda *_: None), "torch"),
    ],
)
def test_hooks_of_gradients_are_refused_until_they_are_removed(hook, whose):
    model = Base()
    handle = hook(model)
    try:
        with pytest.raises(hyc.TraceError, match=f"{whose} has a hook of its gradient") as caught:
            hyc.compile(model, torch.randn(2, 4), plan_only=True)
        assert caught.value.file == __file__
    finally:
        handle.remove()
    assert hyc.compile(model, torch.randn(2, 4), plan_only=True).plan.ranks == 1


def test_a_hook_that_forward_registers_is_refused():
    class Hooks(Base):
        def between(self, h):
            if h.requires_grad:
                h.register_hook(lambda gradient: 3 * gradient)
            return h

    with pytest.raises(hyc.TraceError, match="hook that Tensor.register_hook is given here is lost: h.register_hook"):
        hyc.compile(Hooks(), torch.randn(2, 4))


class Draws(torch.nn.Module):
    """Multiplies by a number, which is drawn as `draw` says."""

    def __init__(self, draw):
        super().__init__()
        self.draw = draw

    def forward(self, h):
        return h if torch.compiler.is_exporting() and self.draw is None else h * self.draw()


class Holds(Base):
    """Has a module that draws."""

    def __init__(self, draw):
        super().__init__()
        self.drop = Draws(draw)

    def between(self, h):
        return self.drop(h)


@pytest.mark.parametrize(
    "draw, by",
    [
        (random.random, "Python's random"),
        (lambda: float(numpy.random.rand()), "numpy.random"),
        (lambda: torch.from_numpy(numpy.random.rand(8) > 0.5), "numpy.random"),
    ],
)
def test_draws_of_python_and_numpy_are_refused_in_training_mode_and_told_in_evaluation_mode(draw, by):
    model = Holds(draw)
    with pytest.raises(hyc.TraceError, match=rf"Draws \(drop, in training mode\) draws by {by} in forward") as caught:
        hyc.compile(model, torch.randn(2, 4))
    assert caught.value.file == __file__ and "def forward(self, h):" in str(caught.value)
    model.drop.eval()  # the rest may stay as it is
    with pytest.warns(hyc.HycWarning, match=rf"Draws \(drop, in evaluation mode\) draws by {by}"):
        hyc.compile(model, torch.randn(2, 4), plan_only=True)


def test_generators_that_modules_keep_are_refused_too():
    for own in (random.Random(1), numpy.random.default_rng(1), numpy.random.RandomState(1)):
        model = Holds(own.random if hasattr(own, "random") else own.random_sample)
        model.drop.own = own
        with pytest.raises(hyc.TraceError, match="draws by drop.own in forward"):
            hyc.compile(model, torch.randn(2, 4))
    generator = torch.Generator()
    with pytest.raises(hyc.TraceError, match="torch.Generator of its own"):
        hyc.compile(Holds(lambda: torch.rand(8, generator=generator)), torch.randn(2, 4))


def test_what_torch_draws_each_step_has_anew_and_what_draws_nothing_is_not_told():
    data = data_of(4)
    model = Holds(lambda: torch.rand(8))
    with warnings.catch_warnings():
        warnings.simplefilter("error", hyc.HycWarning)
        job = hyc.compile(model, data["x"], micro_batch=4, lr=0.0, optimize=0)
        hyc.compile(Base().train(), data["x"], plan_only=True)
    assert len(set(job.train(data, steps=3, shuffle=False).losses)) == 3


def test_a_model_within_a_wrapper_is_compiled_and_its_weights_have_the_wrappers_names():
    data = data_of()
    losses = []
    for wrap in (lambda model: model, torch.compile, torch.nn.DataParallel):
        model = wrap(Base())
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", hyc.HycWarning)
            job = hyc.compile(model, data["x"][:2], micro_batch=4, lr=1e-2, optimize=0)
        said = [str(each.message) for each in told if each.category is hyc.HycWarning]
        assert len(said) == (wrap is torch.nn.DataParallel) and all("DataParallel, whose module is trained" in each for each in said)
        run = job.train(data, steps=2, shuffle=False)
        model.load_state_dict(run.state_dict())
        losses.append(run.losses)
    assert losses[0] == losses[1] == losses[2]


def test_a_model_without_values_is_refused_with_a_way_out():
    with torch.device("meta"):
        model = Base()
    with pytest.raises(hyc.UsageError, match=r"first.weight is on the meta device, as are 6 of the model's 6.*to_empty"):
        hyc.compile(model, torch.randn(2, 4))


def test_an_encoder_and_a_decoder_return_no_cache_and_are_left_as_they_were():
    transformers = pytest.importorskip("transformers")
    config = transformers.T5Config(
        vocab_size=64, d_model=32, d_kv=8, d_ff=48, num_layers=1, num_heads=4, dropout_rate=0.0, decoder_start_token_id=0
    )
    torch.manual_seed(2)
    model = transformers.T5ForConditionalGeneration(config).eval()
    used = model.decoder.config.use_cache
    tokens = torch.randint(1, 64, (4, 8))
    data = {"input_ids": tokens, "labels": tokens[:, :5].contiguous()}
    job = hyc.compile(model, data, loss="loss", micro_batch=4, optimize=0)
    assert used and model.decoder.config.use_cache and model.config.use_cache == config.use_cache
    with torch.no_grad():
        expected = model(**data).loss.item()
    assert job.train(data, steps=1, shuffle=False).losses == pytest.approx([expected], rel=1e-5)
