"""The roads between a stream and its viewers: a link, a scheduler for what it sends, a session over it."""
