"""A model's twin: the same weights in modules and a configuration of their own."""

from __future__ import annotations

import copy
from typing import Any

__all__ = ["twin"]


def twin(model: Any) -> Any:
    """A model that shares every tensor with this one, and nothing that a forward pass may write.

    transformers writes into `config` during a forward pass and puts it back after it (`merge_with_config_defaults`
    with `is_causal`, which continuous batching passes), and switches the attention implementation there. Where two
    threads use one model, each sees the other's value, and the one that puts back last leaves it wrong for good: all
    later answers of that model would be wrong.
    """
    configs: dict[int, Any] = {}
    modules: dict[int, Any] = {}

    def config_of(config: Any) -> Any:
        if id(config) not in configs:
            configs[id(config)] = copied = copy.copy(config)
            for name, part in vars(config).items():
                if _is_config(part):
                    setattr(copied, name, config_of(part))
        return configs[id(config)]

    def module_of(module: Any) -> Any:
        if id(module) in modules:
            return modules[id(module)]
        made = modules[id(module)] = object.__new__(type(module))
        for name, value in vars(module).items():
            # Registries of tensors, hooks and children are copied, what is in them is shared.
            made.__dict__[name] = config_of(value) if _is_config(value) else copy.copy(value) if _own(value) else value
        children = made.__dict__["_modules"]
        for name, child in children.items():
            children[name] = None if child is None else module_of(child)
        return made

    return module_of(model)


def _is_config(value: Any) -> bool:
    from transformers import PreTrainedConfig

    return isinstance(value, PreTrainedConfig)


def _own(value: Any) -> bool:
    return isinstance(value, dict | set | list)
