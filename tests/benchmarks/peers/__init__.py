"""Other ways to fit the same four parameters, with the libraries that people would take."""
