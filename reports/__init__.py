"""The record of an audit, and its renderings, in four rooms.

``record`` holds rows, what is judged of them, and the files of a run; ``say`` the words;
``documents`` what is said, once for every writer; ``writers`` the forms in which it is written.
"""
