"""Rows of a catalogue folded into products: what belongs together, what is left out and why. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import datetime

import msgspec

from multimodal.pipes.feed import Feed
from multimodal.pipes.feed_products import Draft, Judge, RowProblem
from multimodal.pipes.feed_rows import FeedRow, FeedVariant, Offer
from multimodal.pipes.price import uses_decimal_comma
from multimodal.values import Product

__all__ = ["Fold", "RowProblem"]


class Fold:
    """Takes rows in the order of the files; `products` gives what they make.

    Args:
        now: for sale prices that hold between two dates.
        currency: ISO 4217 code of prices that name none, where the file names none either.
    """

    def __init__(self, now: datetime, currency: str = "") -> None:
        self.now, self._currency = now, currency
        self.count = 0
        """How many rows were taken."""
        self._decimal_comma = False
        self._drafts: dict[str, Draft] = {}
        self._named: dict[str, Draft | None] = {}  # what other rows may call a product; None = it was left out
        self._orphans: list[tuple[FeedRow, str]] = []
        self._current: Draft | None = None
        self._above = ""  # id of the row above, taken or not: its variants share its fate
        self._left_out = 0  # its line, where it was left out
        self._hidden = False  # and that it was so on purpose
        self._unit, self._file, self._table = "line", "", True
        self._units: dict[str, str] = {}
        self.rejected: list[RowProblem] = []
        self.warnings: list[RowProblem] = []
        self.unpublished: list[RowProblem] = []

    def begin(self, feed: Feed, file: str) -> None:
        """Rows of this file come next; rows of a table may continue the one above, those of other formats do not."""
        self._unit, self._file, self._table = feed.unit, file, feed.format in {"csv", "woocommerce-csv"}
        self._units[file] = feed.unit
        self._current, self._above, self._left_out, self._hidden = None, "", 0, False

    def note(self, line: int, reason: str, detail: str, product: str = "") -> None:
        """Warn of something in the file of which rows are taken."""
        self.warnings.append(self._problem(line, reason, detail, product))

    def _problem(self, line: int, reason: str, detail: str, product: str = "", file: str | None = None) -> RowProblem:
        where = self._file if file is None else file
        return RowProblem(line, reason, detail, product, where, self._units.get(where, "line"))

    def add(self, row: FeedRow) -> None:
        """Take the next row."""
        self.count += 1
        if not self._decimal_comma:
            self._decimal_comma = uses_decimal_comma(_prices(row))
        if row.broken:
            self.reject(row, "malformed", row.broken)
        elif row.unpublished:
            self._hide(row)
        elif row.parent:
            self._attach(row, self._file)
        elif row.group and row.variant is not None and row.title:
            self._grouped(row, row.variant)
        elif row.title:
            self._begin(row, row.id or _slug(row.title))
        elif self._table and self._above and row.id in {"", self._above}:
            self._continue(row)
        else:
            below = ", and no product above that it belongs to" if self._table else ""
            self.reject(row, "no_title", f"a {'row' if self._table else self._unit} without a title{below}")

    def reject(self, row: FeedRow, reason: str, detail: str) -> None:
        """Leave a row out, and with it those that continue it."""
        self.rejected.append(self._problem(row.line, reason, detail))
        self._left_out, self._hidden = row.line, False
        if row.id or not row.broken:
            self._current = None
        self._above = row.id or self._above

    def unreadable(self, file: str, detail: str) -> None:
        """A whole file could not be read, or not to its end."""
        self.rejected.append(self._problem(1, "malformed", detail, file=file))

    def _hide(self, row: FeedRow) -> None:
        self.unpublished.append(self._problem(row.line, "unpublished", row.unpublished))
        self._named.update(dict.fromkeys((*row.names, row.id or _slug(row.title))))
        self._left_out, self._hidden, self._current = row.line, True, None
        self._above = row.id or self._above

    def _continue(self, row: FeedRow) -> None:
        # Behind a broken row, whose id nobody knows, only a row that names its product is sure to belong to it.
        if self._current is None or (self._left_out and not row.id):
            detail = f"it continues {self._unit} {self._left_out}, which was left out"
            kept = self.unpublished if self._hidden else self.rejected
            reason = "unpublished" if self._hidden else "continues_left_out"
            kept.append(self._problem(row.line, reason, detail))
            return
        self._left_out = 0
        self._gather(self._current, row)
        if row.variant is not None:
            draft = self._current
            known = draft.own is not None and draft.own.id == row.variant.id
            # Shops give two rows of a product one SKU; in a table that makes them no less two choices.
            twice = known or row.variant.id in draft.variants
            self._choose(draft, row, msgspec.structs.replace(row.variant, id="") if twice else row.variant)

    def _begin(self, row: FeedRow, key: str) -> None:
        first = self._drafts.get(key)
        if first is not None and not (first.implied and not row.group):
            where = f"{first.unit} {first.line}{' of ' + first.file if first.file != self._file else ''}"
            detail = f"the id {key!r} ({row.title}) stands in {where} already ({first.row.title})"
            self.reject(row, "duplicate_id", detail)
            self._above = key
            return
        if first is not None:
            first.row, first.implied = row, False
        draft = first or Draft(row, self._unit, self._file)
        self._current = self._drafts[key] = draft
        self._above, self._left_out = key, 0
        self._named.update(dict.fromkeys((*row.names, key), draft))
        self._gather(draft, row)
        draft.own = row.variant if not row.group else None
        for variant in row.variants:
            self._choose(draft, row, variant)
        if "\ufffd" in row.title or "\ufffd" in row.description:
            self.note(row.line, "encoding", f"{row.title!r} holds the mark of letters that were lost", key)

    def _grouped(self, row: FeedRow, variant: FeedVariant) -> None:
        draft = self._drafts.get(row.group)
        if draft is None:
            self._begin(msgspec.structs.replace(row, id="", offer=Offer(), availability=""), row.group)
            draft = self._drafts[row.group]
            draft.implied = True
        self._gather(draft, row)
        self._choose(draft, row, variant)

    def _attach(self, row: FeedRow, file: str) -> None:
        """A choice of a product that it names; one that comes before its product waits for it."""
        draft = self._named.get(row.parent, self)
        if draft is self:
            self._orphans.append((row, file))
        elif isinstance(draft, Draft) and row.variant is not None:
            self._gather(draft, row)
            listed = [name for name in (row.variant.id, *(name.removeprefix("id:") for name in row.names)) if name]
            known = next((draft.variants.pop(name) for name in listed if name in draft.variants), None)
            options = row.variant.options or (known.options if known else ())
            self._choose(draft, row, msgspec.structs.replace(row.variant, options=options))
        else:
            detail = f"it belongs to {row.parent}, which the shop does not show"
            self.unpublished.append(self._problem(row.line, "unpublished", detail, file=file))

    def _choose(self, draft: Draft, row: FeedRow, variant: FeedVariant) -> None:
        key = variant.id or f"{row.line}.{len(draft.variants)}"
        if key in draft.variants or (draft.own is not None and variant.id and draft.own.id == variant.id):
            detail = f"{draft.row.title} has the choice {variant.id!r} already"
            self.rejected.append(self._problem(row.line, "duplicate_id", detail))
            return
        draft.variants[key] = variant

    def _gather(self, draft: Draft, row: FeedRow) -> None:
        for picture in row.pictures:
            known = draft.pictures.setdefault(picture.source, picture)
            if picture.key and picture.key != known.key:  # one file under two names
                draft.pictures[f"{picture.source}\0{picture.key}"] = picture

    def settle(self) -> None:
        """All rows were read: those that still wait for their product are given up."""
        waiting, self._orphans = self._orphans, []
        for row, file in waiting:
            if row.parent in self._named:
                self._attach(row, file)
            else:
                detail = f"it is a choice of {row.parent}, which is not there"
                self.rejected.append(self._problem(row.line, "no_parent", detail, file=file))

    def sources(self) -> set[str]:
        """Every picture that the products name."""
        return {picture.source for draft in self._drafts.values() for picture in draft.pictures.values()}

    def products(self, currency: str) -> Iterator[tuple[Product, RowProblem]]:
        """The products in order, each with where it stands: a problem that has no reason yet.

        Args:
            currency: what the files say of prices that name none.
        """
        judge = Judge(self, set(self._drafts), currency or self._currency, decimal_comma=self._decimal_comma)
        for key in list(self._drafts):
            draft = self._drafts.pop(key)  # so that rows and products are not all held at once
            where = RowProblem(draft.line, "", "", key, draft.file, draft.unit)
            yield judge.product(key, draft, where), where

    def warn(self, where: RowProblem, reason: str, detail: str) -> None:
        """Warn of something about a product."""
        self.warnings.append(msgspec.structs.replace(where, reason=reason, detail=detail))


def _prices(row: FeedRow) -> Iterable[str]:
    yield row.offer.price
    yield row.offer.sale_price
    for variant in (*row.variants, *((row.variant,) if row.variant else ())):
        yield variant.offer.price


def _slug(title: str) -> str:
    return re.sub(r"\W+", "-", title.casefold()).strip("-") or title
