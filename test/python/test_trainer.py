"""hyc.Trainer beside transformers' own Trainer: the same script, the same losses."""

import json

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")

import hyc
from hyc import trainer as trainers
from hyc.arguments import Settings

torch.set_num_threads(1)  # threads that spin at each other on a busy machine take minutes

SEQUENCE = 16


def make_model(kind):
    torch.manual_seed(7)
    common = {"vocab_size": 96, "bos_token_id": 0, "eos_token_id": 0}
    if kind == "gpt2":
        config = transformers.GPT2Config(
            n_layer=2, n_embd=32, n_head=4, n_positions=SEQUENCE, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, **common
        )
        model = transformers.GPT2LMHeadModel(config)
        # transformers knows no loss of this class by name: its Trainer then counts each sample's first token, which nothing
        # predicts, among those that it divides by.
        model.loss_type = "ForCausalLM"
        return model
    config = transformers.LlamaConfig(
        num_hidden_layers=2, hidden_size=32, intermediate_size=64, num_attention_heads=4, num_key_value_heads=2,
        max_position_embeddings=SEQUENCE, **common,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config)


def make_data(samples=40):
    """Samples of several lengths; the collator pads each batch to its longest."""
    generator = torch.Generator().manual_seed(2)
    lengths = torch.randint(5, SEQUENCE + 1, (samples,), generator=generator).tolist()
    return [{"input_ids": torch.randint(1, 96, (length,), generator=generator).tolist()} for length in lengths]


def collate(samples):
    longest = max(len(sample["input_ids"]) for sample in samples)
    ids = torch.zeros(len(samples), longest, dtype=torch.int64)
    mask, labels = torch.zeros_like(ids), torch.full_like(ids, -100)
    for row, sample in enumerate(samples):
        size = len(sample["input_ids"])
        ids[row, :size] = labels[row, :size] = torch.tensor(sample["input_ids"])
        mask[row, :size] = 1
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def arguments(kind, folder, batch, accumulates=2, **more):
    return kind(
        output_dir=str(folder), per_device_train_batch_size=batch, gradient_accumulation_steps=accumulates, max_steps=20,
        logging_steps=1, learning_rate=2e-3, weight_decay=0.1, lr_scheduler_type="linear", save_strategy="no",
        report_to=[], use_cpu=True, disable_tqdm=True, seed=11, **more,
    )  # fmt: skip


def losses_of(trainer):
    trainer.train()
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_losses_are_those_of_transformers_trainer(kind, tmp_path):
    theirs = transformers.Trainer(
        model=make_model(kind), args=arguments(transformers.TrainingArguments, tmp_path, 4),
        train_dataset=make_data(), data_collator=collate,
    )  # fmt: skip
    config = {"zero_optimization": {"stage": 3}, "train_micro_batch_size_per_gpu": "auto", "gradient_clipping": "auto"}
    (tmp_path / "ds_config.json").write_text(json.dumps(config))
    ours = hyc.Trainer(
        model=make_model(kind), data_collator=collate, train_dataset=make_data(), tp=2, dp=2,
        args=arguments(hyc.TrainingArguments, tmp_path, 2, deepspeed=str(tmp_path / "ds_config.json")),
    )  # fmt: skip
    expected, found = losses_of(theirs), losses_of(ours)
    assert len(found) == len(expected) == 20
    assert found == pytest.approx(expected, abs=1e-4)
    assert ours.job.plan.ranks == 4 and ours.job.plan.global_batch == 8
    assert ours.state.global_step == 20
    rates = [
        [entry["learning_rate"] for entry in t.state.log_history if "learning_rate" in entry] for t in (theirs, ours)
    ]
    assert rates[1] == pytest.approx(rates[0])
    for (name, a), (_, b) in zip(theirs.model.named_parameters(), ours.model.named_parameters()):
        assert (a - b).abs().max() < 1e-3, name


def test_what_a_compiled_step_cannot_do_is_refused(tmp_path):
    class Own(hyc.Trainer):
        def compute_loss(self, *arguments, **keywords):
            raise AssertionError

    def make(kind=hyc.Trainer, data=None, collator=collate, **more):
        return kind(
            model=make_model("gpt2"), args=arguments(hyc.TrainingArguments, tmp_path, 2, **more),
            train_dataset=make_data() if data is None else data, data_collator=collator,
        )  # fmt: skip

    with pytest.raises(hyc.UsageError, match="Own.compute_loss is the script's own"):
        make(Own).train()
    with pytest.raises(hyc.UsageError, match="expected one of adamw_torch"):
        make(optim="adafactor").train()
    with pytest.raises(hyc.UsageError, match="resume_from_checkpoint is True, but '.*' has no checkpoint of hyc.Trainer"):
        make().train(resume_from_checkpoint=True)
    with pytest.raises(hyc.DataError, match="3 samples, expected at least the 4 of a step"):
        make(data=make_data(3)).train()
    with pytest.raises(hyc.DataError, match="expected labels among them"):
        make(collator=lambda samples: {k: v for k, v in collate(samples).items() if k != "labels"}).train()
    with pytest.raises(hyc.DataError, match="padded in front"):
        make(collator=lambda samples: {k: v.flip(-1) for k, v in collate(samples).items()}).train()
    with pytest.raises(hyc.InputOutputError, match="nowhere.json' .deepspeed. cannot be read"):
        make(deepspeed="/nowhere.json").train()


def test_several_lengths_train_as_the_longest(tmp_path):
    expected = losses_of(hyc.Trainer(
        model=make_model("llama"), data_collator=collate, train_dataset=make_data(), sequence=SEQUENCE,
        args=arguments(hyc.TrainingArguments, tmp_path, 4),
    ))  # fmt: skip
    trainer = hyc.Trainer(
        model=make_model("llama"), data_collator=collate, train_dataset=make_data(), sequence=[SEQUENCE, 12, 14], dp=2,
        args=arguments(hyc.TrainingArguments, tmp_path, 2),
    )  # fmt: skip
    assert losses_of(trainer) == pytest.approx(expected, rel=1e-5)
    manifest = json.loads((trainer.job.folder / "manifest.json").read_text())
    assert manifest["dim"]["sizes"] == [12, 14, SEQUENCE]


@pytest.mark.parametrize(
    "given, steps, lr_schedule, warmup",
    [
        ({"lr_scheduler_type": "linear", "warmup_steps": 0.25}, 20, "linear", 5),
        ({"lr_scheduler_type": "cosine", "warmup_steps": 0.01}, 20, "cosine", 1),
        ({"lr_scheduler_type": "cosine", "warmup_steps": 7}, 20, "cosine", 7),
        ({"lr_scheduler_type": "constant", "warmup_steps": 7}, 20, "constant", None),
        ({"lr_scheduler_type": "constant_with_warmup", "warmup_steps": 0.5}, 30, "constant", 15),
        ({"lr_scheduler_type": "linear"}, 20, "linear", None),
    ],
)
def test_schedules_and_warm_ups_are_those_of_the_arguments(given, steps, lr_schedule, warmup, tmp_path):
    args = hyc.TrainingArguments(output_dir=str(tmp_path), use_cpu=True, report_to=[], **given)
    trainer = hyc.Trainer(model=make_model("gpt2"), args=args)
    flags = Settings.of(trainer, {}).scheduled(args, steps).flags
    assert (flags["lr_schedule"], flags.get("warmup_steps")) == (lr_schedule, warmup)
    assert args.get_warmup_steps(steps) == (7 if warmup is None and "warmup_steps" in given else warmup or 0)


def test_a_scheduler_of_a_configuration_has_the_arguments_for_what_it_leaves_open(tmp_path):
    auto = {"warmup_min_lr": "auto", "warmup_max_lr": "auto", "warmup_num_steps": "auto", "total_num_steps": "auto"}
    config = {"scheduler": {"type": "WarmupDecayLR", "params": auto}}
    args = hyc.TrainingArguments(
        output_dir=str(tmp_path), use_cpu=True, report_to=[], warmup_steps=0.1, learning_rate=3e-4, deepspeed=config
    )
    trainer = hyc.Trainer(model=make_model("gpt2"), args=args)
    settings = Settings.of(trainer, {}).scheduled(args, 50)
    params = settings.config["scheduler"]["params"]
    assert params == {"warmup_min_lr": 0, "warmup_max_lr": 3e-4, "warmup_num_steps": 5, "total_num_steps": 50}
    assert "lr_schedule" not in settings.flags and "warmup_steps" not in settings.flags


def test_a_training_evaluates_and_saves_as_its_arguments_say(tmp_path):
    args = hyc.TrainingArguments(
        output_dir=str(tmp_path), per_device_train_batch_size=8, num_train_epochs=2, save_strategy="epoch",
        logging_strategy="epoch", eval_strategy="steps", eval_steps=2, report_to=[], use_cpu=True, disable_tqdm=True,
        warmup_steps=0.2, learning_rate=1e-3,
    )  # fmt: skip
    trainer = hyc.Trainer(
        model=make_model("llama"), args=args, train_dataset=make_data(40), eval_dataset=make_data(8), data_collator=collate
    )
    trainer.train()
    logs = [entry for entry in trainer.state.log_history if "loss" in entry]
    assert [entry["epoch"] for entry in logs] == [1.0, 2.0]
    assert [entry["step"] for entry in trainer.state.log_history if "eval_loss" in entry] == [2, 4, 6, 8, 10]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint-10", "checkpoint-5"]
    saved = transformers.LlamaForCausalLM.from_pretrained(tmp_path / "checkpoint-10")
    for (name, a), (_, b) in zip(saved.named_parameters(), trainer.model.named_parameters()):
        assert torch.equal(a, b), name


class Compiled(Exception):
    """Instead of programs: what they would have been made of."""

    def __init__(self, model, example, loss):
        super().__init__(loss)
        self.loss, self.inputs, self.trains = loss, sorted(example), model.training
        self.outputs = model(**example)


def compiled(monkeypatch, folder, model, data, **keywords):
    def stand_in(model, example, *, loss, **_):
        raise Compiled(model, example, loss)

    monkeypatch.setattr(trainers, "compile_model", stand_in)
    trainer = hyc.Trainer(model=model, args=arguments(hyc.TrainingArguments, folder, 2), train_dataset=data, **keywords)
    with pytest.raises(Compiled) as found:
        trainer.train()
    return found.value


class Subclass(transformers.LlamaForCausalLM):
    """Of a class of transformers, whose loss it has."""


class OwnForward(transformers.LlamaForCausalLM):
    """A loss of its own beside the scores that it inherits."""

    def forward(self, input_ids, attention_mask=None, labels=None, **keywords):
        outputs = super().forward(input_ids, attention_mask, **keywords)
        if labels is not None:
            outputs["loss"] = torch.nn.functional.cross_entropy(outputs.logits.flatten(0, 1), labels.flatten())
        return outputs


class Classifier(torch.nn.Module):
    """Computes its loss by smoothed labels and weights of classes, and returns a tuple."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.linear = torch.nn.Linear(5, 3)
        self.register_buffer("weights", torch.tensor([1.0, 5.0, 1.0]))

    def forward(self, x, labels=None):
        scores = self.linear(x)
        if labels is None:
            return (scores,)
        loss = torch.nn.functional.cross_entropy(scores, labels, weight=self.weights, label_smoothing=0.3)
        return loss, scores


class Scores(Classifier):
    """Takes labels, and returns no loss."""

    def forward(self, x, labels=None):
        return {"logits": self.linear(x)}


def make_bert(**more):
    torch.manual_seed(8)
    config = transformers.BertConfig(
        vocab_size=96, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=48,
        max_position_embeddings=SEQUENCE, hidden_dropout_prob=0, attention_probs_dropout_prob=0, **more,
    )  # fmt: skip
    return transformers.BertForSequenceClassification(config)


def make_t5():
    torch.manual_seed(9)
    config = transformers.T5Config(
        vocab_size=96, d_model=32, d_kv=16, d_ff=48, num_layers=1, num_heads=2, dropout_rate=0, decoder_start_token_id=0
    )
    return transformers.T5ForConditionalGeneration(config)


def make_peft():
    peft = pytest.importorskip("peft")
    torch.manual_seed(3)
    given = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    return peft.get_peft_model(make_model("llama"), given)


def rows(label_of, samples=40):
    """Samples of one length, for transformers' own collator."""
    generator = torch.Generator().manual_seed(6)
    ids = torch.randint(1, 96, (samples, 8), generator=generator).tolist()
    return [{"input_ids": row, "attention_mask": [1] * 8, "labels": label_of(at, row)} for at, row in enumerate(ids)]


def padded_rows():
    """As a tokenizer pads, with labels that are a copy of the tokens, padding included."""
    found = []
    for at, row in enumerate(rows(tokens)):
        size = 4 + at % 5
        ids = row["input_ids"][:size] + [0] * (8 - size)
        found.append({"input_ids": ids, "attention_mask": [1] * size + [0] * (8 - size), "labels": list(ids)})
    return found


def numbers_of_five(samples=40):
    x = torch.randn(samples, 5, generator=torch.Generator().manual_seed(6)).tolist()
    return [{"x": row, "labels": at % 3} for at, row in enumerate(x)]


def tokens(at, row):
    return row


LLAMA = make_model("llama").config


@pytest.mark.parametrize(
    "make, data, loss, inputs",
    [
        (lambda: make_model("llama"), rows(tokens), "causal_lm", ["input_ids"]),
        (lambda: make_model("gpt2"), rows(tokens), "causal_lm", ["input_ids"]),
        (lambda: Subclass(LLAMA), rows(tokens), "causal_lm", ["input_ids"]),
        (make_peft, rows(tokens), "causal_lm", ["input_ids"]),
        (lambda: OwnForward(LLAMA), rows(tokens), "loss", ["attention_mask", "input_ids", "labels"]),
        (Classifier, numbers_of_five(), "loss", ["labels", "x"]),
        (make_t5, rows(tokens), "loss", ["attention_mask", "input_ids", "labels"]),
        (lambda: make_bert(num_labels=1), rows(lambda at, _: at / 10), "mse", ["attention_mask", "input_ids"]),
        (lambda: make_bert(num_labels=3), rows(lambda at, _: at % 3), "cross_entropy", ["attention_mask", "input_ids"]),
        (
            lambda: make_bert(num_labels=3, problem_type="multi_label_classification"),
            rows(lambda at, _: [float(at % 2), 1.0, 0.0]),
            "binary_cross_entropy",
            ["attention_mask", "input_ids"],
        ),
    ],
    ids=["llama", "gpt2", "subclass", "peft", "own forward", "own model", "t5", "regression", "classes", "several labels"],
)
def test_the_loss_is_the_one_that_transformers_trainer_has(make, data, loss, inputs, tmp_path, monkeypatch):
    model = make().eval()
    found = compiled(monkeypatch, tmp_path, model, data)
    assert (found.loss, found.inputs) == (loss, inputs)
    assert found.trains
    if loss == "loss":
        assert list(found.outputs) == ["loss"] and found.outputs["loss"].dim() == 0
    assert "forward" not in vars(model)


def test_a_length_is_refused_where_it_pads_nothing(tmp_path):
    trainer = hyc.Trainer(
        model=make_bert(num_labels=3), args=arguments(hyc.TrainingArguments, tmp_path, 2),
        train_dataset=rows(lambda at, _: at % 3), sequence=16,
    )  # fmt: skip
    with pytest.raises(hyc.UsageError, match="BertForSequenceClassification is no causal model.*padding='max_length'"):
        trainer.train()


def test_gradient_checkpointing_is_hycs(tmp_path):
    model = make_model("llama")
    model.gradient_checkpointing_enable({"use_reentrant": True})
    losses = {}
    for name, each in {"with": model, "without": make_model("llama")}.items():
        trainer = hyc.Trainer(
            model=each,
            args=arguments(hyc.TrainingArguments, tmp_path / name, 2),
            train_dataset=rows(tokens),
            optimize=0,
        )
        losses[name] = losses_of(trainer)
        assert trainer.job.plan.values.get("recompute") == ("layer" if name == "with" else "none")
    assert losses["with"] == losses["without"]
    assert any(getattr(module, "gradient_checkpointing", False) for module in model.modules())


def test_a_model_that_takes_labels_and_returns_no_loss_is_refused(tmp_path):
    trainer = hyc.Trainer(
        model=Scores(), args=arguments(hyc.TrainingArguments, tmp_path, 2), train_dataset=numbers_of_five()
    )
    with pytest.raises(hyc.UsageError, match="Scores.forward takes labels and returns no loss.*give loss= as one of"):
        trainer.train()


@pytest.mark.parametrize(
    "make, data",
    [
        (Classifier, numbers_of_five()),
        (make_peft, rows(tokens)),
        (lambda: make_bert(num_labels=1), rows(lambda at, _: at / 10)),
        (make_t5, rows(tokens)),
        (lambda: make_model("llama"), padded_rows()),
    ],
    ids=["own model", "peft", "regression", "t5", "labels behind a mask"],
)
def test_losses_of_other_models_are_those_of_transformers_trainer(make, data, tmp_path):
    # Of the classes with a loss of their own and keywords transformers' Trainer adds up what it accumulates.
    theirs = transformers.Trainer(
        model=make(), args=arguments(transformers.TrainingArguments, tmp_path, 4, accumulates=1), train_dataset=data
    )
    ours = hyc.Trainer(
        model=make(), args=arguments(hyc.TrainingArguments, tmp_path, 2, accumulates=1), train_dataset=data, optimize=0, dp=2
    )
    expected = losses_of(theirs)
    assert losses_of(ours) == pytest.approx(expected, abs=1e-4)


def test_a_mask_is_kept_where_what_it_leaves_out_has_labels(tmp_path, monkeypatch):
    def counted(samples):
        batch = collate(samples)
        return {**batch, "labels": batch["input_ids"].clone()}

    found = compiled(monkeypatch, tmp_path, make_model("llama"), make_data(), data_collator=counted)
    assert found.inputs == ["attention_mask", "input_ids"]

    def positions(samples):
        batch = collate(samples)
        return {**batch, "position_ids": torch.arange(batch["input_ids"].shape[1]).expand_as(batch["input_ids"])}

    found = compiled(monkeypatch, tmp_path, make_model("llama"), make_data(), data_collator=positions)
    assert found.inputs == ["input_ids", "position_ids"]


@pytest.mark.parametrize(
    "given",
    [
        (torch.optim.SGD, {"lr": 0.5, "momentum": 0.9}),
        (torch.optim.Adam, {"lr": 1e-2, "betas": (0.8, 0.95), "eps": 1e-6}),
        (torch.optim.Adam, {"lr": 1e-2, "decoupled_weight_decay": True}),
        (torch.optim.AdamW, {"lr": 1e-2, "weight_decay": 0.5}),  # transformers gives each parameter its arguments' decay
        (torch.optim.AdamW, {}),
    ],
    ids=["sgd", "adam", "adam, decoupled", "adamw", "torch's defaults"],
)
def test_an_optimizer_of_torch_trains_as_in_transformers_trainer(given, tmp_path):
    found = []
    for kind, args in ((transformers.Trainer, transformers.TrainingArguments), (hyc.Trainer, hyc.TrainingArguments)):
        trainer = kind(
            model=make_model("llama"), args=arguments(args, tmp_path, 4, accumulates=1), train_dataset=make_data(),
            data_collator=collate, optimizer_cls_and_kwargs=given, **({"optimize": 0} if kind is hyc.Trainer else {}),
        )  # fmt: skip
        found.append(losses_of(trainer))
    assert found[1] == pytest.approx(found[0], abs=1e-4)
    assert max(found[0]) - min(found[0]) > 0.05


@pytest.mark.parametrize(
    "given, more, says",
    [
        ((torch.optim.RMSprop, {}), {}, r"has RMSprop, expected one of torch.optim.AdamW, torch.optim.Adam, torch.optim.SGD"),
        ((torch.optim.AdamW, {"amsgrad": True}), {}, "has amsgrad=True, expected False"),
        ((torch.optim.SGD, {"momentum": 0.9, "nesterov": True}), {}, "has nesterov=True, expected False"),
        ((torch.optim.SGD, {"params": []}), {}, "has params, expected none"),
        ((torch.optim.SGD, {}), {"deepspeed": {"optimizer": {"type": "Lamb"}}}, "an optimizer by deepspeed, too"),
    ],
)
def test_an_optimizer_that_hyc_has_not_is_refused(given, more, says, tmp_path):
    trainer = hyc.Trainer(
        model=make_model("llama"), args=arguments(hyc.TrainingArguments, tmp_path, 4, **more), train_dataset=make_data(),
        data_collator=collate, optimizer_cls_and_kwargs=given,
    )  # fmt: skip
    with pytest.raises(hyc.UsageError, match=f"optimizer_cls_and_kwargs .*{says}"):
        trainer.train()


def test_ranks_that_the_planner_lays_out_train_as_transformers_trainer(tmp_path):
    theirs = transformers.Trainer(
        model=make_model("llama"), args=arguments(transformers.TrainingArguments, tmp_path, 8, accumulates=1),
        train_dataset=make_data(), data_collator=collate,
    )  # fmt: skip
    ours = hyc.Trainer(
        model=make_model("llama"), args=arguments(hyc.TrainingArguments, tmp_path, 4, accumulates=1),
        train_dataset=make_data(), data_collator=collate, ranks=2,
    )  # fmt: skip
    expected = losses_of(theirs)
    assert losses_of(ours) == pytest.approx(expected, abs=1e-4)
    assert ours.job.plan.dp == 2
    assert ours.state.epoch == theirs.state.epoch == 4


def test_bad_samples_are_told_of_the_data_set(tmp_path):
    data = make_data()
    data[3]["input_ids"][0] = 97
    trainer = hyc.Trainer(
        model=make_model("llama"), args=arguments(hyc.TrainingArguments, tmp_path, 4), train_dataset=data,
        data_collator=collate, optimize=0,
    )  # fmt: skip
    with pytest.raises(hyc.DataError, match=r"error: train_dataset: \w+, sample \d+, element 0: found 97, expected 0 to 95"):
        trainer.train()
