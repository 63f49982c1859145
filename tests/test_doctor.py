"""`multimodal doctor`: broken libraries, instructions, threads, and a first text's time taken apart, cause by cause."""

from __future__ import annotations

import asyncio
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from multimodal import doctor, doctor_machine, doctor_versions
from multimodal.cli import main
from multimodal.doctor_answer import ask, time_model
from multimodal.doctor_machine import LADDER, Instructions, Threads, found_instructions
from multimodal.doctor_ttft import PARTS, Trace, causes, trace_text
from multimodal.doctor_versions import Library, allowed, examine_libraries, load_order
from multimodal.errors import PipeError
from multimodal.pipes.engine import Mailbox
from multimodal.pipes.generation import GenerationRequest
from multimodal.pipes.script_engine import ScriptEngine
from tests.support import TINY_LLAMA, run, virtual

# ---- libraries


@pytest.mark.parametrize(
    ("version", "wanted", "good"),
    [
        ("2.13.0+cpu", ">=2.13,<2.14", True),
        ("2.14.0", ">=2.13,<2.14", False),
        ("2.12.9", "<2.14,>=2.13", False),
        ("5.23", ">=5.23,<5.24", True),
        ("5.23.0rc1", ">=5.23", True),
        ("18.1.0", "", True),
        ("1.0", "==1.0.0", True),
        ("1.0", "!=1.0", False),
    ],
)
def test_versions_are_compared_by_their_numbers(version: str, wanted: str, good: bool) -> None:
    assert allowed(version, wanted) is good


def test_a_library_that_does_not_load_is_named_and_the_exit_code_says_so(tmp_path: Path) -> None:
    (tmp_path / "tokenizers.py").write_text("raise ImportError('libfoo.so.1: cannot open shared object file')")
    words = [sys.executable, "-m", "multimodal", "doctor", "--no-measure"]
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(words, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == 1, done.stderr
    last = done.stdout.splitlines()[-1]
    assert last.startswith("BROKEN: tokenizers ")
    assert "libfoo.so.1" in last
    assert "pip install --force-reinstall 'tokenizers" in last


def versions(monkeypatch: pytest.MonkeyPatch, **changed: str) -> None:
    real = metadata.version

    def version(name: str) -> str:
        found = changed.get(name)
        if found == "":
            raise metadata.PackageNotFoundError(name)
        return real(name) if found is None else found

    monkeypatch.setattr(metadata, "version", version)
    monkeypatch.setattr(doctor_versions, "_load", lambda names: "")


def faults(libraries: list[Library]) -> dict[str, str]:
    return {library.name: library.fault for library in libraries if library.fault}


def test_a_library_of_another_version_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    versions(monkeypatch, transformers="4.46.0")
    found = examine_libraries()
    assert list(faults(found)) == ["transformers"]
    assert "4.46.0 is installed" in faults(found)["transformers"]
    assert next(library.advice for library in found if library.fault) == "pip install 'multimodal-stream[llm]'"


def test_a_missing_library_is_a_fault_only_where_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    versions(monkeypatch, tokenizers="")
    assert list(faults(examine_libraries())) == ["tokenizers"], "half an extra helps nobody"
    versions(monkeypatch, torch="", tokenizers="", transformers="")
    assert faults(examine_libraries()) == {}, "without the text engine the rest works"
    assert set(faults(examine_libraries(text_engine=True))) == {"torch", "tokenizers", "transformers"}
    versions(monkeypatch, av="")
    assert list(faults(examine_libraries())) == ["av"]


def test_the_libraries_load_in_either_order() -> None:
    assert load_order() is None


def test_an_order_that_fails_is_told_with_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    versions(monkeypatch)
    monkeypatch.setattr(doctor_versions, "_load", lambda names: "ended by signal 11" if names[0] != "numpy" else "")
    found = load_order()
    assert found is not None
    assert "transformers, tokenizers" in found.fault
    assert "loads first" in found.advice


# ---- processor and threads

CPUINFO = "processor\t: 0\nmodel name\t: A Processor\nflags\t\t: fpu avx2 fma avx512f avx512bw avx512vl avx512dq\n"


def test_instructions_are_read_from_the_flags() -> None:
    found = found_instructions(CPUINFO)
    assert found == {"AVX2": True, "AVX-512": True, "VNNI": False, "BF16": False, "AMX": False}
    assert not any(found_instructions("Features : fp asimd").values())
    assert not any(found_instructions("").values())


def test_torch_is_really_held_to_a_rung() -> None:
    if not found_instructions()["AVX2"]:
        pytest.skip("this processor has no AVX2")
    found = doctor_machine._probe(LADDER[0].environment)
    assert found["uses"] == "AVX2"
    assert all(value > 0 for name, value in found.items() if name != "uses")


def test_gains_are_those_over_the_rung_below() -> None:
    found = Instructions("x", {}, {"AVX2": {"a": 10.0}, "AVX-512": {"a": 5.0}, "VNNI": {"a": 4.0}})
    assert found.gains() == [("AVX-512", "a", 2.0), ("VNNI", "a", 1.25)]


def test_what_cannot_be_measured_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise PipeError("cannot measure: no torch")

    monkeypatch.setattr(doctor_machine, "_probe", fail)
    monkeypatch.setattr(doctor_machine, "found_instructions", lambda: {"AVX2": True})
    assert doctor_machine.measure_instructions("x").error == "cannot measure: no torch"
    assert doctor_machine.measure_threads().error == "cannot measure: no torch"


def test_threads_that_do_not_pay_are_advised_against() -> None:
    assert "OMP_NUM_THREADS=1" in Threads(2, 3.0, 0.5, 1.0, 1.1).advice
    assert "two threads pay" in Threads(2, 0.1, 1.0, 1.5, 1.8).advice
    assert "one core" in Threads(1, 0.1).advice
    assert Threads(2, 0.1).advice == Threads(2, 0.1, error="cannot measure").advice == ""


def test_what_was_not_measured_is_told_as_such(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    versions(monkeypatch)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    assert main(["doctor", "--no-measure"]) == 0
    text = capsys.readouterr().out
    assert text.count("not measured") == 3, "instructions, threads, memory"
    assert "1.00x" not in text
    assert "OMP_NUM_THREADS" not in text
    assert main(["doctor", "--no-measure", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    threads = found["threads"]
    assert threads["token_gain"] is threads["prompt_gain"] is threads["core_share"] is None
    assert found["gains"] is found["advice"] is found["bandwidth"] is found["instructions"]["times_us"] is None


def test_without_torch_nothing_of_it_is_measured_and_it_is_installed_first(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    versions(monkeypatch, torch="", tokenizers="", transformers="")
    monkeypatch.setattr(doctor, "memory_bandwidth", lambda: 5e9)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1}, raising=False)
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert "5.0 GB/s" in text
    assert "two threads beside one: not measured" in text
    first = [line for line in text.splitlines() if "pip install torch==2.13.0 first" in line]
    assert [line.split()[0] for line in first] == ["torch", "tokenizers", "transformers"]
    assert all("then pip install 'multimodal-stream[llm]'" in line for line in first)
    readme = (Path(doctor.__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    assert "pip install torch==2.13.0 " in readme, "the README says the same"


def test_a_probe_that_fails_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(PipeError, match="cannot measure"):
        doctor_machine._probe({})


# ---- the command


def test_the_report_as_json_and_as_text(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    versions(monkeypatch)
    assert main(["doctor", "--no-measure", "--model", str(TINY_LLAMA), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] is True
    assert found["bandwidth"] is None
    assert found["fit"]["name"] == "tiny_llama"
    assert {library["name"] for library in found["libraries"]} >= {"torch", "aiortc", "av", "numpy"}
    assert main(["doctor", "--no-measure", "--model", str(TINY_LLAMA)]) == 0
    printed = capsys.readouterr().out
    assert "nothing is broken" in printed
    assert "it fits" in printed


def test_a_model_that_does_not_fit_is_a_fault(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    versions(monkeypatch)
    monkeypatch.setattr("multimodal.estimate.available_memory", lambda: 2**20)
    assert main(["doctor", "--no-measure", "--ttft", "--model", str(TINY_LLAMA)]) == 1
    assert "BROKEN: tiny_llama does not fit" in capsys.readouterr().out


def test_a_model_with_a_broken_file_is_a_fault(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    versions(monkeypatch)
    for file in TINY_LLAMA.iterdir():
        data = file.read_bytes()
        (tmp_path / file.name).write_bytes(data[:-10] if file.suffix == ".safetensors" else data)
    assert main(["doctor", "--no-measure", "--ttft", "--model", str(tmp_path)]) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(f"BROKEN: {tmp_path / 'model.safetensors'} is broken")
    assert "download it again" in last


@pytest.mark.parametrize("words", [["--ttft"], ["--prompt", "x"], ["--quant", "int8"], ["--model", "nowhere"]])
def test_wrong_use_is_one_sentence(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    versions(monkeypatch)
    assert main(["doctor", "--no-measure", *words]) == 2
    assert "model" in capsys.readouterr().err


def test_gains_and_traces_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = Instructions("A Processor", {"AVX2": True, "VNNI": True}, {"AVX2": {"a": 10.0}, "VNNI": {"a": 5.0}})
    traces = (Trace(load=2.0, prefill=0.1, warm=0.1), Trace(prefill=0.3, prompt_tokens=900))
    text = doctor.report_text(doctor.Report([], measured, Threads(2, 0.0), 5e9, None, traces, ("a fault",)))
    assert "beyond the line above: a 2.0x" in text
    assert "5.0 GB/s" in text
    assert "likely cause: cold model" in text
    assert "likely cause: long prompt" in text
    assert text.splitlines()[-1] == "BROKEN: a fault"


# ---- the first text's time, taken apart: the arithmetic

SECONDS = st.floats(0, 100)


@given(
    parts=st.fixed_dictionaries(dict.fromkeys(PARTS, SECONDS)),
    passes=st.integers(0, 100),
    step=SECONDS | st.just(math.nan),
    warm=SECONDS | st.just(math.nan),
    share=st.floats(0, 1),
    read=st.integers(1, 10_000),
)
def test_the_causes_explain_every_second_once(
    parts: dict[str, float], passes: int, step: float, warm: float, share: float, read: int
) -> None:
    values: dict[str, Any] = dict(parts)
    trace = Trace(**values, passes=passes, step=step, warm=warm, core_share=share, prompt_tokens=read)
    found = causes(trace)
    assert sum(cause.seconds for cause in found) == pytest.approx(sum(parts.values()), abs=1e-6)
    assert [cause.seconds for cause in found] == sorted((cause.seconds for cause in found), reverse=True)
    assert len({cause.name for cause in found}) == len(found)


@pytest.mark.parametrize(
    ("trace", "name"),
    [
        (Trace(load=2.0, prefill=0.3, warm=0.3, prompt_tokens=400), "cold model"),
        (Trace(prefill=2.0, first_step=0.1, warm=0.2, prompt_tokens=40), "cold model"),
        (Trace(prefill=2.0, warm=2.0, step=0.05, passes=4, prompt_tokens=1000), "long prompt"),
        (Trace(prefill=2.0, warm=2.0, step=0.05, passes=30, prompt_tokens=1000), "prompt read in small pieces"),
        (Trace(prefill=2.0, warm=2.0, core_share=0.3, prompt_tokens=1000), "busy machine"),
        (Trace(queue=2.0, prefill=0.5, prompt_tokens=100, others=8), "busy engine"),
        (Trace(first_step=2.0, prefill=0.1, prompt_tokens=10), "model step"),
        (Trace(hold_back=2.0, prefill=0.1, prompt_tokens=10), "text held back"),
        (Trace(send=2.0, prefill=0.1, prompt_tokens=10), "slow reader"),
        (Trace(prefill=2.0, prompt_tokens=60), "reading the prompt"),
    ],
)
def test_each_cause_is_named(trace: Trace, name: str) -> None:
    assert causes(trace)[0].name == name
    assert f"likely cause: {name}" in trace_text(trace)


def test_a_quick_answer_has_nothing_to_cure() -> None:
    assert "likely cause: none" in trace_text(Trace(prefill=0.05, prompt_tokens=30))


# ---- each cause injected


class Bytes:
    """A tokenizer whose tokens are bytes."""

    def decode(self, ids: list[int], skip_special_tokens: bool = True) -> str:
        return bytes(ids).decode(errors="replace")


def test_held_back_and_queued_seconds_are_exact_on_a_virtual_clock() -> None:
    async def scene() -> tuple[Trace, Trace]:
        pieces = ScriptEngine([*"水壶在桌上".encode()], ttft=0.25, gap=0.5)
        held = await ask(pieces, Bytes(), [1, 2, 3])
        pieces.close()
        engine = ScriptEngine([*b"0123456789"], gap=0.25, max_rows=1)
        first = Mailbox()
        engine.submit(GenerationRequest((1,), max_new_tokens=9), first)
        await asyncio.sleep(0)
        queued = await ask(engine, Bytes(), [1, 2, 3])
        engine.close()
        return held, queued

    held, queued = virtual(scene())
    assert held.prefill == pytest.approx(0.25)
    assert held.hold_back == pytest.approx(1.0), "two more bytes of one character, half a second each"
    assert held.step == pytest.approx(0.5)
    assert causes(held)[0].name == "text held back"
    assert queued.queue == pytest.approx(2.0)
    assert queued.others == 1
    assert causes(queued)[0].name == "busy engine"


def test_an_engine_without_text_or_with_a_failure_is_told() -> None:
    async def scene(script: list[int], **settings: Any) -> None:
        engine = ScriptEngine(script, **settings)
        try:
            await ask(engine, Bytes(), [1])
        finally:
            engine.close()

    with pytest.raises(PipeError, match="broken on purpose"):
        virtual(scene([65, 66], fail_at=(0, "broken on purpose")))


@pytest.fixture(scope="module")
def tiny() -> Iterator[Any]:
    import torch

    from multimodal.pipes.local_loading import LocalModel

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield LocalModel.load(TINY_LLAMA)
    torch.set_num_threads(threads)


def likely(trace: Trace, *, machine: bool = False) -> str:
    """The first cause; whether the machine that runs the tests is busy is its own affair unless asked for."""
    return next(cause.name for cause in causes(trace) if machine or cause.name != "busy machine")


def asked(local: Any, prompt_tokens: int, **settings: Any) -> Trace:
    from multimodal.pipes.local_engines import make_engine

    engine = make_engine(local, "manager", **settings)
    try:
        engine.warm_up(1)
        ids = [10 + place % 900 for place in range(prompt_tokens)]
        return run(ask(engine, local.tokenizer, ids))
    finally:
        engine.close()


def test_a_long_prompt_is_named(tiny: Any) -> None:
    found = asked(tiny, 1500, batch_tokens=1500)
    assert found.prompt_tokens == 1500
    assert found.passes == 1
    assert likely(found) == "long prompt"


def test_small_passes_are_named(tiny: Any) -> None:
    found = asked(tiny, 1500, batch_tokens=16)
    assert found.passes > 90
    assert likely(found) == "prompt read in small pieces"


def test_a_cold_model_is_named() -> None:
    cold, later = time_model(TINY_LLAMA, engine="manager")
    assert cold.load > 0
    assert likely(cold) == "cold model"
    assert "cold model" not in [cause.name for cause in causes(later)]
    assert cold.prompt_tokens == later.prompt_tokens
    assert later.cached_tokens == 0


def test_a_busy_machine_is_named(tiny: Any) -> None:
    from multimodal.pipes.local_engines import make_engine

    engine = make_engine(tiny, "manager", batch_tokens=1000)
    hogs: list[subprocess.Popen[bytes]] = []
    try:
        engine.warm_up(1)
        hogs += [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(3 * (os.cpu_count() or 1))]
        found = run(ask(engine, tiny.tokenizer, [10 + place % 900 for place in range(1000)]))
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()
        engine.close()
    assert found.core_share < 0.7
    assert likely(found, machine=True) == "busy machine"


def test_a_busy_engine_is_named(tiny: Any) -> None:
    from multimodal.pipes.local_engines import make_engine

    async def scene() -> Trace:
        engine = make_engine(tiny, "manager", max_rows=1)
        try:
            other = Mailbox(1000)
            engine.submit(GenerationRequest((5, 6, 7), max_new_tokens=60, min_new_tokens=60), other)
            await other.wait()
            return await ask(engine, tiny.tokenizer, list(range(20, 40)))
        finally:
            engine.close()

    found = run(scene())
    assert found.others == 1
    assert likely(found) == "busy engine"
