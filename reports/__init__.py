"""The record (results) of an audit, and the reports that are rendered from it.

``record`` has the result rows, their comparison and severity, and the files of a run. ``say`` has
the wording, ``documents`` the content of reports, and ``writers`` the output formats.
"""
