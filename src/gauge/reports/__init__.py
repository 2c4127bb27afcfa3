"""Results as people read them: one self-contained HTML page."""
