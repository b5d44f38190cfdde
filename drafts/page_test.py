def test_the_page_on_formats_has_every_promise_as_it_is() -> None:
    """Else it was made by an earlier kit: run `make conformance`."""
    page = (Path(__file__).parents[3] / "docs" / "conformance.md").read_text()
    for promise in PROMISES:
        assert f"| **{promise.name}**: {promise.sentence} |" in page
