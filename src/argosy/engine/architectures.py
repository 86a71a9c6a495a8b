"""Where a job's model comes from: transformers by configuration or folder, or the user's class.

transformers is imported by single modules: its Auto classes import every architecture's
configuration, which takes seconds on a small machine (docs/log.md).
"""

import difflib
import importlib
import inspect
import json
import sys
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from argosy.core.errors import SpecError

if TYPE_CHECKING:
    from pathlib import Path

    from argosy.core.job import ModelFromClass

WHERE = "model.config"


def from_config(config: dict[str, Any], vocabulary: int) -> nn.Module:
    """A causal language model with random weights; vocab_size is filled in from the tokenizer."""
    configuration, language_model = _classes(config)
    settings = {name: value for name, value in config.items() if name != "model_type"}
    _refuse_unknown(configuration, settings)
    settings.setdefault("vocab_size", vocabulary)
    for token in ("bos_token_id", "eos_token_id", "pad_token_id"):
        settings.setdefault(token, None)  # the defaults are other vocabularies' tokens
    _refuse_small_vocabulary(settings["vocab_size"], vocabulary, WHERE)
    try:
        made = configuration(**settings)
        made.use_cache = False  # for generation; useless weight while training
        module = language_model(made)
    except Exception as error:  # transformers raises whatever it trips over
        raise SpecError(
            f"no model can be made of this configuration: {said(error)}",
            where=WHERE,
            hint=f"see the fields of transformers' {configuration.__name__}",
        ) from error
    assert isinstance(module, nn.Module)
    return module.float()


def from_folder(folder: "Path", vocabulary: int, *, weights: bool = True) -> nn.Module:
    """Pretrained weights where the folder has them and they are wanted, else as `from_config`."""
    where = str(folder)
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except OSError as error:
        raise SpecError(
            f"no model here: config.json cannot be read ({error.strerror or error})",
            where=where,
            hint="name a folder as transformers' save_pretrained writes it",
        ) from error
    except ValueError as error:
        raise SpecError(f"config.json is not JSON: {said(error)}", where=where) from error
    if not weights or not any(folder.glob("*.safetensors")):
        if any(folder.glob("pytorch_model*.bin")):
            raise SpecError(
                "the weights are pickles, which may run code when they are read",
                where=where,
                hint="save them again: model.save_pretrained(folder, safe_serialization=True)",
            )
        return from_config(_without_notes(config), vocabulary)
    configuration, language_model = _classes(config)
    _refuse_small_vocabulary(config.get("vocab_size", vocabulary), vocabulary, where)
    try:
        made = configuration.from_dict(config)
        made.use_cache = False
        module, loading = language_model.from_pretrained(
            where, config=made, local_files_only=True, dtype=torch.float32, output_loading_info=True
        )
    except Exception as error:
        raise SpecError(f"the weights cannot be loaded: {said(error)}", where=where) from error
    missing = sorted(loading["missing_keys"])
    if missing:
        raise SpecError(
            f"the weights lack {len(missing)} parameters of the model, first {missing[0]}",
            where=where,
            hint=f"they do not belong to a {language_model.__name__} of this config.json",
        )
    assert isinstance(module, nn.Module)
    return module.float()


def from_class(model: "ModelFromClass", vocabulary: int, root: "Path") -> nn.Module:
    """The user's class, imported from the job's folder."""
    where = f"model: {model.target}"
    name, _, attribute = model.target.partition(":")
    if not name or not attribute:
        raise SpecError("expected module:Class", where=where, hint="for example my_models:TinyGPT")
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    importlib.invalidate_caches()
    try:
        found = getattr(importlib.import_module(name), attribute)
    except ModuleNotFoundError as error:
        hint = f"there is no {name.replace('.', '/')}.py in {root}"
        if error.name != name:
            hint = f"{name} itself imports {error.name}; install it in the environment of the hosts"
        raise SpecError(f"no module named {error.name}", where=where, hint=hint) from error
    except AttributeError as error:
        raise SpecError(f"no {attribute} in {name}", where=where) from error
    except Exception as error:  # whatever the user's module does when it is imported
        raise SpecError(f"{name} cannot be imported: {said(error)}", where=where) from error
    arguments = dict(model.arguments)
    if "vocabulary" in _takes(found):
        arguments.setdefault("vocabulary", vocabulary)
    try:
        module = found(**arguments)
    except Exception as error:
        raise SpecError(
            f"{attribute}({', '.join(f'{k}={v!r}' for k, v in arguments.items())}) fails:"
            f" {said(error)}",
            where=where,
        ) from error
    if not isinstance(module, nn.Module):
        raise SpecError(
            f"{attribute} made a {type(module).__name__}, expected a torch.nn.Module", where=where
        )
    return module.float()


def _classes(config: dict[str, Any]) -> tuple[Any, Any]:
    """The configuration's class and that of its causal language model."""
    kind = config.get("model_type")
    if not isinstance(kind, str) or not kind:
        raise SpecError("expected model_type", where=WHERE, hint="for example model_type: llama")
    package = f"transformers.models.{kind.replace('-', '_')}"
    module = f"{package}.configuration_{kind.replace('-', '_')}"
    try:
        configuration = next(
            found
            for found in vars(importlib.import_module(module)).values()
            if inspect.isclass(found) and getattr(found, "model_type", None) == kind
        )
        models = importlib.import_module(module.replace("configuration_", "modeling_"))
        name = configuration.__name__.removesuffix("Config") + "ForCausalLM"
        return configuration, getattr(models, name)
    except (ModuleNotFoundError, AttributeError, StopIteration):
        return _classes_by_table(kind)


def _classes_by_table(kind: str) -> tuple[Any, Any]:
    """As `_classes`, for the few architectures whose names do not follow the rule; slower."""
    from transformers.models.auto import configuration_auto, modeling_auto

    names = modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    if kind not in names:
        near = difflib.get_close_matches(kind, names, n=3)
        meant = f"did you mean {' or '.join(near)}?" if near else "for example llama, gpt2, qwen3"
        raise SpecError(
            f"transformers has no causal language model of model_type {kind!r}",
            where=WHERE,
            hint=meant,
        )
    configuration = configuration_auto.CONFIG_MAPPING[kind]
    return configuration, modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING[configuration]


def _refuse_unknown(configuration: Any, settings: dict[str, Any]) -> None:
    """transformers takes any key in silence; a misspelt one would be a much larger model."""
    known = set(configuration().to_dict()) | _takes(configuration)
    known |= set(getattr(configuration, "attribute_map", {}))
    for name in settings:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            raise SpecError(
                f"{configuration.__name__} has no setting {name!r}",
                where=WHERE,
                hint=f"did you mean {near[0]}?" if near else "",
            )


def _without_notes(config: dict[str, Any]) -> dict[str, Any]:
    """A stored config.json without what transformers only notes in it."""
    notes = ("architectures", "dtype", "torch_dtype", "transformers_version", "use_cache")
    return {name: value for name, value in config.items() if name not in notes}


def _refuse_small_vocabulary(own: object, vocabulary: int, where: str) -> None:
    if not isinstance(own, int) or own < vocabulary:
        raise SpecError(
            f"vocab_size is {own}, the tokenizer has {vocabulary} tokens",
            where=where,
            hint="leave vocab_size out, or name the tokenizer that belongs to the model",
        )


def _takes(target: Any) -> set[str]:
    try:
        return set(inspect.signature(target).parameters)
    except (TypeError, ValueError):
        return set()


def said(error: BaseException) -> str:
    """The first sentence of a message, which goes on below a line that ends with a colon."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    for line in lines[1:]:
        if not text.endswith(":"):
            break
        text = f"{text} {line}"
    return text
