"""A redacted recording says nothing of what was said, and everything of when."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from multimodal.events import AssetReserved, StreamStart
from multimodal.sync.drift import drift_report
from multimodal.sync.log import SyncLog
from multimodal.sync.redact import redacted
from multimodal.sync.verdict import faults_of
from tests.sync.tours import changed, index, tour


def test_words_titles_and_alts_are_gone_and_their_lengths_stay() -> None:
    log = tour()
    secret = redacted(log)
    assert secret.text.startswith("Xxxx xxx Xxxx Xxxxxx, xxxxx xxxxx x xxxxx xx xxxxxx xxxxxxx. ")
    assert [len(text.text) for text in secret.texts] == [len(text.text) for text in log.texts]
    assert secret.start is not None
    assert secret.start.products[0].title == "Zzzz Zzzzzz"
    assert {asset.alt for asset in secret.of(AssetReserved)} == {"zzzzzzz zzzzzz-0", "zzzzzzz zzz-0", "zzzzzzz zzzz-0"}
    told = b"".join(secret.lines())
    for word in (b"Halo", b"litre", b"Ember", b"picture"):
        assert word not in told


def test_keys_times_and_figures_stay() -> None:
    log = tour(late="hold", ready={"mug-1": 0.9, "lamp-1": 9.0})
    secret = redacted(log)
    assert drift_report(secret) == drift_report(log)
    assert faults_of(secret) == faults_of(log) == []
    assert secret.plan == log.plan
    assert [(event.seq, event.pts_ms) for event in secret.events] == [(event.seq, event.pts_ms) for event in log.events]


def test_no_name_is_found_among_words_of_the_same_shape() -> None:
    # "Moss Mug" and "Look out" would be one shape; the cue of the lamp stands right behind the latter.
    log = tour()
    start = log.events[0]
    assert isinstance(start, StreamStart)
    products = tuple(msgspec.structs.replace(product, title="Glowing warm", aliases=()) for product in start.products)
    assert faults_of(redacted(changed(log, 0, products=products))) == []


def test_previews_and_addresses_are_left_out() -> None:
    log = changed(tour(), index(tour(), AssetReserved), placeholder="data:image/webp;base64,AAAA")
    start = log.events[0]
    assert isinstance(start, StreamStart)
    linked = msgspec.structs.replace(start.products[0], url="https://shop.example/halo")
    secret = redacted(changed(log, 0, products=(linked,)))
    assert secret.of(AssetReserved)[0].placeholder == ""
    assert secret.start is not None
    assert secret.start.products[0].url == ""


@settings(deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12), min_size=1, max_size=20))
def test_any_text_keeps_its_length_and_its_white_space(tokens: list[str]) -> None:
    log = tour(tokens=tokens, declared=[])
    secret: SyncLog = redacted(log)
    assert [len(text.text) for text in secret.texts] == [len(text.text) for text in log.texts]
    assert [char.isspace() for char in secret.text] == [char.isspace() for char in log.text]
    assert {char for char in secret.text if char.isalnum()} <= set("xX0某")
