"""Words, tables, figures, pages and folders for people."""
