"""The record of an audit and the reports that are rendered from it.

``record`` has the rows, their comparison and severity, and the files of a run; ``say`` the wording;
``documents`` the content of reports, the same for every writer; ``writers`` the output formats.
"""
