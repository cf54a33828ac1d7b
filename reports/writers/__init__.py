"""The forms in which a document, a page or a record is written."""
