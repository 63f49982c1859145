"""A language model on this machine: read from a folder, the hub, a GGUF file or taken as an object, and described.

Nothing here generates; the engines do.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import pickle
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from multimodal.errors import UsageError

if TYPE_CHECKING:
    from torch import dtype as torch_dtype

__all__ = ["DTYPES", "Kind", "LocalModel", "need"]

Kind = Literal["causal", "seq2seq"]
DTYPES = ("float32", "bfloat16", "float16")
QUANT_MODES = ("int8",)
HUB_WAIT = 1.5
"""Seconds in which a hub must answer; one that can be used does so in a tenth of that."""
# What readers raise for files that are cut off or that do not belong together.
_BROKEN = (OSError, ValueError, KeyError, ImportError, RuntimeError, EOFError, pickle.UnpicklingError)

_TOKENIZER = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
"""What a tokenizer is read from, all of it JSON."""
_LENGTHS = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "max_sequence_length")


class LocalModel:
    """A model that can generate, its tokenizer, and what an engine must know of both.

    Args:
        model: a transformers model that generates text; it is not changed, but for one that `load` read itself.
        tokenizer: a transformers tokenizer, a `tokenizers.Tokenizer`, or None: only token ids then.
        quant_mode: "int8" = the linear layers' weights in 8 bits (see `local_quant`), in a copy of the modules.
        name: what messages call it.
        owned: nobody else holds the model, so that an engine may keep weights in another form instead of a second time.

    Raises:
        UsageError: not a model that generates, or an unknown quant_mode.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any = None,
        *,
        quant_mode: str | None = None,
        name: str | None = None,
        owned: bool = False,
    ) -> None:
        _check_generates(model)
        if tokenizer is not None and not hasattr(tokenizer, "decode"):
            raise UsageError(f"tokenizer={tokenizer!r} is no tokenizer; give an object with encode and decode")
        if quant_mode is not None and quant_mode not in QUANT_MODES:
            raise UsageError(f"quant_mode={quant_mode!r} is not known; give one of {', '.join(QUANT_MODES)}, or None")
        self.name = name or type(model).__name__
        self.kind: Kind = "seq2seq" if model.config.is_encoder_decoder else "causal"
        self.tokenizer = tokenizer
        self.quant_mode = quant_mode
        self.owned = owned
        self.full_bytes = weight_bytes(model)
        """What the weights take as they were loaded."""
        if quant_mode is not None:
            from multimodal.pipes.local_quant import quantize

            model = quantize(model)
            # Whatever the source was: the quantised modules are nobody else's.
            self.owned = True
        self.model = model
        self.weight_bytes = weight_bytes(model)
        """What they take now."""
        self._read_config()

    @classmethod
    def load(
        cls,
        source: Any,
        *,
        tokenizer: Any = None,
        dtype: str | None = None,
        quant_mode: str | None = None,
        trust_remote_code: bool = False,
    ) -> LocalModel:
        """Read a model, and its tokenizer where it lies beside.

        A name is looked for in the hub's local cache, and on the hub only if it is not there.

        Args:
            source: a folder, the name of a model on the hub, a `.gguf` file, a model object, or a `LocalModel`
                (given back as it is where nothing else is asked of it).
            tokenizer: another one than the model's own: an object, a folder or a name.
            dtype: "float32" (default on a CPU), "bfloat16", "float16"; a model object keeps its own.
            quant_mode: "int8", or None.
            trust_remote_code: run code that comes with the model; only for sources you trust.

        Raises:
            UsageError: nothing there, not a model that generates, a package that is missing, an unknown argument.
        """
        if not isinstance(trust_remote_code, bool):
            raise UsageError(f"trust_remote_code={trust_remote_code!r} is no switch; give True or False")
        need("torch", "a local model")
        need("transformers", "a local model")
        if isinstance(source, LocalModel):
            if tokenizer is None and dtype is None and quant_mode in (None, source.quant_mode):
                return source
            if source.quant_mode is not None:
                raise UsageError(f"{source.name} is quantised already; load it from its source to change that")
            source, tokenizer, name = source.model, tokenizer or source.tokenizer, source.name
            return cls(source, tokenizer, quant_mode=quant_mode, name=name)
        kind = _dtype(dtype)
        if isinstance(tokenizer, str | Path):
            with _no_progress_bar():
                tokenizer = _read_tokenizer(tokenizer, {"trust_remote_code": trust_remote_code}, needed=True)
        if not isinstance(source, str | Path):
            if kind is not None and getattr(source, "dtype", kind) != kind:
                raise UsageError(
                    f"the model object is {source.dtype}, and dtype={dtype!r} was asked for; convert it yourself "
                    "(model.to(...)), or give its folder"
                )
            return cls(source, tokenizer, quant_mode=quant_mode)
        where, extra = _locate(source)
        extra["trust_remote_code"] = trust_remote_code
        with _no_progress_bar():
            model = _read_model(where, extra, kind)
            if tokenizer is None:
                tokenizer = _read_tokenizer(where, extra, needed=False)
        return cls(model, tokenizer, quant_mode=quant_mode, name=Path(source).name or str(source), owned=True)

    def _read_config(self) -> None:
        config, generation = self.model.config, getattr(self.model, "generation_config", None)
        text = config.get_text_config(decoder=True)
        self.vocab_size = int(text.vocab_size)

        def told(name: str) -> Any:
            """What generate() would take: the generation config, else the model's own."""
            value = getattr(generation, name, None)
            return getattr(text, name, None) if value is None else value

        eos = told("eos_token_id")
        self.eos_ids: tuple[int, ...] = () if eos is None else tuple(eos) if isinstance(eos, Sequence) else (int(eos),)
        self.pad_id: int | None = told("pad_token_id")
        self.bos_id: int | None = told("bos_token_id")
        start = told("decoder_start_token_id")
        start = self.bos_id if start is None else start
        self.decoder_start: tuple[int, ...] = ()
        """What a seq2seq decoder begins with; it is not part of the answer."""
        if self.kind == "seq2seq":
            if start is None:
                raise UsageError(f"{self.name} names no decoder_start_token_id; set it in its generation config")
            self.decoder_start = tuple(start) if isinstance(start, Sequence) else (int(start),)
        relative = hasattr(text, "relative_attention_num_buckets")
        lengths = [getattr(text, each, None) for each in _LENGTHS]
        self.context_length: int | None = None if relative else next((int(n) for n in lengths if n), None)
        """Most positions of prompt and answer (seq2seq: of either); None = no bound."""
        self.dtype = str(self.model.dtype).removeprefix("torch.")

    @property
    def has_chat_template(self) -> bool:
        template = getattr(self.tokenizer, "chat_template", None)
        return bool(template.strip() if isinstance(template, str) else template)

    def encode(self, text: str) -> tuple[int, ...]:
        """The token ids of a plain prompt, with whatever the tokenizer puts around it.

        Raises:
            UsageError: no tokenizer, or a text without tokens.
        """
        if self.tokenizer is None:
            raise UsageError(f"{self.name} has no tokenizer; give tokenizer=..., or prompts as token ids")
        if not isinstance(text, str):
            raise UsageError(f"a prompt is a {type(text).__name__}; give a str")
        found = self.tokenizer.encode(text)
        ids = tuple(int(each) for each in getattr(found, "ids", found))
        if not ids:
            raise UsageError("the prompt has no tokens; give some text")
        return ids

    def chat(self, messages: Sequence[Mapping[str, Any]]) -> tuple[int, ...]:
        """The token ids of a dialogue, up to where the answer begins, by the tokenizer's chat template.

        Without a template it warns and joins the contents as plain text: the model was not trained on dialogues then.

        Args:
            messages: each with a "role" and a "content".

        Raises:
            UsageError: no tokenizer, no messages, a message without role or content, or one the template refuses.
        """
        if not isinstance(messages, Sequence) or isinstance(messages, str | bytes):
            raise UsageError(f"messages is a {type(messages).__name__}; give a list of messages")
        if not messages:
            raise UsageError("messages is empty; give at least one message")
        for index, message in enumerate(messages):
            if not isinstance(message, Mapping) or not {"role", "content"} <= set(message):
                raise UsageError(f"messages[{index}] is {message!r}; a message has a 'role' and a 'content'")
        if self.tokenizer is None or not self.has_chat_template:
            if self.tokenizer is not None:
                warnings.warn(
                    f"{self.name} has no chat template; its messages are joined as plain text",
                    UserWarning,
                    stacklevel=2,
                )
            return self.encode("\n\n".join(str(message["content"]) for message in messages))
        try:
            ids = self.tokenizer.apply_chat_template(
                [dict(message) for message in messages], add_generation_prompt=True, tokenize=True, return_dict=False
            )
        except Exception as error:  # whatever a template written by others raises
            raise UsageError(f"the chat template of {self.name} refuses these messages: {error}") from error
        return tuple(int(each) for each in ids)


def weight_bytes(model: Any) -> int:
    """Bytes that the weights of a model take; shared ones are counted once."""
    from multimodal.pipes.local_quant import packed_bytes

    seen = {}
    for tensor in (*model.parameters(), *model.buffers()):
        storage = tensor.untyped_storage()
        seen[storage.data_ptr()] = storage.nbytes()
    return int(sum(seen.values())) + packed_bytes(model)


def _check_generates(model: Any) -> None:
    what = type(model).__name__
    if not hasattr(model, "can_generate") or not hasattr(model, "config"):
        raise UsageError(
            f"a {what} is no transformers model; give a folder, a hub name, a .gguf file or a model object"
        )
    names = [each for each in (model.config.architectures or []) if each]
    encoder_only = not model.config.is_encoder_decoder and names and all("MaskedLM" in each for each in names)
    if not model.can_generate() or encoder_only:
        raise UsageError(
            f"{names[0] if encoder_only else what} cannot generate text; give a causal or a seq2seq language model"
        )
    if getattr(model.config.get_text_config(decoder=True), "vocab_size", None) is None:
        raise UsageError(f"{what} has no vocabulary of tokens; give a causal or a seq2seq language model")


def _dtype(name: str | None) -> torch_dtype | None:
    import torch

    if name is None:
        return None
    text = str(name).removeprefix("torch.")
    if text not in DTYPES:
        raise UsageError(f"dtype={name!r} is not known; give one of {', '.join(DTYPES)}")
    found: torch_dtype = getattr(torch, text)
    return found


def need(package: str, what: str, extra: str = "llm") -> None:
    """Refuse to go on without a package.

    Args:
        package: its import name.
        what: needs it, for the message.
        extra: of this package, that brings it.

    Raises:
        UsageError: it is not installed; with the command that installs it.
    """
    if importlib.util.find_spec(package) is None:
        first = "pip install torch==2.13.0 (the build you want), then " if package == "torch" else ""
        raise UsageError(f"{what} needs the package {package}: {first}pip install 'multimodal-stream[{extra}]'")


def _locate(source: str | Path) -> tuple[str, dict[str, Any]]:
    """What `from_pretrained` takes for a folder, a GGUF file or a hub name."""
    path = Path(source).expanduser()
    if path.suffix == ".gguf":
        if not path.is_file():
            raise UsageError(f"there is no GGUF file {path}")
        for package in ("gguf", "accelerate"):
            need(package, f"reading the GGUF file {path.name}", "gguf")
        return str(path.parent), {"gguf_file": path.name}
    if path.is_dir():
        if not (path / "config.json").is_file():
            ggufs = sorted(each.name for each in path.glob("*.gguf"))
            hint = f"; it holds {ggufs[0]}: give that file" if ggufs else ""
            raise UsageError(f"the folder {path} holds no model (no config.json){hint}")
        return str(path), {}
    if path.exists():
        raise UsageError(f"{path} is a file, but no .gguf file; give the folder of a model")
    if isinstance(source, Path) or str(source).startswith((".", "/", "~")) or str(source).count("/") > 1:
        raise UsageError(f"there is no folder {path}")
    return str(source), {}


def _read_model(where: str, extra: dict[str, Any], kind: torch_dtype | None) -> Any:
    from multimodal.weights import check_whole

    if "gguf_file" not in extra and Path(where).is_dir():
        check_whole(Path(where))
    try:
        model = _cache_first(where, extra, lambda extra: _from_pretrained(where, extra, kind))
    except UsageError:
        raise
    except Exception as error:
        file = extra.get("gguf_file")
        # Of a file with broken numbers every part of its reader may fail, each with an error of its own.
        if file is None and not isinstance(error, _BROKEN):
            raise
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        if file is not None:
            raise UsageError(f"cannot read a language model from {Path(where, file)}: {first}") from error
        if Path(where).is_dir():
            raise UsageError(f"cannot read a language model from {where}: {first}") from error
        raise UsageError(
            f"there is no folder {where!r} here, and no such model could be had from the hub: {first} "
            "(offline? give the folder of a model that was downloaded before)"
        ) from error
    return model.eval()


def _from_pretrained(where: str, extra: dict[str, Any], kind: torch_dtype | None) -> Any:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM

    config = AutoConfig.from_pretrained(where, **extra)
    loader: Any = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    names = [each for each in (config.architectures or []) if each]
    if names and not config.is_encoder_decoder and all("MaskedLM" in each for each in names):
        raise UsageError(f"{where} holds a {names[0]}, which cannot generate text; give a causal or seq2seq model")
    return loader.from_pretrained(where, dtype=kind or torch.float32, **extra)


def _cache_first(where: str, extra: dict[str, Any], read: Callable[[dict[str, Any]], Any]) -> Any:
    """Read a hub's model from the local cache, else from the hub where that answers.

    Its client would try for 20 seconds and more to reach a hub that is not there.
    """
    if Path(where).exists():
        return read(extra)
    try:
        return read({**extra, "local_files_only": True})
    except UsageError:
        raise
    except Exception:
        if not _hub_answers():
            raise
    return read(extra)


def _hub_answers() -> bool:
    """Whether the hub can be asked at all, by the proxy that its client uses; within `HUB_WAIT`."""
    hub: Any = importlib.import_module("huggingface_hub.utils")
    endpoint: str = importlib.import_module("huggingface_hub.constants").ENDPOINT
    answered: list[Any] = []

    def ask() -> None:
        with suppress(Exception):  # whatever is wrong, it does not answer
            answered.append(hub.get_session().head(endpoint, timeout=HUB_WAIT))

    # In a thread of its own: looking a name up heeds no timeout.
    thread = threading.Thread(target=ask, daemon=True, name="multimodal-hub")
    thread.start()
    thread.join(HUB_WAIT)
    return bool(answered)


@contextmanager
def _no_progress_bar() -> Iterator[None]:
    """transformers draws on the standard error stream, which is the application's."""
    hub: Any = importlib.import_module("huggingface_hub.utils")
    logging: Any = importlib.import_module("transformers.utils.logging")
    shown, hub_silent = logging.is_progress_bar_enabled(), hub.are_progress_bars_disabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
            if hub_silent:
                hub.disable_progress_bars()


def _read_tokenizer(where: str | Path, extra: dict[str, Any], *, needed: bool) -> Any:
    from transformers import AutoTokenizer

    try:
        return _cache_first(str(where), extra, lambda extra: AutoTokenizer.from_pretrained(str(where), **extra))
    except Exception as error:  # of a broken file the tokenizers' reader raises just that
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        if needed:
            raise UsageError(f"cannot read a tokenizer from {where}: {first}") from error
        if (file := _blamed(Path(where))) is not None:
            what = f"{type(error).__name__}: {first}"
            raise UsageError(f"{file} is broken: no tokenizer can be read from it ({what}); copy it again") from error
        return None  # a model without one takes token ids; `encode` says so


def _blamed(folder: Path) -> Path | None:
    """The file because of which no tokenizer can be read; None = there is none to read."""
    files = [folder / name for name in _TOKENIZER if (folder / name).is_file()]
    for file in files:
        try:
            json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return file
    return next((file for file in files if file.name == "tokenizer.json"), None)
