// boxes.cuh - loaders by tensor map: a k tile of both operands as boxes, into slabs laid out as in panel.cuh.
#pragma once
#include "spc/tma.cuh"

// One operand's share of a slot: slabs, a box each.  Where the rows are k a slab is 64 m or n wide, or 32 (slower)
// where slabs of 64 would leave too few slots or load much in vain (cuda_boxes.c); else it is 128 bytes of k's wide.  `width` in elements.  An operand of 1 or 4
// bytes whose rows are k comes in boxes of 128 x 128 bytes; those that are turned (turned.cuh) are then read as one slab, 128
// bytes of k's wide.
template <class Config, class T, int Free, bool RowsAreK, int Batches> struct spc_box_panel {
  static constexpr int element = (int)sizeof(T);
  static constexpr int width = RowsAreK && Config::narrow_slabs && Free % 64 == 32 ? 32 : 128 / element;
  static constexpr bool turned = RowsAreK && element != 2;
  static constexpr int boxes = RowsAreK ? (Free + width - 1) / width : Config::tile_k / width;
  static constexpr int box_bytes = (RowsAreK ? Config::tile_k : Free) * width * element, bytes = boxes * box_bytes;
  static constexpr int slabs = turned ? 1 : boxes, slab_bytes = bytes / slabs; // as they are read
  static_assert(!turned || (Config::tile_k == width && Free % width == 0), "what is turned is whole boxes of 128 x 128 bytes");
  static_assert(box_bytes <= 256 * 128, "a box has at most 256 rows");

  SPC_DEVICE void load(spc_u32 to, const spc_tensor_map *map, spc_u32 full, int free, int k, spc_box_batch batch) {
    load_inside(boxes, to, map, full, free, k, batch);
  }
  // Boxes that begin inside, where `left` of the operand is left.  What lies in the place of others reaches no result, and the engine
  // takes longer to write zeros than to fetch.
  SPC_DEVICE int inside(int left) { return RowsAreK ? min(boxes, (left + width - 1) / width) : boxes; }
  SPC_DEVICE void load_inside(int count, spc_u32 to, const spc_tensor_map *map, spc_u32 full, int free, int k, spc_box_batch batch) {
#pragma unroll
    for (int s = 0; s < boxes; s++)
      if (!RowsAreK || s < count) ptx_tma_load<Batches>(to + s * box_bytes, map, full, (RowsAreK ? free : k) + s * width, RowsAreK ? k : free, batch);
  }
  // Of a panel whose halves are loaded for themselves: half number `half`, in boxes of 64.
  static constexpr int half_bytes = bytes / 2;
  SPC_DEVICE void load_half(spc_u32 to, const spc_tensor_map *map, spc_u32 full, int free, int k, int half) {
    static_assert(Free == 128 && width == 64, "a half is 64 rows, in boxes of 64 x 64");
    if constexpr (RowsAreK) ptx_tma_load<Batches>(to + half * box_bytes, map, full, free + half * 64, k, {{0, 0, 0}});
    else
#pragma unroll
      for (int s = 0; s < boxes; s++)
        ptx_tma_load<Batches>(to + s * box_bytes + half * 64 * 128, map, full, k + s * width, free + half * 64, {{0, 0, 0}});
  }
};

template <class Config> struct spc_boxes {
  using a = spc_box_panel<Config, typename Config::A, Config::tile_m, Config::layout_a == 'c', Config::batches_a>;
  using b = spc_box_panel<Config, typename Config::B, Config::tile_n, Config::layout_b == 'r', Config::batches_b>;
  static constexpr int brought_bytes = a::bytes + b::bytes, slot_bytes = a::bytes + Config::parts * b::bytes;
  static constexpr int least_bytes = Config::narrow > 0 ? a::bytes + b::bytes / Config::tile_n * Config::narrow : slot_bytes; // of a slot, where tiles may be narrow
  static_assert(a::bytes % 1024 == 0 && b::bytes % 1024 == 0, "a panel must start at a multiple of 1024");
};
