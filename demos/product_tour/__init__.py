"""The product tour: a page that streams a narrated tour of a catalogue."""
