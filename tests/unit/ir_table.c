/* Hash tables: things by name, numbers by address, names that nothing has. */
#include <criterion/criterion.h>

#include "ir/ir.h"

Test(ir_table, finds_what_was_added_and_not_what_was_removed) {
  ir_arena *a = ir_arena_new();
  ir_table table = {0};
  int things[300];
  cr_assert_null(ir_table_find(&table, "n0"));
  for (int i = 0; i < 300; i++)
    cr_assert(ir_table_add(a, &table, ir_format_text(a, "n%d", i), &things[i]));
  cr_assert_not(ir_table_add(a, &table, "n7", &things[8]), "the first one of a name stays");
  for (int i = 0; i < 300; i += 3) ir_table_remove(&table, ir_format_text(a, "n%d", i));
  for (int i = 0; i < 300; i++) {
    const void *found = ir_table_find(&table, ir_format_text(a, "n%d", i));
    cr_assert_eq(found, i % 3 ? &things[i] : NULL, "n%d", i);
  }
  cr_assert(ir_table_add(a, &table, "n0", &things[1]));
  cr_assert_eq(ir_table_find(&table, "n0"), &things[1]);
  ir_arena_free(a);
}

Test(ir_table, maps_addresses_to_numbers) {
  ir_arena *a = ir_arena_new();
  ir_map map = {0};
  int keys[500];
  cr_assert_eq(ir_map_find(&map, &keys[0], -7), -7);
  for (int i = 0; i < 500; i++) ir_map_set(a, &map, &keys[i], i);
  ir_map_set(a, &map, &keys[3], 33);
  for (int i = 0; i < 500; i++)
    cr_assert_eq(ir_map_find(&map, &keys[i], -1), i == 3 ? 33 : i, "%d", i);
  cr_assert_eq(ir_map_find(&map, &map, -1), -1);
  ir_arena_free(a);
}

Test(ir_table, fresh_names_take_the_least_number_that_is_free) {
  ir_arena *a = ir_arena_new();
  ir_kernel *k = ir_kernel_new(ir_program_new(a), "k");
  ir_map gone = {0};
  for (int i = 0; i < 4; i++) /* d d_2 d_3 d_4 */
    ir_tensor_new(k, ir_fresh_name(k, "d"), IR_ROLE_TEMP, IR_F32);
  cr_assert_str_eq(ir_fresh_name(k, "d"), "d_5");
  ir_index_new(k, "d_5", ir_int(a, 1));
  ir_dim_new(k->program, "d_6");
  cr_assert_str_eq(ir_fresh_name(k, "d"), "d_7");
  ir_map_set(a, &gone, ir_tensor_named(k, "d_3"), 0);
  ir_tensors_drop(k, &gone);
  cr_assert_eq(k->tensors.count, 3);
  cr_assert_null(ir_tensor_named(k, "d_3"));
  cr_assert_str_eq(ir_fresh_name(k, "d"), "d_3", "a name that was freed is taken again");
  ir_arena_free(a);
}
