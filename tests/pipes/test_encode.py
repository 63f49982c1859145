"""Intake and preparation of pictures: every trap that a shop's folder holds."""

from __future__ import annotations

import base64
import io
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageCms, ImageDraw

from multimodal.errors import PipeError, UsageError
from multimodal.pipes.encode import encode_picture, look_at_picture
from multimodal.pipes.intake import ImageSettings, PictureRefused, sniff
from tests.pipes.pictures import BLUE, GREEN, RED, WHITE, data_of, decoded, near, pixel, png_header, quarters, write

SETTINGS = ImageSettings()
FORMATS = ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF"]


def ftyp(major: bytes, *compatible: bytes) -> bytes:
    body = b"ftyp" + major + b"\0\0\0\0" + b"".join(compatible)
    return (len(body) + 4).to_bytes(4, "big") + body


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_is_known_by_its_content_and_prepared(kind: str, tmp_path: Path) -> None:
    data = data_of(quarters(), kind)
    assert sniff(data[:1024]) == kind.lower()
    # The name lies on purpose: shops save WebP as .jpg all the time.
    path = write(tmp_path / "picture.txt", data)
    encoded = encode_picture(path, SETTINGS)
    assert sniff(encoded.data) == "webp"
    assert (encoded.width_px, encoded.height_px) == decoded(encoded.data).size == (96, 64)
    image = decoded(encoded.data)
    for (x, y), wanted in {(0.2, 0.2): RED, (0.8, 0.2): GREEN, (0.2, 0.8): BLUE, (0.8, 0.8): WHITE}.items():
        assert near(pixel(image, x, y), wanted)


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b"", "empty"),
        (ftyp(b"heic", b"mif1", b"heic"), "heic"),
        (ftyp(b"mif1", b"mif1", b"heic"), "heic"),
        (ftyp(b"avif", b"mif1"), "avif"),
        (ftyp(b"mif1", b"avif"), "avif"),
        (ftyp(b"isom", b"mp41"), "video"),
        (ftyp(b"qt  "), "video"),
        (b"\x1aE\xdf\xa3\x01", "video"),
        (ftyp(b"jp2 "), "unknown_format"),
        (b"\xef\xbb\xbf <svg xmlns='x'>", "svg"),
        (b"<?xml version='1.0'?>\n<!-- made by hand -->\n<svg>", "svg"),
        (b"\n<!DOCTYPE HTML><html><body><svg>", "html"),
        (b"<html><head>", "html"),
        (b"<rss>", "unknown_format"),
        (b"404 Not Found", "unknown_format"),
        (b"MM\x00*rest", "tiff"),
        (b"\x89PN", "unknown_format"),
        (b"RIFF\0\0\0\0WAVE", "unknown_format"),
    ],
)
def test_sniffs_what_a_decoder_would_call_all_the_same(head: bytes, kind: str) -> None:
    assert sniff(head) == kind


def refused(path: Path, settings: ImageSettings = SETTINGS) -> PictureRefused:
    verdicts = []
    for work in (look_at_picture, encode_picture):
        with pytest.raises(PictureRefused) as caught:
            work(path, settings)
        verdicts.append(caught.value)
    assert verdicts[0].reason == verdicts[1].reason
    assert str(path) in str(verdicts[0])
    assert isinstance(verdicts[0], PipeError)
    return verdicts[1]


BROKEN_PNG = data_of(quarters(), "PNG").replace(b"IDAT", b"IDAX")
NOISE = Image.effect_noise((200, 150), 80)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty"),
        (b"<!doctype html><title>404</title>", "html"),
        (b"<svg/>", "svg"),
        (ftyp(b"heic"), "unreadable"),
        (b"hello", "unknown_format"),
        (BROKEN_PNG, "unreadable"),
        (png_header(8000, 8000), "too_many_pixels"),
        *((data_of(NOISE, kind)[: len(data_of(NOISE, kind)) // 2], "truncated") for kind in FORMATS[:5]),
        *((data_of(NOISE, kind)[:40], "truncated") for kind in ("JPEG", "PNG", "WEBP", "BMP")),
    ],
)
def test_a_bad_picture_is_refused_with_its_own_word(data: bytes, reason: str, tmp_path: Path) -> None:
    assert refused(write(tmp_path / "bad.jpg", data)).reason == reason


@pytest.mark.parametrize("kind", ["TIFF", "AVIF"])
def test_a_cut_file_of_the_other_formats_is_refused_too(kind: str, tmp_path: Path) -> None:
    data = data_of(NOISE, kind)
    assert refused(write(tmp_path / "cut", data[: len(data) // 2])).reason in {"truncated", "unreadable"}


def test_missing_and_unreadable_files(tmp_path: Path) -> None:
    assert refused(tmp_path / "none.jpg").reason == "not_found"
    folder = tmp_path / "folder.jpg"
    folder.mkdir()
    assert refused(folder).reason == "unreadable"
    pipe = tmp_path / "fifo.jpg"
    os.mkfifo(pipe)  # reading it would block for ever
    assert refused(pipe).reason == "unreadable"


def test_a_bomb_is_refused_from_its_header(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(*_: object) -> None:
        raise AssertionError("decoded")

    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", explode)
    # 81 MP opens without a word elsewhere, 144 MP warns there (warnings are errors in these tests), 400 MP raises.
    for side in (7072, 9000, 12_000, 20_000):
        verdict = refused(write(tmp_path / f"{side}.png", png_header(side, side)))
        assert verdict.reason == "too_many_pixels"
        assert f"{side} x {side}" in str(verdict)
    # Just below the limit it is decoded: the trap is set.
    below = refused(write(tmp_path / "below.png", png_header(2000, 2000)))
    assert isinstance(below.__cause__, AssertionError)


def test_limits_are_settings(tmp_path: Path) -> None:
    path = write(tmp_path / "a.png", quarters(96, 64), "PNG")
    size = path.stat().st_size
    assert refused(path, ImageSettings(max_bytes=size - 1)).reason == "too_many_bytes"
    assert refused(path, ImageSettings(max_pixels=96 * 64 - 1)).reason == "too_many_pixels"
    assert encode_picture(path, ImageSettings(max_bytes=size, max_pixels=96 * 64)).width_px == 96


@pytest.mark.parametrize("options", [{"max_px": 0}, {"quality": 101}, {"max_pixels": 0}, {"preview_px": 65}])
def test_settings_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(options))):
        ImageSettings(**options)


UNTURN: dict[int, Callable[[Image.Image], Image.Image]] = {
    1: lambda image: image,
    2: lambda image: image.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
    3: lambda image: image.rotate(180),
    4: lambda image: image.transpose(Image.Transpose.FLIP_TOP_BOTTOM),
    5: lambda image: image.rotate(90, expand=True).transpose(Image.Transpose.FLIP_TOP_BOTTOM),
    6: lambda image: image.rotate(90, expand=True),
    7: lambda image: image.rotate(270, expand=True).transpose(Image.Transpose.FLIP_TOP_BOTTOM),
    8: lambda image: image.rotate(270, expand=True),
}
"""How a camera held that way stores an upright scene."""


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_all_eight_orientations_are_set_upright(orientation: int, kind: str, tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored = UNTURN[orientation](quarters(960, 640))
    path = write(tmp_path / "turned", stored, kind, exif=exif)
    for max_px in (1280, 240):  # the second is decoded at a reduced size
        settings = ImageSettings(max_px=max_px)
        encoded = encode_picture(path, settings)
        look = look_at_picture(path, settings)
        wanted = quarters(960, 640).resize((min(960, max_px), min(960, max_px) * 2 // 3))
        assert (encoded.width_px, encoded.height_px) == (look.width_px, look.height_px) == wanted.size
        preview = decoded(base64.b64decode(look.placeholder.partition(",")[2]))
        for image in (decoded(encoded.data), preview):
            for place in ((0.2, 0.2), (0.8, 0.2), (0.2, 0.8), (0.8, 0.8)):
                assert near(pixel(image, *place), pixel(wanted, *place), 40)
    assert 0x0112 not in Image.open(io.BytesIO(encoded.data)).getexif()


def test_a_png_may_say_it_behind_its_pixels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    data = data_of(Image.new("RGB", (3600, 2400), RED), "PNG", exif=exif)
    start = data.index(b"eXIf") - 4
    chunk = data[start : start + 12 + int.from_bytes(data[start : start + 4], "big")]
    end = data.index(b"IEND") - 4
    path = write(tmp_path / "a.png", data[:start] + data[start + len(chunk) : end] + chunk + data[end:])
    encoded = encode_picture(path, SETTINGS)
    assert (encoded.width_px, encoded.height_px) == (853, 1280)
    # Nothing of a big PNG is decoded for a look.
    monkeypatch.delattr("PIL.ImageFile.ImageFile.load")
    assert look_at_picture(path, SETTINGS).height_px == 1280


def test_broken_exif_costs_nothing_but_itself(tmp_path: Path) -> None:
    data = data_of(quarters(), "JPEG", exif=b"Exif\0\0II*\0\xff\xff\xff\xffgarbage")
    assert encode_picture(write(tmp_path / "a.jpg", data), SETTINGS).width_px == 96


def test_no_metadata_is_passed_on(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x010F] = "SECRET CAMERA"
    exif.get_ifd(0x8825).update({1: "N", 2: (52.0, 31.0, 12.0), 3: "E", 4: (13.0, 24.0, 18.0)})
    path = write(tmp_path / "a.jpg", quarters(), "JPEG", exif=exif, comment=b"SECRET COMMENT", xmp=b"<SECRET/>")
    assert path.read_bytes().count(b"SECRET") == 3
    encoded = encode_picture(path, SETTINGS)
    assert b"SECRET" not in encoded.data
    image = Image.open(io.BytesIO(encoded.data))
    assert not image.getexif()
    assert not {"exif", "xmp", "icc_profile"} & set(image.info)


def transparent(mode: str) -> Image.Image:
    """Red on the left, see-through on the right."""
    image = Image.new("RGBA", (64, 64), (0, 0, 0, 0))
    image.paste((*RED, 255), (0, 0, 32, 64))
    if mode == "P":
        indexed = Image.new("P", (64, 64), 1)
        indexed.putpalette([*RED, 0, 0, 0])
        indexed.paste(0, (0, 0, 32, 64))
        indexed.info["transparency"] = 1
        return indexed
    if mode == "LA":
        grey = Image.new("LA", (64, 64), (0, 0))
        grey.paste((90, 255), (0, 0, 32, 64))
        return grey
    return image


@pytest.mark.parametrize(
    ("mode", "kind", "left"),
    [("RGBA", "PNG", RED), ("RGBA", "WEBP", RED), ("P", "PNG", RED), ("P", "GIF", RED), ("LA", "PNG", (90, 90, 90))],
)
def test_see_through_is_white_never_black(mode: str, kind: str, left: tuple[int, ...], tmp_path: Path) -> None:
    path = write(tmp_path / "a", transparent(mode), kind)
    for max_px in (1280, 32):
        image = decoded(encode_picture(path, ImageSettings(max_px=max_px)).data)
        assert near(pixel(image, 0.2, 0.5), left)
        assert near(pixel(image, 0.8, 0.5), WHITE, 6)
    # No grey seam where colour meets nothing: it must not mix with the black that hides behind alpha 0.
    assert min(max(pixel(image, x / 32, 0.5)) for x in range(20, 32)) > 240


def test_a_transparent_colour_is_white(tmp_path: Path) -> None:
    image = quarters()
    path = write(tmp_path / "a.png", image, "PNG", transparency=BLUE)
    assert near(pixel(decoded(encode_picture(path, SETTINGS).data), 0.2, 0.8), WHITE, 6)


def test_16_bit_is_scaled_not_clipped(tmp_path: Path) -> None:
    ramp = Image.new("I;16", (256, 32))
    for x in range(256):
        ramp.paste(x * 257, (x, 0, x + 1, 32))
    for kind in ("PNG", "TIFF"):
        image = decoded(encode_picture(write(tmp_path / kind, ramp, kind), SETTINGS).data)
        for x in (20, 128, 235):
            assert near(pixel(image, x / 256, 0.5), (x, x, x), 8)


@pytest.mark.parametrize("mode", ["I", "F"])
def test_deep_pictures_use_their_own_range(mode: str, tmp_path: Path) -> None:
    ramp = Image.linear_gradient("L").convert(mode).point(lambda value: value * 3.0 + 5.0)
    image = decoded(encode_picture(write(tmp_path / "a.tif", ramp, "TIFF"), SETTINGS).data)
    assert pixel(image, 0.5, 0.02)[0] < 16
    assert near(pixel(image, 0.5, 0.5), (128, 128, 128), 8)
    assert pixel(image, 0.5, 0.98)[0] > 240


@pytest.mark.parametrize("mode", ["1", "L", "P", "CMYK"])
def test_other_modes_keep_their_colours(mode: str, tmp_path: Path) -> None:
    path = write(tmp_path / "a.tif", quarters().convert(mode), "TIFF")
    image = decoded(encode_picture(path, SETTINGS).data)
    wanted = quarters().convert(mode).convert("RGB")
    for place in ((0.2, 0.2), (0.8, 0.2), (0.8, 0.8)):
        if mode != "1":  # dithered: only its flat white can be compared
            assert near(pixel(image, *place), pixel(wanted, *place), 30)
    assert near(pixel(image, 0.8, 0.8), WHITE)


def test_a_cmyk_jpeg_is_converted(tmp_path: Path) -> None:
    path = write(tmp_path / "print.jpg", quarters().convert("CMYK"), "JPEG", quality=95)
    image = decoded(encode_picture(path, SETTINGS).data)
    assert near(pixel(image, 0.2, 0.2), RED, 30)
    assert near(pixel(image, 0.8, 0.8), WHITE)


def test_colours_are_meant_as_the_profile_says(tmp_path: Path) -> None:
    plain = write(tmp_path / "plain.png", quarters(), "PNG")
    srgb = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    lab = ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB")).tobytes()  # does not fit an RGB picture
    without = decoded(encode_picture(plain, SETTINGS).data).tobytes()
    for number, profile in enumerate((srgb, lab, b"not a profile")):
        tagged = write(tmp_path / f"{number}.png", quarters(), "PNG", icc_profile=profile)
        assert decoded(encode_picture(tagged, SETTINGS).data).tobytes() == without
    # sRGB under another name, its red and green primaries swapped: what says red means green.
    swapped = bytearray(srgb.replace(b"s\0R\0G\0B", b"x\0Y\0Z\0Q").replace(b"sRGB", b"xyzq"))
    table = swapped.index(b"rXYZ"), swapped.index(b"gXYZ")
    swapped[table[0] : table[0] + 4], swapped[table[1] : table[1] + 4] = b"gXYZ", b"rXYZ"
    odd = write(tmp_path / "odd.png", quarters(), "PNG", icc_profile=bytes(swapped))
    image = decoded(encode_picture(odd, SETTINGS).data)
    red, green, _ = pixel(image, 0.2, 0.2)
    assert green > red + 100


@pytest.mark.parametrize(
    ("size", "wanted"),
    [((3000, 1500), (1280, 640)), ((1500, 3000), (640, 1280)), ((50, 40), (50, 40)), ((4000, 1), (1280, 1))],
)
@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_the_long_side_is_bounded_and_nothing_is_enlarged(
    size: tuple[int, int], wanted: tuple[int, int], kind: str, tmp_path: Path
) -> None:
    path = write(tmp_path / "a", Image.new("RGB", size, RED), kind)
    encoded = encode_picture(path, SETTINGS)
    assert (encoded.width_px, encoded.height_px) == decoded(encoded.data).size == wanted


def test_a_reduced_decode_is_as_sharp_as_a_full_one(tmp_path: Path) -> None:
    image = Image.new("RGB", (2400, 1600), WHITE)
    draw = ImageDraw.Draw(image)
    for x in range(0, 2400, 60):
        draw.rectangle((x, 0, x + 29, 1600), fill=(0, 0, 0))
    path = write(tmp_path / "a.jpg", image, "JPEG", quality=95)
    bars = decoded(encode_picture(path, ImageSettings(max_px=600)).data)  # 15 px a bar pair
    row: list[Any] = [bars.convert("L").getpixel((x, 200)) for x in range(600)]
    assert min(row) < 20
    assert max(row) > 235


def test_the_preview_is_tiny_and_alike(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jpg", quarters(1200, 800))
    look, encoded = look_at_picture(path, SETTINGS), encode_picture(path, SETTINGS)
    for placeholder in (look.placeholder, encoded.placeholder):
        head, _, body = placeholder.partition(",")
        assert head == "data:image/webp;base64"
        assert len(placeholder) < 600
        assert decoded(base64.b64decode(body)).size == (16, 11)
    assert encode_picture(path, SETTINGS, look=look).placeholder == look.placeholder


def test_a_big_picture_without_a_reduced_decode_has_its_preview_later(tmp_path: Path) -> None:
    path = write(tmp_path / "a.png", Image.new("RGB", (4000, 2100), RED), "PNG")
    look = look_at_picture(path, SETTINGS)
    assert (look.width_px, look.height_px, look.placeholder) == (1280, 672, "")
    assert encode_picture(path, SETTINGS).placeholder.startswith("data:image/webp")


def test_an_animation_shows_its_first_frame(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (40, 30), color) for color in (RED, BLUE)]
    path = write(tmp_path / "a.gif", frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert near(pixel(decoded(encode_picture(path, SETTINGS).data), 0.5, 0.5), RED)


@settings(deadline=None, max_examples=200)
@given(
    kind=st.sampled_from(FORMATS),
    cut=st.integers(0, 2000),
    changes=st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), max_size=8),
)
def test_no_bytes_make_it_fall_over(
    tmp_path_factory: pytest.TempPathFactory, kind: str, cut: int, changes: list[tuple[int, int]]
) -> None:
    data = bytearray(data_of(quarters(40, 30), kind))
    for place, value in changes:
        data[place % len(data)] = value
    path = write(tmp_path_factory.getbasetemp() / "fuzz-picture", bytes(data[: len(data) - cut]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a decoder may mutter about what it skips
        for work in (look_at_picture, encode_picture):
            try:
                work(path, ImageSettings(max_pixels=1_000_000))
            except PictureRefused as refusal:
                assert refusal.reason  # noqa: PT017 - a refusal is as good as a picture here
