/* cuda_maps.c - tensor maps: the driver's description of an array that the copy engine reads.
 *
 * The engine wants a base and strides of multiples of 16 bytes and extents of at least 1: where a
 * pointer or a size is otherwise the map does not fit, and another code of the stage is launched.
 */
#include "runtime/cuda_driver.h"

enum { MAP_ALIGN = 16, INTERLEAVE_NONE = 0, PROMOTE_256 = 3, FILL_ZEROS = 0 };

static int element_kind(size_t bytes, bool rounds) { /* unsigned integers: the engine moves bits */
  const int tf32 = 11;
  if (rounds) return tf32;
  return bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 4;
}

static int swizzle_kind(int bytes) {
  return bytes >= 128 ? 3 : bytes >= 64 ? 2 : bytes >= 32 ? 1 : 0;
}

spc_status rt_cuda_map(rt_cuda *cuda, const ir_box_map *map, const int64_t *sizes, void *device,
                       spc_tensor_map *out, bool *fits) {
  unsigned long long extent[IR_MAP_RANK], stride[IR_MAP_RANK];
  unsigned box[IR_MAP_RANK], step[IR_MAP_RANK];
  int64_t bytes = (int64_t)ir_dtype_bytes(map->dtype), value;
  *fits = device && (uintptr_t)device % MAP_ALIGN == 0;
  for (int d = 0; d < map->rank && *fits; d++) {
    *fits = ir_size_value(map->extent[d], sizes, &value) && value > 0 && value <= UINT32_MAX;
    extent[d] = (unsigned long long)value;
    box[d] = (unsigned)map->box[d];
    step[d] = 1;
    if (d == 0 || !*fits) continue;
    *fits = ir_size_value(map->stride[d], sizes, &value) && value > 0 &&
            value * bytes % MAP_ALIGN == 0 && value * bytes < (int64_t)1 << 40;
    stride[d - 1] = (unsigned long long)(value * bytes);
  }
  if (!*fits) return SPC_OK;
  return RT_CUDA(cuda, tensor_map, out, element_kind((size_t)bytes, map->rounds), (unsigned)map->rank, device,
                 extent, stride, box, step, INTERLEAVE_NONE, swizzle_kind(map->swizzle),
                 PROMOTE_256, FILL_ZEROS);
}
