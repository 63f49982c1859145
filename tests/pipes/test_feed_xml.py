"""Google Merchant feeds in XML: RSS and Atom, what shops get wrong in them, and what is an attack."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from multimodal.errors import UsageError
from tests.pipes.feeding import load, one, rejected

RSS = '<?xml version="1.0"?><rss xmlns:g="http://base.google.com/ns/1.0"><channel><title>Shop</title>{}</channel></rss>'
PRICED = "<g:price>15.00 USD</g:price><g:sale_price>12.50 USD</g:sale_price>"


def item(*fields: str, code: str = "k") -> str:
    return f"<item><g:id>{code}</g:id><title>Kettle</title><g:image_link>https://x/{code}.jpg</g:image_link>{''.join(fields)}</item>\n"


def test_an_rss_item_with_all_its_fields(tmp_path: Path) -> None:
    fields = (
        "<link>https://shop.example/?a=1&amp;b=2</link><g:brand>Lark &amp; Moor</g:brand>",
        "<description><![CDATA[<p>Boils <b>fast</b>.</p><script>alert(1)</script><style>p{}</style>]]></description>",
        "<g:additional_image_link>https://x/2.jpg</g:additional_image_link>",
        "<g:additional_image_link>//x/3.jpg</g:additional_image_link>",
        "<g:availability>out of stock</g:availability><g:color>green</g:color>",
        "<g:shipping><g:price>9.99 USD</g:price></g:shipping><g:price>15.00 USD</g:price>",
        "<g:product_detail><g:attribute_name>Hob</g:attribute_name><g:attribute_value>gas</g:attribute_value>"
        "</g:product_detail>",
    )
    catalog = load(tmp_path, RSS.format(item(*fields)))
    (product,) = catalog.products
    assert (catalog.format, catalog.shop.name, catalog.rejected) == ("google", "Shop", ())
    assert (product.id, product.title, product.brand) == ("k", "Kettle", "Lark & Moor")
    assert (product.price, product.currency, product.availability) == (Decimal("15.00"), "USD", "out_of_stock")
    assert product.description == "Boils fast."
    assert product.url == "https://shop.example/?a=1&b=2"
    assert [image.source for image in product.images] == ["https://x/k.jpg", "https://x/2.jpg", "https://x/3.jpg"]
    assert product.facts == (("color", "green"), ("Hob", "gas"))


@pytest.mark.parametrize(
    ("dates", "price"),
    [
        ("", "12.50"),
        ("2026-05-01T00:00+0100/2026-07-01T00:00+0100", "12.50"),
        ("2026-05-01/2026-06-01", "12.50"),  # a last day is a whole day
        ("2026-07-01T00:00Z/2026-08-01T00:00Z", "15.00"),
        ("2025-01-01/2025-02-01", "15.00"),
        ("/2025-02-01", "15.00"),
        ("soon/later", "12.50"),
    ],
)
def test_a_sale_price_holds_between_its_dates(tmp_path: Path, dates: str, price: str) -> None:
    field = f"<g:sale_price_effective_date>{dates}</g:sale_price_effective_date>"
    assert one(tmp_path, RSS.format(item(PRICED, field))).price == Decimal(price)


def test_items_of_one_group_are_one_product(tmp_path: Path) -> None:
    group = "<g:item_group_id>kettle</g:item_group_id>"
    rows = [
        item(group, "<g:color>green</g:color><g:price>20 EUR</g:price>", code="k1"),
        item("<g:price>1 EUR</g:price>", code="other"),
        item(
            group, "<g:color>red</g:color><g:price>18 EUR</g:price><g:availability>in stock</g:availability>", code="k2"
        ),
        item(group, code="k2"),
    ]
    catalog = load(tmp_path, RSS.format("".join(rows)))
    assert rejected(catalog) == [(4, "duplicate_id")]
    kettle, other = catalog.products
    assert (kettle.id, other.id) == ("kettle", "other")
    assert (kettle.price, kettle.currency, kettle.availability) == (Decimal(18), "EUR", "in_stock")
    assert [(v.id, v.options, v.price, v.images) for v in kettle.variants] == [
        ("k1", (("color", "green"),), Decimal(20), ("kettle",)),
        ("k2", (("color", "red"),), Decimal(18), ("kettle-2",)),
    ]


def test_an_atom_entry_has_its_link_in_an_attribute_and_two_ids(tmp_path: Path) -> None:
    text = (
        '<feed xmlns="http://www.w3.org/2005/Atom" xmlns:s="http://base.google.com/ns/1.0" xmlns:c="urn:other">'
        "<title>Shop</title><entry><id>tag:1</id><title>Kettle</title><c:price>1 EUR</c:price>"
        '<link rel="self" href="https://x/feed"/><link href="https://x/kettle"/><s:id>k</s:id>'
        "<s:image_link>https://x/k.jpg</s:image_link><s:price>15 EUR</s:price></entry></feed>"
    )
    product = one(tmp_path, text)
    assert (product.id, product.url, product.price) == ("k", "https://x/kettle", Decimal(15))


@pytest.mark.parametrize(
    "data",
    [
        RSS.format(item("<g:brand>Café</g:brand>")).encode(),
        b"\xef\xbb\xbf" + RSS.format(item("<g:brand>Café</g:brand>")).encode(),
        ("\n\n" + RSS.format(item("<g:brand>Café</g:brand>"))).encode(),
        RSS.format(item("<g:brand>Café</g:brand>")).encode("utf-16"),
        RSS.replace('"1.0"?>', '"1.0" encoding="ISO-8859-1"?>', 1)
        .format(item("<g:brand>Café</g:brand>"))
        .encode("latin-1"),
        RSS.format(item("<g:brand>Café</g:brand>"))
        .replace(' xmlns:g="http://base.google.com/ns/1.0"', "")  # a prefix that nobody declares
        .encode(),
    ],
)
def test_it_is_read_however_it_was_saved(tmp_path: Path, data: bytes) -> None:
    assert one(tmp_path, data).brand == "Café"


def test_what_comes_before_a_fault_is_kept_and_the_fault_is_named(tmp_path: Path) -> None:
    catalog = load(tmp_path, RSS.format(item() + item("<g:brand>A & B</g:brand>", code="m") + item(code="n")))
    assert [product.id for product in catalog.products] == ["k"]
    assert rejected(catalog) == [(2, "malformed")]
    assert "not well-formed" in catalog.rejected[0].detail
    cut = load(tmp_path, RSS.format(item() + item(code="m")).partition("m.jpg")[0])
    assert ([product.id for product in cut.products], rejected(cut)) == (["k"], [(2, "malformed")])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            '<!DOCTYPE r [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]><rss><item><title>&b;</title></item></rss>',
            "entity &a;",
        ),
        (
            '<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]><rss><item><title>&x;</title></item></rss>',
            "entity &x;",
        ),
        ('<!DOCTYPE r [<!ENTITY % p SYSTEM "http://x/">%p;]><rss><item><title>a</title></item></rss>', "entity &p;"),
        ("<rss>" + "<a>" * 200_000, "nested more than 100 deep"),
        ("<rss><channel></channel></rss>", "no <item> or <entry>"),
        ("<rss><item><title>" + "x" * 17_000_000 + "</title></item></rss>", "more than 16 MiB"),
        ("<rss><item>" + "<a></a>" * 400_000 + "</item></rss>", "more than 16 MiB"),
        ("<rss><channel>", "not valid XML: line 1"),
        ("<svg><text>x</text></svg>", "no <item> or <entry>"),
    ],
)
def test_attacks_and_other_documents_are_refused(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        load(tmp_path, text)


def test_an_external_document_type_is_never_read(tmp_path: Path) -> None:
    (tmp_path / "x.dtd").write_text('<!ENTITY x "read">')
    text = f'<!DOCTYPE rss SYSTEM "file://{tmp_path}/x.dtd"><rss xmlns:g="x">{item("<g:brand>&x;</g:brand>")}</rss>'
    with pytest.raises(UsageError, match=r"no product|not valid XML"):
        load(tmp_path, text.replace("<title>Kettle</title>", "<title>&x;</title>"))
