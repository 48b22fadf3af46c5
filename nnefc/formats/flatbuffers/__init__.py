"""FlatBuffers: tables read by a schema, and verified while they are read."""
