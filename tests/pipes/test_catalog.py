"""The catalogue pipe: a shop's own files, with everything that is wrong with them."""

from __future__ import annotations

import json
from contextlib import nullcontext
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multimodal.bench.real_catalogue import MAPPING, real_catalogue
from multimodal.demos.product_tour.tour import Settings, shop_tour
from multimodal.errors import UsageError
from multimodal.events import AnyEvent, CueMissed, Reveal
from multimodal.pipes.base import Describes, HasKeys, HasProducts, Wants
from multimodal.pipes.catalog import Catalog, CatalogImagePipe, RowProblem, load_catalog
from multimodal.pipes.images import ImageStore
from multimodal.sync.matcher import ProductNames
from multimodal.values import EncodedImage, ImageFailure
from tests.pipes.pictures import got, quarters, write
from tests.support import run


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A folder with `pictures` of a kettle (two), a mug and a lamp."""
    for number, name in enumerate(["kettle.jpg", "kettle-side.jpg", "Mug.JPG", "deep/lamp.webp"]):
        write(tmp_path / "pictures" / name, quarters(40 + number, 30), "WEBP" if name.endswith("webp") else "JPEG")
    (tmp_path / "pictures" / "notes.txt").touch()
    return tmp_path


def csv(shop: Path, text: str | bytes, name: str = "products.csv") -> Path:
    path = shop / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def load(shop: Path, text: str | bytes, **options: Any) -> Catalog:
    return load_catalog(csv(shop, text), shop / "pictures", **options)


def problems(catalog: Catalog) -> list[tuple[int, str]]:
    return [(problem.line, problem.reason) for problem in (*catalog.rejected, *catalog.warnings)]


PLAIN = """id,title,image,price,currency,description
kettle,Halo Kettle,kettle.jpg|kettle-side.jpg,"1,089.00",EUR,"Boils a litre
in ninety seconds, ""quietly""."
mug,Pebble Mug,mug.jpg,24.00 USD,,
"""


def test_reads_a_plain_csv(shop: Path) -> None:
    catalog = load(shop, PLAIN)
    assert problems(catalog) == []
    kettle, mug = catalog.products
    assert (kettle.id, kettle.title, kettle.price, kettle.currency) == (
        "kettle",
        "Halo Kettle",
        Decimal("1089.00"),
        "EUR",
    )
    assert kettle.description == 'Boils a litre\nin ninety seconds, "quietly".'
    assert (mug.price, mug.currency) == (Decimal("24.00"), "USD")
    assert [(p.key, p.path and p.path.name, p.product, p.alt) for p in catalog.pictures] == [
        ("kettle", "kettle.jpg", "kettle", "Halo Kettle"),
        ("kettle-2", "kettle-side.jpg", "kettle", "Halo Kettle"),
        ("mug", "Mug.JPG", "mug", "Pebble Mug"),
    ]
    assert [image.key for image in kettle.images] == ["kettle", "kettle-2"]


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbf" + PLAIN.encode(),
        PLAIN.replace("\n", "\r\n").encode(),
        PLAIN.encode("utf-16"),
        b"\n\n" + PLAIN.encode() + b"\n , ,\n",
        PLAIN.replace("kettle.jpg|kettle-side.jpg", '"kettle.jpg, kettle-side.jpg"').encode(),
    ],
)
def test_reads_it_however_it_was_saved(shop: Path, data: bytes) -> None:
    catalog = load(shop, data)
    assert [product.id for product in catalog.products] == ["kettle", "mug"]
    assert len(catalog.pictures) == 3
    assert problems(catalog) == []


@pytest.mark.parametrize("mark", [";", "\t"])
def test_reads_other_separators_and_decimal_commas(shop: Path, mark: str) -> None:
    rows = ["Artikel,SKU,Name,Bild URL,Price", "x,k1,Kettle,kettle.jpg,1.089", 'y,m1,Mug,mug.jpg,"24,50 €"']
    text = "\n".join(rows).replace('"24,50 €"', "\0").replace(",", mark).replace("\0", "24,50 €")
    catalog = load(shop, text, mapping={"image": "bild url"})
    assert [(p.id, p.price, p.currency) for p in catalog.products] == [
        ("k1", Decimal("1089"), ""),
        ("m1", Decimal("24.50"), "EUR"),
    ]


def test_an_old_encoding_is_read_and_named(shop: Path) -> None:
    catalog = load(shop, "id,title,image\nk,Caf\xe9 Kettle,kettle.jpg\n".encode("cp1252"))
    assert catalog.products[0].title == "Café Kettle"
    assert problems(catalog) == [(1, "encoding")]


@pytest.mark.parametrize(
    "header",
    [
        "Handle,Title,Image Src,Variant Price,Body (HTML),Vendor",
        "id,title,image_link,price,description,brand",
        "SKU,Name,Images,Regular price,Short description,Manufacturer",
        "  slug  ,name   ,assets ,price ,description   , vendor",
    ],
)
def test_headers_of_common_shop_systems_are_known(shop: Path, header: str) -> None:
    catalog = load(shop, f"{header}\nk,Kettle,kettle.jpg,5,<p>Boils &amp; <b>sings</b></p>,Larkmoor\n")
    product = catalog.products[0]
    assert (product.id, product.title, product.price, product.brand) == ("k", "Kettle", Decimal(5), "Larkmoor")
    assert product.description == "Boils & sings"
    assert product.images[0].source == "kettle.jpg"


def test_further_picture_columns_and_aliases(shop: Path) -> None:
    header = "id,title,image,additional_image_link,image2,alt,aliases"
    product = load(shop, f"{header}\nk,K,kettle.jpg,kettle-side.jpg,mug.jpg,Green,Pot|Can\n").products[0]
    assert [image.source for image in product.images] == ["kettle.jpg", "kettle-side.jpg", "mug.jpg"]
    assert {image.alt for image in product.images} == {"Green"}
    assert product.aliases == ("Pot", "Can")


def test_columns_of_facts_are_read_and_what_nobody_reads_is_named(shop: Path) -> None:
    header = "id,title,image,Material,made_in,Weight,Capacity,Power,includes,seo\n"
    rows = 'k,Kettle,k.jpg,brass,Wales,2.4,"1.6 litres",,"lid, spoon",buy\n'
    (shop / "shop.csv").write_text(header + rows)
    read = load_catalog(shop / "shop.csv")
    known = (("Material", "brass"), ("made_in", "Wales"), ("Capacity", "1.6 litres"))
    # A number alone is no weight.
    assert read.products[0].facts == known
    assert read.unread == ("includes", "seo")
    assert "not read: includes, seo; a column that holds a fact is named by --map facts=A+B" in read.report()
    asked = load_catalog(shop / "shop.csv", mapping={"facts": "Includes + weight"})
    assert set(asked.products[0].facts) == {*known, ("includes", "lid, spoon"), ("Weight", "2.4")}
    assert asked.unread == ("seo",)
    with pytest.raises(UsageError, match=r"no column 'care' for facts; .* has the columns id, title"):
        load_catalog(shop / "shop.csv", mapping={"facts": "weight+care"})


def test_rows_that_continue_a_product_fold_into_it(shop: Path) -> None:
    text = (
        "slug,name,assets,sku,price\n"
        "kettle,Kettle,kettle.jpg,K1,89\n"
        ",,,K2,99\n"
        "kettle,,kettle-side.jpg,K3,\n"
        "mug,Mug,mug.jpg,M1,24\n"
    )
    catalog = load(shop, text)
    assert problems(catalog) == []
    assert [(p.id, p.price, len(p.images)) for p in catalog.products] == [
        ("kettle", Decimal(89), 2),
        ("mug", Decimal(24), 1),
    ]


def test_behind_a_broken_row_only_a_row_that_names_its_product_belongs_to_it(shop: Path) -> None:
    text = (
        "slug,name,assets,price\n"  # 1
        "kettle,Kettle,kettle.jpg,89\n"  # 2
        "broken,Broken, one, comma, too many\n"  # 3
        ",,mug.jpg,\n"  # 4: of the broken row, in all likelihood
        "kettle,,kettle-side.jpg,\n"  # 5
        ",,lamp.webp,\n"  # 6
        "stool,,stool.jpg,50\n"  # 7: no title
        "stool,,mug.jpg,50\n"  # 8
        "mug,Mug,mug.jpg,24\n"  # 9
        ",,lamp.webp,\n"  # 10
    )
    catalog = load(shop, text)
    assert [(problem.line, problem.reason) for problem in catalog.rejected] == [
        (3, "malformed"),
        (4, "continues_left_out"),
        (7, "no_title"),
        (8, "continues_left_out"),
    ]
    assert [(p.id, [image.source for image in p.images]) for p in catalog.products] == [
        ("kettle", ["kettle.jpg", "kettle-side.jpg", "lamp.webp"]),
        ("mug", ["mug.jpg", "lamp.webp"]),
    ]


def test_whatever_a_person_reads_is_cleaned_of_html(shop: Path) -> None:
    rows = (
        ("id", "title", "image", "price", "brand", "alt", "aliases", "availability", "url"),
        (
            *("k", "Kettle &amp; <b>Pot</b>, H<sub>2</sub>O", "kettle.jpg", "&pound;5", "Lark&shy;moor&reg;"),
            *("A <i>kettle</i>", "Pot &amp; Pan|<p>Can</p>|<br>", "in&nbsp;stock", "https://shop.example/?a=1&copy=2"),
        ),
        ("m", "Mug < 5 cm, lid > 3 cm", "mug.jpg", "", "R&D", "", "", "", ""),
        ("l", "<!-- new --><br/>Lamp<br>of <SPAN class=x>oak</SPAN>", "lamp.webp", "", "", "", "", "", ""),
        ("e", "<br>", "mug.jpg", "", "", "", "", "", ""),
    )
    text = "".join("\t".join(row) + "\n" for row in rows)
    catalog = load(shop, text)
    kettle, mug, lamp = catalog.products
    assert kettle.title == "Kettle & Pot, H2O"
    assert (kettle.price, kettle.currency, kettle.brand) == (Decimal(5), "GBP", "Lark\u00admoor®")
    assert (kettle.images[0].alt, kettle.aliases) == ("A kettle", ("Pot & Pan", "Can"))
    assert (kettle.availability, kettle.url) == ("in_stock", "https://shop.example/?a=1&copy=2")
    assert (mug.title, mug.brand) == ("Mug < 5 cm, lid > 3 cm", "R&D")
    assert lamp.title == "Lamp of oak"
    assert [(problem.line, problem.reason) for problem in catalog.rejected] == [(5, "malformed")]


def test_bad_rows_are_named_by_line_and_fail_alone(shop: Path) -> None:
    text = (
        "id,title,image,price\n"  # 1
        ",,kettle.jpg,\n"  # 2: belongs to nothing
        "kettle,Kettle,kettle.jpg,89\n"  # 3
        "stool,,stool.jpg,50\n"  # 4: no title
        ",,stool2.jpg,\n"  # 5: shares the fate of 4
        "kettle,Second Kettle,mug.jpg,1\n"  # 6: same id
        ",,mug.jpg,\n"  # 7: shares the fate of 6
        "vase,Vase,,30\n"  # 8: no picture
        "clock,Clock,clock.jpg,soon\n"  # 9: a missing picture, and no price
        "bad,Bad, one, comma, too many\n"  # 10
        'open,Open,"lamp.webp,5\n'  # 11: a quotation mark is never closed
        "mug,Mug,mug.jpg,24\n"  # 12
    )
    catalog = load(shop, text)
    assert [product.id for product in catalog.products] == ["kettle", "vase", "clock", "mug"]
    assert [(problem.line, problem.reason) for problem in catalog.rejected] == [
        (2, "no_title"),
        (4, "no_title"),
        (5, "continues_left_out"),
        (6, "duplicate_id"),
        (7, "continues_left_out"),
        (10, "malformed"),
        (11, "malformed"),
    ]
    assert [(problem.line, problem.reason, problem.product) for problem in catalog.warnings] == [
        (8, "no_picture", "vase"),
        (9, "bad_price", "clock"),
        (9, "not_found", "clock"),
    ]
    assert "line 3 already (Kettle)" in catalog.duplicates[0].detail
    assert "line 7: left out, continues_left_out: it continues line 6, which was left out" in catalog.report()
    assert len(catalog.products[0].images) == 1
    assert catalog.products[2].price is None
    report = catalog.report(limit=3).splitlines()
    assert report[0] == "4 products, 2 of 3 pictures found"
    assert report[1].startswith("  line 2: left out, no_title: ")
    assert report[-1] == "  and 7 more"


def test_two_products_of_one_name_are_warned_of(shop: Path) -> None:
    text = (
        "id,title,aliases,image\n"
        "a,Harbour Mug,,kettle.jpg\n"
        "b,Harbour  MUG,,mug.jpg\n"  # other case and spacing make no other name
        "c,Harbour Plate,harbour mug|Dish,mug.jpg\n"
        "d-4,Bowl,Bowl,mug.jpg\n"  # both are its own
        "e,D-4,,mug.jpg\n"  # another's id, which is a code
        "f,a,,mug.jpg\n"  # another's id, which is a word
    )
    catalog = load(shop, text)
    assert len(catalog.products) == 6
    found = [(problem.line, problem.product) for problem in catalog.warnings if problem.reason == "shared_name"]
    assert found == [(3, "b"), (4, "c"), (6, "e")]
    assert "'Harbour  MUG' names both 'a' and 'b'; a model's tour cannot tell them apart" in catalog.report()
    # What is warned of is what is refused, by one rule.
    for count, refused in ((1, False), (2, True)):
        with pytest.raises(UsageError, match="names both 'a' and 'b'") if refused else nullcontext():
            ProductNames(catalog.products[:count])


def test_products_without_an_id_go_by_their_title(shop: Path) -> None:
    catalog = load(shop, "title,image\nHalo Kettle!,kettle.jpg\n水壶,mug.jpg\n")
    assert [product.id for product in catalog.products] == ["halo-kettle", "水壶"]


def test_keys_are_unique_even_where_an_id_looks_like_one(shop: Path) -> None:
    text = "id,title,image\nmug,Mug,mug.jpg|kettle.jpg|kettle-side.jpg\nmug-2,Other,lamp.webp\n"
    catalog = load(shop, text)
    assert [(p.key, p.product) for p in catalog.pictures] == [
        ("mug", "mug"),
        ("mug-3", "mug"),
        ("mug-4", "mug"),
        ("mug-2", "mug-2"),
    ]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("kettle.jpg", "kettle.jpg"),
        ("KETTLE.JPG", "kettle.jpg"),
        ("kettle.png", "kettle.jpg"),
        ("kettle", "kettle.jpg"),
        ("deep/lamp.webp", "deep/lamp.webp"),
        ("deep\\lamp.webp", "deep/lamp.webp"),
        ("lamp.webp", "deep/lamp.webp"),
        ("elsewhere/lamp.webp", "deep/lamp.webp"),
        ("pictures/kettle.jpg", "kettle.jpg"),  # from the catalogue's own folder
        ("https://shop.example/cdn/kettle.jpg?width=800", "kettle.jpg"),
        ("https://shop.example/cdn/kettle%2Dside.jpg", "kettle-side.jpg"),
        ("http://[broken/kettle.jpg", "kettle.jpg"),
        ("/etc/hostname", None),
        ("../secret.jpg", None),
        ("notes.txt", "notes.txt"),  # named outright: its content will be judged
        ("notes", None),
        ("x" * 5000, None),
        ("twice.jpg", None),
    ],
)
def test_pictures_are_found_by_name_and_never_outside(shop: Path, source: str, found: str | None) -> None:
    write(shop / "secret.jpg", quarters())
    for folder in ("one", "two"):
        write(shop / "pictures" / folder / "twice.jpg", quarters())
    catalog = load(shop, f"id,title,image\nk,K,{source}\n")
    (picture,) = catalog.pictures
    assert picture.path == (None if found is None else shop / "pictures" / found)
    assert (picture.problem[0] == "not_found") == (found is None)


def test_a_name_that_two_pictures_share_stands_for_neither(shop: Path) -> None:
    write(shop / "pictures" / "main.jpg", quarters())
    text = "id,title,image\na,A,https://x/1/main.jpg\nb,B,https://x/2/main.jpg\nc,C,main.png\n"
    catalog = load(shop, text)
    assert [picture.path for picture in catalog.pictures] == [None, None, None]
    assert "download it into" in catalog.pictures[0].problem[1]


@pytest.mark.parametrize(
    ("price", "reason"),
    [
        ("12-15 EUR", "price_range"),
        ("from 12 EUR", "price_range"),
        ("1e3", "bad_price"),
        ("5 XYZ", "bad_currency"),
        ("{amount: 5}", "bad_price"),
    ],
)
def test_a_doubtful_price_is_warned_of_and_not_guessed(shop: Path, price: str, reason: str) -> None:
    path = shop / "own.yaml"
    path.write_text(f"products:\n  - {{id: k, title: Kettle, price: {price}, images: [{{file: kettle.jpg}}]}}\n")
    catalog = load_catalog(path, shop / "pictures", currency="EUR")
    assert [warning.reason for warning in catalog.warnings] == [reason]
    assert catalog.products[0].price is None


def test_what_is_ambiguous_names_the_files(shop: Path) -> None:
    write(shop / "pictures" / "plate.jpg", quarters())
    write(shop / "pictures" / "sub" / "plate.png", quarters())
    (picture,) = load(shop, "id,title,image\na,A,plate.webp\n").pictures
    assert picture.path is None
    assert "ambiguous: plate.jpg, sub/plate.png in " in picture.problem[1]


@pytest.mark.parametrize("address", ["file:///tmp/gone.jpg", "s3://bucket/gone.jpg", "data:image/png;base64,AAAA"])
def test_other_schemes_are_refused_and_not_to_be_downloaded(shop: Path, address: str) -> None:
    catalog = load(shop, f"id|title|image\na|A|{address}\n".replace("|", "\t"))
    reason, detail = catalog.pictures[0].problem
    assert reason == "refused_address"
    assert f"scheme is {address.partition(':')[0]!r}" in detail
    assert "download" not in detail
    assert catalog.warnings[0].reason == "refused_address"


def test_without_a_folder_of_pictures_the_catalogues_own_is_used(shop: Path) -> None:
    write(shop / "near.jpg", quarters())
    path = csv(shop, "id,title,image\na,A,near.jpg\nb,B,pictures/kettle.jpg\nc,C,lamp.webp\n")
    assert [picture.path is not None for picture in load_catalog(path).pictures] == [True, True, False]
    based = load_catalog(path, base=shop / "pictures" / "deep")
    assert [picture.path is not None for picture in based.pictures] == [False, False, True]


@pytest.mark.parametrize(
    ("text", "options", "complaint"),
    [
        ("", {}, "is empty"),
        ('"id,title,image\n', {}, "begins with no row of column names"),
        ("id,price\n1,2\n", {}, "no column for the title.*id, price.*--map title=COLUMN"),
        ("id,title\n1,2\n", {}, "no column for the image"),
        ("id,title,image\n", {}, "no product in the catalogue"),
        ("id,title,image\n1,,x\n", {}, "no product in the catalogue.*line 2: a row without a title"),
        ("id,name,image\n1,a,x\n", {"mapping": {"title": "titel"}}, "no column 'titel' for title.*id, name, image"),
        ("id,name,image\n1,a,x\n", {"mapping": {"titel": "name"}}, "mapping names titel; the fields are id, title"),
        ("{", {}, "not valid JSON"),
        ("[]", {}, "needs the form"),
        ('{"products": {}}', {}, "needs the form"),
        ('{"products": []}', {}, "no product"),
        ('{"products": []}', {"mapping": {"title": "x"}}, "a mapping is for CSV"),
        (b"\x81\x8d\xff\n", {}, "not text in UTF-8"),
    ],
)
def test_refuses_what_is_no_catalogue(shop: Path, text: str | bytes, options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        load(shop, text, **options)


def test_refuses_missing_files_and_folders(shop: Path) -> None:
    path = csv(shop, PLAIN)
    (shop / "bare").mkdir()
    with pytest.raises(UsageError, match=r"cannot read the catalogue .*none\.csv: No such file"):
        load_catalog(shop / "none.csv")
    for folder, complaint in (("none", "no such folder of pictures"), ("bare", "no pictures in the folder")):
        with pytest.raises(UsageError, match=complaint):
            load_catalog(path, shop / folder)
    with pytest.raises(UsageError, match="no such folder of pictures"):
        load_catalog(path, base=shop / "none")
    with pytest.raises(UsageError, match="this catalogue is loaded"):
        CatalogImagePipe(load_catalog(path, shop / "pictures"), images=shop)


DOCUMENT: dict[str, Any] = {
    "shop": {"name": "Larkmoor", "language": "en", "currency": "EUR"},
    "products": [
        {
            "id": "kettle",
            "title": "Halo Kettle",
            "aliases": ["pot", 7, None],
            "price": "89.00",
            "availability": "in_stock",
            "brand": "Larkmoor",
            "images": [
                {"key": "kettle-hero", "file": "pictures/kettle.jpg", "alt": "A green kettle", "view": "hero"},
                {"file": "pictures/kettle-side.jpg"},
                {"key": "kettle-hero", "file": "pictures/Mug.JPG"},
                "pictures/deep/lamp.webp",
                {"key": "nothing"},
            ],
        },
        "nonsense",
        {"id": "free", "title": "Free", "price": 0.5, "images": None},
        {"id": "kettle", "title": "Again"},
    ],
}


def test_reads_our_own_json(shop: Path) -> None:
    catalog = load_catalog(csv(shop, json.dumps(DOCUMENT), "catalog.json"))
    assert (catalog.shop.name, catalog.shop.currency, catalog.unit) == ("Larkmoor", "EUR", "product")
    kettle, free = catalog.products
    assert (kettle.price, kettle.currency, kettle.aliases) == (Decimal("89.00"), "EUR", ("pot", "7"))
    assert [(p.key, p.alt, p.path is not None) for p in catalog.pictures] == [
        ("kettle-hero", "A green kettle", True),
        ("kettle-2", "Halo Kettle", True),
        ("kettle-4", "Halo Kettle", True),
    ]
    assert free.price == Decimal("0.5")
    assert catalog.rejected[0] == RowProblem(2, "malformed", "a str where a product should be", unit="product")
    assert problems(catalog) == [(2, "malformed"), (4, "duplicate_id"), (1, "duplicate_key"), (3, "no_picture")]
    assert "product 2: left out, malformed" in catalog.report()


async def everything(pipe: CatalogImagePipe) -> dict[str, EncodedImage | ImageFailure]:
    return {item.key: item async for item in pipe}


def test_the_pipe_gives_pictures_and_reasons(shop: Path) -> None:
    write(shop / "pictures" / "cut.jpg", b"")
    text = PLAIN + "cut,Cut,cut.jpg,1,,\ngone,Gone,gone.jpg,1,,\nbare,Bare,,1,,\n"
    pipe = CatalogImagePipe(csv(shop, text), images=shop / "pictures", store=ImageStore())
    for protocol in (HasKeys, Wants, Describes, HasProducts):
        assert isinstance(pipe, protocol)

    async def scenario() -> None:
        keys = ["kettle", "kettle-2", "mug", "cut", "gone"]
        assert pipe.keys() == keys
        assert [product.id for product in pipe.products] == ["kettle", "mug", "cut", "gone", "bare"]
        assert [asset.key for asset in await pipe.describe([*keys, "bare"])] == ["kettle", "kettle-2", "mug"]
        pipe.want([*keys, "bare", "zebra"], final=True)
        items = await everything(pipe)
        failures = {key: item.reason for key, item in items.items() if isinstance(item, ImageFailure)}
        assert failures == {"cut": "empty", "gone": "not_found", "bare": "no_picture", "zebra": "unknown_key"}
        kettle = got(items["kettle"])
        assert (kettle.product, kettle.alt, kettle.width_px) == ("kettle", "Halo Kettle", 40)

    run(scenario())


def test_a_plain_for_gives_the_catalogues_own_pictures(shop: Path) -> None:
    pipe = CatalogImagePipe(load(shop, PLAIN + "gone,Gone,gone.jpg,1,,\nbare,Bare,,1,,\n"))
    items = run(everything(pipe))
    assert list(items) == ["kettle", "kettle-2", "mug", "gone"]
    assert isinstance(items["gone"], ImageFailure)


@pytest.mark.parametrize("mapping", [None, MAPPING])
def test_a_real_shops_catalogue_is_read_as_it_is(mapping: dict[str, str] | None) -> None:
    path, images = real_catalogue()
    catalog = load_catalog(path, images, mapping=mapping)
    assert problems(catalog) == []
    assert len(catalog.products) == len(catalog.pictures) == 54
    assert all(product.price and product.description and product.title for product in catalog.products)
    laptop = catalog.products[0]
    assert (laptop.id, laptop.title, laptop.price) == ("laptop", "Laptop", Decimal("1299.00"))


def test_a_real_shops_pictures_are_prepared() -> None:
    path, images = real_catalogue()

    async def scenario() -> None:
        pipe = CatalogImagePipe(path, images=images)
        assets = {asset.key: asset for asset in await pipe.describe(pipe.keys())}
        items = await everything(pipe)
        assert list(items) == pipe.keys()
        assert len(items) == 54
        for key, item in items.items():
            picture = got(item)
            assert max(picture.width_px, picture.height_px) <= 1280
            assert len(picture.data) < 400_000
            assert (assets[key].width_px, assets[key].height_px) == (picture.width_px, picture.height_px)
            assert assets[key].placeholder == picture.placeholder

    run(scenario())


CELLS = st.sampled_from(
    ["", "id", "kettle", "Kettle", "kettle.jpg", '"', '""', ",", ";", "\t", "|", "\n", "\r\n", "\0", "é", "1,5"]
)


@settings(deadline=None)
@given(st.lists(CELLS, max_size=60).map("".join) | st.text())
def test_no_text_makes_the_catalogue_fall_over(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    folder = tmp_path_factory.getbasetemp() / "fuzz"
    folder.mkdir(exist_ok=True)
    path = folder / "products.csv"
    for head in ("id,title,image\nlamp,Lamp,lamp.jpg\n", ""):
        path.write_bytes((head + text).encode("utf-8", "surrogatepass"))
        try:
            catalog = load_catalog(path)
        except UsageError:
            continue
        assert len({product.id for product in catalog.products}) == len(catalog.products) > 0
        assert len({picture.key for picture in catalog.pictures}) == len(catalog.pictures)
        if head:
            assert catalog.products[0].title == "Lamp"


def test_a_real_shops_catalogue_is_toured() -> None:
    path, images = real_catalogue()
    tour = shop_tour(path, images, MAPPING)

    async def scenario() -> list[AnyEvent]:
        async with tour.stream(Settings(speed=60.0)) as stream:
            return [event async for event in stream]

    events = run(scenario())
    shown = [event for event in events if isinstance(event, Reveal)]
    assert [reveal.product for reveal in shown] == [product.id for product in tour.catalog.products]
    assert len(shown) == 54
    assert not any(isinstance(event, CueMissed) for event in events)
