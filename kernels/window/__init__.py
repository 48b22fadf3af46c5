"""Windows over spatial dimensions, for channel-blocked or for row-major tensors.

Channel-blocked: `pooling` (its loops are in `pooling_tile` and `pooling_line`), `plane_reduction`
(whole planes, such as global average pooling), `upsample`.  Row-major: `sliding` with `taps`
(box, max_pool and padding), `sampling`, `grid_sample`, `roi`.
"""
