// boxes.cuh - loaders by tensor map: a k tile of both operands as boxes, into slabs laid out as in panel.cuh.
#pragma once
#include "spc/tma.cuh"

// One operand's share of a slot: slabs, a box each.  Where the rows are k a slab is 64 m or n wide, or 32 (slower)
// where slabs of 64 would leave too few slots; else it is 128 bytes of k's wide.  `width` in elements.
template <class Config, int Free, bool RowsAreK> struct spc_box_panel {
  static constexpr int element = (int)sizeof(typename Config::A);
  static constexpr int width = RowsAreK && Config::narrow_slabs && Free % 64 == 32 ? 32 : 128 / element;
  static constexpr int slabs = RowsAreK ? (Free + width - 1) / width : Config::tile_k / width;
  static constexpr int slab_bytes = (RowsAreK ? Config::tile_k : Free) * width * element, bytes = slabs * slab_bytes;
  static_assert(element == 2 || !RowsAreK, "8-bit operands must have k contiguous");
  static_assert(slab_bytes <= 256 * 128, "a box has at most 256 rows");

  SPC_DEVICE void load(spc_u32 to, const spc_tensor_map *map, spc_u32 full, int free, int k, spc_box_batch batch) {
#pragma unroll
    for (int s = 0; s < slabs; s++)
      ptx_tma_load<Config::batches_mapped>(to + s * slab_bytes, map, full, (RowsAreK ? free : k) + s * width,
                                           RowsAreK ? k : free, batch);
  }
};

template <class Config> struct spc_boxes {
  using a = spc_box_panel<Config, Config::tile_m, Config::layout_a == 'c'>;
  using b = spc_box_panel<Config, Config::tile_n, Config::layout_b == 'r'>;
  static constexpr int slot_bytes = a::bytes + b::bytes;
  static_assert(a::bytes % 1024 == 0 && b::bytes % 1024 == 0, "a panel must start at a multiple of 1024");
};
