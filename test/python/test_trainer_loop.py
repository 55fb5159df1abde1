"""The loop of hyc.Trainer beside transformers' own: the same samples in the same steps, epochs, events and metrics. Ranks are stood in
for, which read a file and tell of steps, so that nothing is compiled."""

import json
import pathlib
import sys
import tracemalloc
import types

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")
safetensors = pytest.importorskip("safetensors.torch")

import hyc
from hyc import trainer as trainers
from hyc.epochs import Course, Samples
from hyc.run import Step

torch.set_num_threads(1)


def make_model():
    torch.manual_seed(7)
    config = transformers.LlamaConfig(
        vocab_size=96, num_hidden_layers=1, hidden_size=16, intermediate_size=16, num_attention_heads=2, num_key_value_heads=2,
        max_position_embeddings=16, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config)


def numbered(samples):
    """Samples whose tokens are their number, and of several lengths."""
    return [{"input_ids": [at] * (4 + at % 3), "labels": [at] * (4 + at % 3)} for at in range(samples)]


def collate(samples):
    longest = max(len(sample["input_ids"]) for sample in samples)
    rows = {name: [list(s[name]) for s in samples] for name in ("input_ids", "labels")}
    return {name: torch.tensor([(row * 3)[:longest] for row in each]) for name, each in rows.items()}


def draw(samples):
    """Other tokens each time that a sample is seen, as masks of a language model are."""
    batch = collate(samples)
    batch["input_ids"] = torch.randint(0, 96, batch["input_ids"].shape)
    return batch


class Stream(torch.utils.data.IterableDataset):
    def __init__(self, samples):
        self.samples = samples

    def __iter__(self):
        return iter(numbered(self.samples))


class Ranks:
    """Instead of a job: keeps what steps read, and tells of each, of evaluations, and later of checkpoints, as hyc-run does."""

    has_evaluation = True

    def __init__(self, model, per_step):
        self.plan = types.SimpleNamespace(global_batch=per_step)
        self.state = model.state_dict()
        self.seen = []

    def train(self, path, *, steps, on_step, on_event, checkpoint=None, checkpoint_every=0, evaluate_every=0, resume=None, **_):
        rows = safetensors.load_file(path)["input_ids"][:, 0].tolist()
        assert len(rows) == steps * self.plan.global_batch
        self.seen = [rows[at : at + self.plan.global_batch] for at in range(0, len(rows), self.plan.global_batch)]
        written = []
        for step in range(int(resume.rpartition("-")[2]) + 1 if resume else 1, steps + 1):
            line = {"step": step, "steps": steps, "loss": 1 + step / 8, "grad_norm": 1.0, "lr": 0.5 / step, "ms": 1.0}
            on_step(Step.parse(json.dumps(line)))
            if evaluate_every and (step == steps or step % evaluate_every == 0):
                between = {"step": step, "steps": steps, "evaluate_loss": 1 + abs(step - 4) / 8, "evaluate_batches": 2, "ms": 4.0}
                on_step(Step.parse(json.dumps(between)))
            for each in written:
                on_event({"event": "checkpoint", "step": each})
            written.clear()
            if checkpoint and (step == steps or (checkpoint_every and step % checkpoint_every == 0)):
                folder = pathlib.Path(checkpoint) / f"step-{step}"
                folder.mkdir(parents=True, exist_ok=True)
                (folder / "checkpoint.json").write_text("{}")
                written.append(step)
        return types.SimpleNamespace(state_dict=lambda: self.state)

    def state_dict(self, checkpoint):
        return self.state


@pytest.fixture
def ranks(monkeypatch):
    """Stands in for hyc.compile, as if the planner chose `dp`."""
    made = types.SimpleNamespace(dp=1, compiled=[], job=None)

    def stand_in(model, example, *, loss, config, lengths, micro_batch, grad_accum, dp=None, **flags):
        made.compiled.append(flags)
        made.job = Ranks(model, micro_batch * grad_accum * (dp or made.dp))
        return made.job

    monkeypatch.setattr(trainers, "compile_model", stand_in)
    return made


class Recording(transformers.Trainer):
    """transformers' own, which keeps what its steps read."""

    def training_step(self, model, inputs, *arguments):
        if not hasattr(self, "seen"):
            self.seen = []
        while len(self.seen) <= self.state.global_step:
            self.seen.append([])
        self.seen[-1] += inputs["input_ids"][:, 0].tolist()
        return super().training_step(model, inputs, *arguments)


def make(kind, folder, data, callbacks=(), flags=None, **more):
    arguments = transformers.TrainingArguments if kind is Recording else hyc.TrainingArguments
    given = {
        "output_dir": str(folder), "report_to": [], "use_cpu": True, "disable_tqdm": True, "save_strategy": "no",
        "logging_steps": 1, "per_device_train_batch_size": 4,
    } | more  # fmt: skip
    return kind(
        model=make_model(), args=arguments(**given), train_dataset=data, data_collator=collate, callbacks=list(callbacks),
        **(flags or {}),
    )  # fmt: skip


@pytest.mark.parametrize(
    "data, given",
    [
        (numbered(18), {"num_train_epochs": 3, "dataloader_drop_last": True}),
        (numbered(18), {"num_train_epochs": 2.5, "dataloader_drop_last": True}),
        (numbered(16), {"num_train_epochs": 2.3}),
        (numbered(16), {"num_train_epochs": 1.2, "gradient_accumulation_steps": 2, "lr_scheduler_type": "cosine"}),
        (numbered(16), {"num_train_epochs": 2, "train_sampling_strategy": "sequential"}),
        (numbered(24), {"max_steps": 7, "train_sampling_strategy": "group_by_length", "gradient_accumulation_steps": 2}),
        (numbered(16), {"num_train_epochs": 2, "train_sampling_strategy": "batch_rebalance", "gradient_accumulation_steps": 2}),
        (numbered(16), {"num_train_epochs": 2, "seed": 3, "data_seed": 8}),
        (numbered(16), {"num_train_epochs": 1.5, "dataloader_num_workers": 2}),
        (Stream(12), {"max_steps": 7}),
        (Stream(16), {"max_steps": 5, "gradient_accumulation_steps": 2}),
    ],
    ids=["last dropped", "last dropped, part", "part", "accumulated", "in order", "by length", "balanced", "seeds", "workers", "stream",
         "stream, accumulated"],
)  # fmt: skip
def test_steps_read_what_transformers_steps_read(ranks, data, given, tmp_path):
    given = {"include_num_input_tokens_seen": "all", **given}
    theirs, ours = make(Recording, tmp_path, data, **given), make(hyc.Trainer, tmp_path, data, **given)
    theirs.train()
    ours.train()
    balances = given.get("train_sampling_strategy") == "batch_rebalance"
    assert [sorted(step) if balances else step for step in ranks.job.seen] == [
        sorted(step) if balances else step for step in theirs.seen
    ]
    for name in ("global_step", "max_steps", "num_train_epochs", "epoch", "num_input_tokens_seen", "train_batch_size"):
        assert getattr(ours.state, name) == getattr(theirs.state, name), name
    assert ours.state.total_flos == pytest.approx(theirs.state.total_flos, rel=1e-6)
    histories = [[(entry["step"], entry["epoch"]) for entry in t.state.log_history] for t in (theirs, ours)]
    assert histories[1] == histories[0]


def test_what_a_collator_draws_is_what_it_draws_for_transformers(ranks, tmp_path):
    for kind in (Recording, hyc.Trainer):
        trainer = make(kind, tmp_path, numbered(16), num_train_epochs=2)
        trainer.data_collator = draw
        trainer.train()
        seen = trainer.seen if kind is Recording else [*seen, *ranks.job.seen]
    assert seen[8:] == seen[:8] and seen[:4] != seen[4:8]


@pytest.mark.parametrize("given", [{"max_steps": 5}, {"num_train_epochs": 2.5}, {"num_train_epochs": 2.5, "warmup_steps": 0.3}])
@pytest.mark.parametrize("flags, chosen", [({"dp": 2}, 1), ({"ranks": 4}, 2), ({}, 2)], ids=["dp", "ranks", "machine"])
def test_ranks_take_as_many_samples_as_processes_of_transformers(ranks, given, flags, chosen, tmp_path):
    ranks.dp = chosen
    theirs, ours = (
        make(Recording, tmp_path, numbered(32), per_device_train_batch_size=8, **given),
        make(hyc.Trainer, tmp_path, numbered(32), flags=flags, **given),
    )
    theirs.train()
    ours.train()
    assert ranks.job.seen == theirs.seen
    assert (ours.state.global_step, ours.state.epoch) == (theirs.state.global_step, theirs.state.epoch)
    # Compiled again where the number of steps was another than guessed and is asked for.
    assert len(ranks.compiled) == (2 if "warmup_steps" in given and chosen == 2 else 1)
    warmup = theirs.args.get_warmup_steps(theirs.state.max_steps)
    assert ranks.compiled[-1].get("warmup_steps", 0) == warmup


def test_sizes_that_contradict_the_arguments_are_refused_as_by_transformers(ranks, tmp_path):
    from accelerate.utils.deepspeed import HfDeepSpeedConfig
    from transformers.integrations.deepspeed import HfTrainerDeepSpeedConfig

    def mismatches(config):
        theirs = HfTrainerDeepSpeedConfig.__new__(HfTrainerDeepSpeedConfig)
        HfDeepSpeedConfig.__init__(theirs, config)  # its own asks for DeepSpeed
        theirs._dtype, theirs.mismatches = None, []
        theirs.trainer_config_process(transformers.TrainingArguments(
            output_dir=str(tmp_path), use_cpu=True, per_device_train_batch_size=4, gradient_accumulation_steps=2, report_to=[],
        ))  # fmt: skip
        return theirs.mismatches

    keys = ("train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
    refused = 0
    for config in [{key: value} for key in keys for value in (1, 2, 4, "auto")] + [{keys[0]: 4, keys[1]: 2}, {"train_batch_size": 12}]:
        contradicts = mismatches(dict(config))
        trainer = make(
            hyc.Trainer, tmp_path, numbered(32), gradient_accumulation_steps=2, max_steps=2, deepspeed=dict(config)
        )
        if contradicts:
            refused += 1
            with pytest.raises(hyc.UsageError, match=r"\(deepspeed\) is \d+, .*training arguments\)"):
                trainer.train()
            continue
        trainer.args.hyc_config = {key: "auto" for key in config}  # what the stand-in knows of is flags
        trainer.train()
    assert refused == 5
    for flag in ({"micro_batch": 2}, {"grad_accum": 1}, {"global_batch": 12}):
        (name,) = flag
        trainer = make(hyc.Trainer, tmp_path, numbered(32), flags=flag, gradient_accumulation_steps=2)
        with pytest.raises(hyc.UsageError, match=rf"{name} \(of the trainer\) is \d+, .*training arguments\)"):
            trainer.train()


@pytest.mark.parametrize(
    "samples, given, left_out",
    [
        (18, {}, 2),
        (18, {"dataloader_drop_last": True}, 0),
        (23, {"gradient_accumulation_steps": 2}, 7),
        (23, {"gradient_accumulation_steps": 2, "dataloader_drop_last": True}, 4),
        (16, {"gradient_accumulation_steps": 2}, 0),
    ],
)
def test_samples_that_transformers_would_train_by_are_told_of(ranks, samples, given, left_out, tmp_path, recwarn):
    theirs, ours = (make(kind, tmp_path, numbered(samples), num_train_epochs=1, **given) for kind in (Recording, hyc.Trainer))
    theirs.train()
    ours.train()
    told = [str(each.message) for each in recwarn if "are left out, as with dataloader_drop_last" in str(each.message)]
    assert sum(map(len, theirs.seen)) - sum(map(len, ranks.job.seen)) == left_out
    assert [int(each.split()[0]) for each in told] == ([left_out] if left_out else [])


def test_a_script_in_several_processes_is_refused(ranks, tmp_path, monkeypatch):
    trainer = make(hyc.Trainer, tmp_path, numbered(16))
    monkeypatch.setattr(hyc.TrainingArguments, "world_size", property(lambda _: 2))
    with pytest.raises(hyc.UsageError, match="the script runs in 2 processes, expected one"):
        trainer.train()


def test_batches_of_another_size_are_refused(ranks, tmp_path):
    class Own(hyc.Trainer):
        def get_train_dataloader(self):
            return torch.utils.data.DataLoader(self.train_dataset, batch_size=8, collate_fn=collate)

    with pytest.raises(hyc.DataError, match="gives a batch of 8 samples, expected per_device_train_batch_size, 4"):
        make(Own, tmp_path, numbered(32)).train()


def test_a_data_set_that_ends_for_good_is_refused(ranks, tmp_path):
    class Own(hyc.Trainer):
        def get_train_dataloader(self):
            return (batch for batch in super().get_train_dataloader())

    with pytest.raises(hyc.DataError, match="has ended for good after 12 samples, which are too few for max_steps"):
        make(Own, tmp_path, numbered(12), max_steps=7).train()


EVENTS = [name for name in dir(transformers.TrainerCallback) if name.startswith("on_")]
WITHIN = {"on_pre_optimizer_step", "on_optimizer_step", "on_substep_end"}


class Listener(transformers.TrainerCallback):
    """Hears everything that a compiled step tells of."""

    def __init__(self):
        self.heard, self.given, self.rates = [], [], []


def hears(event):
    def hear(self, args, state, control, **given):
        self.heard.append((event, state.global_step, state.epoch))
        self.given.append({name for name, value in given.items() if value is not None})
        if event == "on_step_end":
            self.rates.append((given["lr_scheduler"].get_last_lr()[0], given["optimizer"].param_groups[0]["lr"]))

    return hear


for event in EVENTS:
    if event not in WITHIN:
        setattr(Listener, event, hears(event))


def states_in(folder):
    """Of all checkpoints, where the training was."""
    states = {path.parent.name: json.loads(path.read_text()) for path in folder.glob("checkpoint-*/trainer_state.json")}
    keys = ("global_step", "epoch", "max_steps", "eval_steps", "save_steps", "num_train_epochs", "train_batch_size")
    return {name: [state[key] for key in keys] + [len(state["log_history"])] for name, state in states.items()}


@pytest.mark.parametrize(
    "given",
    [
        {"num_train_epochs": 2.5},
        {"num_train_epochs": 2, "logging_strategy": "epoch"},
        {"max_steps": 5, "logging_steps": 2, "logging_first_step": True},
        {"num_train_epochs": 1, "eval_strategy": "epoch", "save_strategy": "epoch", "eval_on_start": True},
        {"max_steps": 3, "eval_strategy": "steps", "eval_steps": 3, "save_strategy": "steps", "save_steps": 3},
        {"num_train_epochs": 3, "eval_strategy": "epoch", "save_strategy": "epoch", "save_total_limit": 2},
        {"max_steps": 7, "eval_strategy": "steps", "eval_steps": 2, "save_strategy": "steps", "save_steps": 3},
        {"num_train_epochs": 2, "eval_strategy": "steps", "eval_steps": 0.25, "eval_delay": 3, "logging_steps": 3},
    ],
    ids=["steps", "epochs", "first", "at the end of an epoch", "at the end", "epochs within", "steps within", "behind a delay"],
)
def test_callbacks_hear_what_they_hear_from_transformers(ranks, given, tmp_path):
    heard, given_to, metrics, logged, saved = [], [], [], [], []
    for kind in (Recording, hyc.Trainer):
        listener, folder = Listener(), tmp_path / kind.__name__
        trainer = make(kind, folder, numbered(16), [listener], {"eval_dataset": numbered(18)}, **given)
        metrics.append(trainer.train().metrics)
        heard.append(listener.heard)
        given_to.append(listener.given)
        logged.append([(entry["step"], sorted(entry)) for entry in trainer.state.log_history])
        saved.append(states_in(folder))
    assert heard[1] == heard[0]
    assert logged[1] == logged[0]
    assert saved[1] == saved[0]
    assert given_to[1] == given_to[0]
    assert sorted(metrics[1]) == sorted(metrics[0])
    assert listener.rates == [(0.5 / step, 0.5 / step) for step in range(1, trainer.state.global_step + 1)]
    ratio = [each["train_samples_per_second"] / each["train_steps_per_second"] for each in metrics]
    assert ratio[1] == pytest.approx(4, rel=1e-2)
    if isinstance(given.get("num_train_epochs", 0), int):
        assert ratio[0] == pytest.approx(4, rel=1e-2)


def test_a_rate_is_there_to_be_read(ranks, tmp_path):
    class Sets(transformers.TrainerCallback):
        def on_step_end(self, args, state, control, optimizer=None, **given):
            optimizer.param_groups[0]["lr"] = 1.0

    class Steps(transformers.TrainerCallback):
        def on_step_end(self, args, state, control, lr_scheduler=None, **given):
            lr_scheduler.step()

    with pytest.raises(TypeError, match="does not support item assignment"):
        make(hyc.Trainer, tmp_path, numbered(16), [Sets()]).train()
    with pytest.raises(AttributeError, match="have no 'step': they are the ranks'"):
        make(hyc.Trainer, tmp_path, numbered(16), [Steps()]).train()


@pytest.mark.parametrize("event", sorted(WITHIN))
def test_callbacks_that_wait_for_what_is_within_a_step_are_refused(ranks, event, tmp_path):
    kind = type("Own", (transformers.TrainerCallback,), {event: lambda *_, **__: None})
    accumulates = {"gradient_accumulation_steps": 2}
    with pytest.raises(hyc.UsageError, match=f"Own.{event} is called within a step"):
        make(hyc.Trainer, tmp_path, numbered(16), [kind()], **accumulates).train()
    if event == "on_substep_end":  # which nobody hears of without
        make(hyc.Trainer, tmp_path, numbered(16), [kind()], max_steps=1).train()


@pytest.mark.parametrize("flag", ["should_training_stop", "should_epoch_stop"])
def test_a_callback_that_ends_what_is_not_at_its_end_is_refused(ranks, flag, tmp_path):
    class Ends(transformers.TrainerCallback):
        def on_step_end(self, args, state, control, **given):
            setattr(control, flag, state.global_step == 2)

    with pytest.raises(hyc.UsageError, match="before its last step, after step 2, which hyc.Trainer cannot"):
        make(hyc.Trainer, tmp_path, numbered(16), [Ends()]).train()


def methods_called(call):
    """Of transformers' Trainer, while `call` runs."""
    codes = {}
    for name, member in vars(transformers.Trainer).items():
        member = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        code = getattr(getattr(member, "__wrapped__", member), "__code__", None)
        if code is not None:
            codes[code] = name
    found = set()

    def profile(frame, event, _):
        if event == "call" and frame.f_code in codes:
            found.add(codes[frame.f_code])

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


def test_a_method_that_transformers_calls_is_called_or_refused(ranks, tmp_path):
    given = {"max_steps": 2, "save_strategy": "steps", "save_steps": 2, "weight_decay": 0.1,
             "include_num_input_tokens_seen": "all"}  # fmt: skip
    theirs, ours = (methods_called(make(kind, tmp_path, numbered(16), **given).train) for kind in (Recording, hyc.Trainer))
    passed_over = {name for name in theirs - ours if not name.startswith("__")} - {"train"}  # ours calls the script's
    assert {"compute_loss", "get_batch_samples", "_prepare_inputs", "create_optimizer", "_save_checkpoint"} <= passed_over
    for name in sorted(passed_over | {"create_optimizer_and_scheduler", "get_optimizer_cls_and_kwargs"}):
        kind = type("Own", (hyc.Trainer,), {name: lambda *_, **__: None})
        with pytest.raises(hyc.UsageError, match=f"^Own.{name} is the script's own, which a compiled step does not call"):
            make(kind, tmp_path, numbered(16), **given).train()
    trainer = make(hyc.Trainer, tmp_path, numbered(16), **given)
    trainer.compute_loss = lambda *_: None
    with pytest.raises(hyc.UsageError, match="trainer.compute_loss is the script's own"):
        trainer.train()


def test_methods_that_hyc_calls_are_the_scripts(ranks, tmp_path):
    called = []

    class Own(hyc.Trainer):
        def _get_train_sampler(self, *arguments):
            called.append("sampler")
            return torch.utils.data.SequentialSampler(self.train_dataset)

        def log(self, logs, *arguments):
            called.append("log")
            super().log(logs, *arguments)

        def save_model(self, *arguments, **keywords):
            called.append("save")

    make(Own, tmp_path, numbered(16), max_steps=2, save_strategy="steps", save_steps=2).train()
    assert called == ["sampler", "log", "log", "save", "log"]
    assert ranks.job.seen == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_a_model_is_made_anew_for_each_training_as_by_transformers(ranks, tmp_path):
    for kind in (Recording, hyc.Trainer):
        given = make(kind, tmp_path, numbered(16), max_steps=1)
        made = []

        def init():
            made.append(make_model())
            return made[-1]

        trainer = kind(model_init=init, args=given.args, train_dataset=numbered(16), data_collator=collate)
        trainer.train()
        assert len(made) == 2 and trainer.model is made[1], kind


class Large(torch.utils.data.Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, at):
        return {"input_ids": torch.full((2048,), at), "labels": torch.full((2048,), at)}


def test_samples_are_not_kept_in_memory():
    loader = torch.utils.data.DataLoader(Large(), batch_size=4, collate_fn=transformers.default_data_collator)
    course = Course(300, 4, 100, 3)
    tracemalloc.start()
    samples = Samples(loader, 4, lambda *_: None, lambda _: (0.0, 0))
    samples.read(course)
    read = [int(row["input_ids"][0]) for row in samples.rows(course)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    samples.close()
    assert read == [*range(400)] * 3
    assert peak < 2e6  # of 39 MB, a batch of which has 131 kB
