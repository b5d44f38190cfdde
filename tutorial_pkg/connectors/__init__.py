"""The formats, one folder each: whoever follows the data walks through one folder."""
