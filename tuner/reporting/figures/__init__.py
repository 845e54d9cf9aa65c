"""The figures of the HTML pages, each with what to read in it."""
