/* cuda_restore.c - cubins that were made before become an image again, without NVRTC.
 *
 * Launches are derived from the stages anew, as a compile derives them; cg_launch_text is all that
 * a cubin relies on, so that its digest tells whether another library would launch it in the same
 * way. */
#include "codegen/cuda.h"
#include "codegen/embedded.h"

static const ir_piece *piece_named(const ir_piece *pieces, int count, const char *name) {
  for (int i = 0; i < count; i++)
    if (!strcmp(pieces[i].name, name)) return &pieces[i];
  return NULL;
}

spc_status cg_cuda_restore(ir_arena *arena, const ir_kernel *kernel, const cg_options *options,
                           const ir_piece *pieces, int count, ir_sink *sink, ir_image **out) {
  ir_image *image;
  *out = NULL;
  SPC_TRY(cg_cuda_emit(arena, kernel, options, sink, &image));
  for (int i = 0; i < image->codes.count; i++) {
    ir_code_image *code = &image->codes.at[i];
    if (code->library) continue;
    const ir_piece *piece = piece_named(pieces, count, cg_code_name(arena, image, i));
    if (!piece) {
      ir_diag_add(sink, IR_DIAG_CUDA_RUN, IR_NOWHERE, "there is no code of `%s`", code->entry);
      return SPC_INVALID_INPUT;
    }
    void *copy = ir_alloc(arena, piece->bytes + 1);
    memcpy(copy, piece->data, piece->bytes);
    code->cubin = copy;
    code->cubin_bytes = piece->bytes;
    image->cached++;
  }
  *out = image;
  return SPC_OK;
}

/* ---- what a cubin relies on ------------------------------------------------------------------ */
static void put_size(ir_text *text, const ir_expr *size) {
  ir_text_put(text, " ");
  if (size)
    ir_print_expr(size, text);
  else
    ir_text_put(text, "-");
}

static void put_map(ir_text *text, const ir_box_map *map) {
  ir_text_printf(text, "map %d %s%s %d %d", map->buf, ir_dtype_text(map->dtype),
                 map->rounds ? " rounded" : "", map->rank, map->swizzle);
  for (int i = 0; i < IR_MAP_RANK; i++) {
    ir_text_printf(text, " %d", map->box[i]);
    put_size(text, map->extent[i]);
    put_size(text, map->stride[i]);
  }
  ir_text_put(text, "\n");
}

const char *cg_launch_text(ir_arena *arena, const ir_code_image *code) {
  ir_text text = ir_text_new(arena);
  ir_text_printf(&text, "%s %s %s threads %d blocks %d by %d shared %d%s%s%s\ngrid", cg_embedded_digest,
                 code->label, code->entry, code->threads, code->blocks_per_sm, code->cluster, code->shared_bytes,
                 code->capped ? " capped" : "", code->evenly ? " evenly" : "", code->stands_in ? " stands in" : "");
  for (int i = 0; i < 3; i++) put_size(&text, code->grid[i]);
  ir_text_put(&text, "\nbuffers");
  for (int i = 0; i < code->bufs.count; i++) ir_text_printf(&text, " %s", code->bufs.at[i]->name);
  ir_text_put(&text, "\n");
  for (int i = 0; i < code->maps.count; i++) put_map(&text, &code->maps.at[i]);
  ir_text_put(&text, code->source ? code->source : "");
  return text.data;
}
