"""What an answer is made of, and how it stands in files. Knows neither how it was found nor how it is drawn."""
