"""What a script may override of transformers' Trainer: hyc.Trainer calls that, or it is no part of a training. Anything else of it a
compiled step would pass over silently, and is refused by name."""

from __future__ import annotations

from typing import Any

import transformers

from .errors import UsageError

_HONOURED = frozenset(
    """
    train call_model_init log
    get_train_dataloader _get_train_sampler _get_dataloader _remove_unused_columns _set_signature_columns_if_needed
    _get_collator_with_removed_columns get_decay_parameter_names floating_point_ops _track_num_input_tokens
    evaluate predict prediction_step evaluation_loop end get_eval_dataloader get_test_dataloader _get_eval_sampler
    _determine_best_metric _load_best_model _load_callback_state
    save_model _save create_model_card push_to_hub init_hf_repo _push_from_checkpoint _finish_current_push
    get_learning_rates get_num_trainable_parameters get_optimizer_group log_metrics metrics_format save_metrics save_state
    add_callback pop_callback remove_callback is_local_process_zero is_world_process_zero
    create_accelerator_and_postprocess _build_accelerator_args _validate_args _move_model_to_device
    """.split()
)
_IN_COLLATOR = "change batches in data_collator"
_IN_FORWARD = "let the model's forward take the labels and return the loss"
_BY_OPTIMIZER = "say it by optim=, optimizer_cls_and_kwargs= or the optimizer of a DeepSpeed configuration"
_BY_SCHEDULE = "say it by lr_scheduler_type= or the scheduler of a DeepSpeed configuration"
_WAYS_OUT = {
    "_prepare_input": _IN_COLLATOR,
    "_prepare_inputs": _IN_COLLATOR,
    "get_batch_samples": _IN_COLLATOR,
    "compute_loss": _IN_FORWARD,
    "training_step": _IN_FORWARD,
    "create_optimizer": _BY_OPTIMIZER,
    "get_optimizer_cls_and_kwargs": _BY_OPTIMIZER,
    "create_scheduler": _BY_SCHEDULE,
    "create_optimizer_and_scheduler": f"{_BY_OPTIMIZER}, and by lr_scheduler_type=",
    "_evaluate": "override evaluate",
    "_maybe_log_save_evaluate": "override log, evaluate or save_model",
    "_save_checkpoint": "override save_model",
}
# Within a step, of which ranks tell nothing.
_EVENTS = ("on_pre_optimizer_step", "on_optimizer_step", "on_substep_end")


def _is_passed_over(name: str) -> bool:
    """Whether it is a method of transformers' Trainer that nobody would call."""
    theirs = getattr(transformers.Trainer, name, None)
    is_code = callable(theirs) or isinstance(theirs, property)
    return is_code and name not in _HONOURED and not name.startswith("__")


def refuse(trainer: Any, ours: type) -> None:
    """UsageError where the class of a trainer, which is derived from `ours`, or the trainer itself has another method."""
    kinds = type(trainer).__mro__
    places = [(kind.__name__, list(vars(kind))) for kind in kinds[: kinds.index(ours)]]
    places.append(("trainer", [name for name, value in vars(trainer).items() if callable(value)]))
    for owner, members in places:
        for name in filter(_is_passed_over, members):
            way_out = f"; {_WAYS_OUT[name]}" if name in _WAYS_OUT else ""
            raise UsageError(f"{owner}.{name} is the script's own, which a compiled step does not call{way_out}")


def refuse_callbacks(callbacks: list[transformers.TrainerCallback], accumulates: bool) -> None:
    """UsageError where a callback waits for an event that does not come."""
    for callback in callbacks:
        for event in _EVENTS if accumulates else _EVENTS[:2]:
            if getattr(type(callback), event) is not getattr(transformers.TrainerCallback, event):
                raise UsageError(
                    f"{type(callback).__name__}.{event} is called within a step, of which a compiled step tells nothing; use "
                    "on_step_end, or do without the callback"
                )
