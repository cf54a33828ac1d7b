"""The record of an audit, and its renderings.

From below: ``rows``, ``say`` and ``document``; ``section`` and what judges it (``leaks``,
``severity``, ``usefulness``, ``next_step``, ``glance``, ``comparison``); what builds documents
(``system_document``, ``report_document``, ``catalogue``) and drawings (``charts``, ``figures``);
the writers (``terminal``, ``html``, ``markdown``, ``sarif``, ``junit``, ``files``); ``store`` and
``record``, which save by all writers.
"""
