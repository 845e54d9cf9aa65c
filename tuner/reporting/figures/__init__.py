"""The figures of the HTML pages: a module each, without a leading underscore."""
