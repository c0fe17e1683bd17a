/* passes_a_manager.c - switches, dumps, resuming, needs, reproducers. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/unit/passes_a_run.h"

static const char *const small =
    "spx 1; dim N: dyn; kernel t { in x: f32[N]; out y[i] = relu(relu(x[i])) * 1; } "
    "schedule t { dense y; } schedule t for sm_90 { dense y; }";

typedef struct log_book {
  char titles[512];
  int count;
} log_book;

static void keep(void *user, const char *title, const char *text) {
  log_book *book = user;
  (void)text;
  strncat(book->titles, title, sizeof book->titles - strlen(book->titles) - 1);
  strncat(book->titles, "; ", sizeof book->titles - strlen(book->titles) - 1);
  book->count++;
}

static a_run run_with(pass_options *options, log_book *book) {
  options->target = ir_target_find("cpu");
  options->print = keep;
  options->print_user = book;
  return a_run_with(small, options);
}

Test(manager, finds_passes_by_name) {
  for (int i = 0; i < pass_row_count; i++) {
    cr_expect_eq(pass_find(pass_rows[i].name), &pass_rows[i]);
    if (i > 0) cr_expect_lt(pass_rows[i - 1].number, pass_rows[i].number);
  }
  cr_expect_null(pass_find("nothing"));
}

Test(manager, prints_what_was_asked_for) {
  log_book book = {{0}, 0};
  pass_options options = {
      .passes = "canon,propagate,permute", .print_before = "canon", .print_after = "permute"};
  a_run run = run_with(&options, &book);
  cr_assert_eq(run.status, SPC_OK, "%s", a_rendered(&run));
  cr_expect_str_eq(book.titles, "before canon (10); after permute (30); ");
  a_free(&run);
}

Test(manager, prints_after_change_only) {
  log_book book = {{0}, 0};
  pass_options options = {.passes = "canon,propagate,permute,fuse", .print_after_change = true};
  a_run run = run_with(&options, &book);
  cr_expect_not_null(strstr(book.titles, "after canon"), "%s", book.titles);
  cr_expect_null(strstr(book.titles, "after fuse"), "%s", book.titles);
  a_free(&run);
}

Test(manager, stops_and_resumes) {
  log_book book = {{0}, 0};
  pass_options first = {.stop_after = "permute", .print_after = "all"};
  a_run run = run_with(&first, &book);
  cr_assert_eq(run.status, SPC_OK, "%s", a_rendered(&run));
  cr_expect_eq(run.program->after, 30);
  cr_expect_eq(book.count, 5);
  log_book rest = {{0}, 0};
  pass_options second = {.target = ir_target_find("cpu"),
                         .stop_after = "fuse",
                         .print_after = "all",
                         .print = keep,
                         .print_user = &rest};
  cr_expect_eq(pass_pipeline(run.program, &second, run.sink), SPC_OK);
  cr_expect_str_eq(rest.titles, "after fuse (40); ");
  a_free(&run);
}

Test(manager, a_dump_resumes_where_it_was_made) {
  pass_options first = {.target = ir_target_find("cpu"), .stop_after = "propagate"};
  a_run run = a_run_with(small, &first);
  cr_assert_eq(run.status, SPC_OK, "%s", a_rendered(&run));
  ir_text text = ir_text_new(run.arena);
  ir_program *again = NULL;
  ir_print(run.program, &text);
  cr_assert_eq(ir_parse(run.arena, "dump", text.data, text.length, run.sink, &again), SPC_OK, "%s",
               a_rendered(&run));
  cr_expect_eq(again->after, 20);
  log_book book = {{0}, 0};
  pass_options rest = {.target = ir_target_find("cpu"),
                       .stop_after = "fuse",
                       .print_after = "all",
                       .print = keep,
                       .print_user = &book};
  cr_expect_eq(pass_pipeline(again, &rest, run.sink), SPC_OK, "%s", a_rendered(&run));
  cr_expect_str_eq(book.titles, "after permute (30); after fuse (40); ");
  a_free(&run);
}

Test(manager, refuses_unknown_names_and_unmet_needs) {
  static const struct {
    pass_options options;
    const char *code;
  } cases[] = {{{.passes = "canon,propagat"}, "E0602"},
               {{.stop_after = "here"}, "E0602"},
               {{.print_after = "canon,every"}, "E0602"},
               {{.passes = "fuse"}, "E0603"},
               {{.disable = "propagate", .stop_after = "fuse"}, "E0603"}};
  for (int i = 0; i < IR_COUNT(cases); i++) {
    pass_options options = cases[i].options;
    options.target = ir_target_find("cpu");
    a_run run = a_run_with(small, &options);
    cr_expect_eq(run.status, SPC_INVALID_ARGUMENT, "case %d", i);
    cr_expect(a_says(&run, cases[i].code), "case %d: %s", i, a_rendered(&run));
    a_free(&run);
  }
}

Test(manager, times_passes) {
  log_book book = {{0}, 0};
  pass_options options = {.passes = "canon,propagate", .time_report = true};
  a_run run = run_with(&options, &book);
  cr_expect_str_eq(book.titles, "time; ");
  a_free(&run);
}

Test(manager, chooses_the_schedule_of_the_target) {
  pass_options options = {.target = ir_target_find("sm_90a"), .passes = "canon"};
  a_run run = a_run_with(small, &options);
  cr_assert_eq(run.status, SPC_OK, "%s", a_rendered(&run));
  cr_expect_str_eq(run.kernel->schedule->target, "sm_90");
  a_free(&run);
  options.target = ir_target_find("cpu");
  run = a_run_with(small, &options);
  cr_expect_null(run.kernel->schedule->target);
  a_free(&run);
  options.ignore_schedule = true;
  run = a_run_with(small, &options);
  cr_expect_null(run.kernel->schedule);
  a_free(&run);
}

/* A defect is planted between two passes: the second one's verifier finds it. */
Test(manager, a_defect_leaves_a_reproducer) {
  char folder[] = "/tmp/spc-repro-XXXXXX";
  cr_assert_not_null(mkdtemp(folder));
  pass_options options = {.target = ir_target_find("cpu"),
                          .passes = "canon,propagate",
                          .reproducer_dir = folder,
                          .verify_each = true};
  a_run run = a_run_passes(small, "");
  pass_manager m;
  cr_assert_eq(pass_manager_open(&m, run.program, &options, run.sink), SPC_OK);
  cr_assert_eq(pass_manager_run(&m, "canon"), SPC_OK);
  run.kernel->stmts.at[0]->cond = ir_int(run.arena, 1);
  cr_expect_eq(pass_manager_run(&m, "propagate"), SPC_INTERNAL);
  const char *text = a_rendered(&run), *at = strstr(text, folder);
  cr_assert_not_null(at, "%s", text);
  char path[256] = {0};
  memcpy(path, at, strcspn(at, "\n"));
  FILE *file = fopen(path, "r");
  cr_assert_not_null(file, "%s", path);
  char content[4096] = {0};
  cr_expect_gt(fread(content, 1, sizeof content - 1, file), 0);
  cr_expect(ir_looks_like_ir(content, strlen(content)));
  cr_expect_not_null(strstr(content, "--passes=propagate"), "%s", content);
  ir_program *again = NULL;
  cr_expect_eq(ir_parse(run.arena, path, content, strlen(content), run.sink, &again),
               SPC_INVALID_INPUT);
  fclose(file);
  remove(path);
  rmdir(folder);
  a_free(&run);
}
