"""`nnefc profile`: times of launches as tables, pictures and trace events."""
