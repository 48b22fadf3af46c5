"""Documents to graphs: `read_model` opens a container and chooses the front end."""
