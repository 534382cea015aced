"""Tables of text, and how numbers and units are written."""
