"""Pages for a browser that hold all they need, obey nothing that a model or a data file says, and ask no server."""
