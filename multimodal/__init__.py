"""Multimodal synchronized streams for shopping guidance: product pictures that appear exactly with their words.

Names are loaded at first use, so that importing the package loads no heavy library.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from multimodal._version import __version__ as __version__

if TYPE_CHECKING:
    from multimodal.errors import DriftError as DriftError
    from multimodal.errors import MultiModalError as MultiModalError
    from multimodal.errors import PipeError as PipeError
    from multimodal.errors import RemoteProtocolError as RemoteProtocolError
    from multimodal.errors import SyncError as SyncError
    from multimodal.errors import TransportError as TransportError
    from multimodal.errors import UsageError as UsageError
    from multimodal.pipes.catalog import CatalogImagePipe as CatalogImagePipe
    from multimodal.pipes.folder import FolderImagePipe as FolderImagePipe
    from multimodal.pipes.guard import FactGuard as FactGuard
    from multimodal.pipes.guarded import GuardedTextPipe as GuardedTextPipe
    from multimodal.pipes.interleaved import split_interleaved as split_interleaved
    from multimodal.pipes.local import LocalTextPipe as LocalTextPipe
    from multimodal.pipes.processor import StreamProcessor as StreamProcessor
    from multimodal.pipes.remote import RemoteTextPipe as RemoteTextPipe
    from multimodal.pipes.remote_pictures import RemotePictures as RemotePictures
    from multimodal.pipes.samples import samples as samples
    from multimodal.pipes.script import ScriptTextPipe as ScriptTextPipe
    from multimodal.pipes.video_pipe import VideoImagePipe as VideoImagePipe
    from multimodal.pipes.wordfilter import FilteredTextPipe as FilteredTextPipe
    from multimodal.pipes.wordfilter import WordFilter as WordFilter
    from multimodal.serving.app import asgi as asgi
    from multimodal.serving.auth import Tokens as Tokens
    from multimodal.serving.limits import Quotas as Quotas
    from multimodal.serving.turn import Turn as Turn
    from multimodal.serving.turn import turn_credentials as turn_credentials
    from multimodal.stream import MultiModalStream as MultiModalStream
    from multimodal.sync.history import Heard as Heard
    from multimodal.sync.matcher import ProductNames as ProductNames
    from multimodal.sync.meaning import Meaning as Meaning
    from multimodal.values import Asset as Asset
    from multimodal.values import Cue as Cue
    from multimodal.values import EncodedImage as EncodedImage
    from multimodal.values import ImageFailure as ImageFailure
    from multimodal.values import Product as Product
    from multimodal.values import Token as Token

_HOMES = {
    "Asset": "values",
    "CatalogImagePipe": "pipes.catalog",
    "Cue": "values",
    "DriftError": "errors",
    "EncodedImage": "values",
    "FactGuard": "pipes.guard",
    "FilteredTextPipe": "pipes.wordfilter",
    "FolderImagePipe": "pipes.folder",
    "GuardedTextPipe": "pipes.guarded",
    "Heard": "sync.history",
    "ImageFailure": "values",
    "LocalTextPipe": "pipes.local",
    "Meaning": "sync.meaning",
    "MultiModalError": "errors",
    "MultiModalStream": "stream",
    "PipeError": "errors",
    "Product": "values",
    "ProductNames": "sync.matcher",
    "Quotas": "serving.limits",
    "RemoteProtocolError": "errors",
    "RemotePictures": "pipes.remote_pictures",
    "RemoteTextPipe": "pipes.remote",
    "ScriptTextPipe": "pipes.script",
    "StreamProcessor": "pipes.processor",
    "SyncError": "errors",
    "Token": "values",
    "Tokens": "serving.auth",
    "TransportError": "errors",
    "Turn": "serving.turn",
    "UsageError": "errors",
    "VideoImagePipe": "pipes.video_pipe",
    "WordFilter": "pipes.wordfilter",
    "asgi": "serving.app",
    "samples": "pipes.samples",
    "split_interleaved": "pipes.interleaved",
    "turn_credentials": "serving.turn",
}

__all__ = [
    "Asset",
    "CatalogImagePipe",
    "Cue",
    "DriftError",
    "EncodedImage",
    "FactGuard",
    "FilteredTextPipe",
    "FolderImagePipe",
    "GuardedTextPipe",
    "Heard",
    "ImageFailure",
    "LocalTextPipe",
    "Meaning",
    "MultiModalError",
    "MultiModalStream",
    "PipeError",
    "Product",
    "ProductNames",
    "Quotas",
    "RemotePictures",
    "RemoteProtocolError",
    "RemoteTextPipe",
    "ScriptTextPipe",
    "StreamProcessor",
    "SyncError",
    "Token",
    "Tokens",
    "TransportError",
    "Turn",
    "UsageError",
    "VideoImagePipe",
    "WordFilter",
    "__version__",
    "asgi",
    "samples",
    "split_interleaved",
    "turn_credentials",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'multimodal' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"multimodal.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
