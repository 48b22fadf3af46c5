"""Samsung's nnpackage: a folder or zip archive of TensorFlow Lite models with a manifest."""
