"""Files: containers and archives, tensor files, arrays, images, safetensors, JSON."""
