"""Results as people read them: tables, and HTML pages that stand alone."""
