/* Which launches are told that a dense branch stands in front of them, and which of them is the last (rt_launch_fronts). */
#include <criterion/criterion.h>
#include <math.h>

#include "runtime/run.h"

enum { BEHIND = SPC_FLAG_REPRODUCIBLE | SPC_FLAG_BEHIND, LAST = BEHIND | SPC_FLAG_LAST, NOT = SPC_FLAG_REPRODUCIBLE, CODES = 7 };

static ir_list list, other;
static const ir_stage makes = {.kind = IR_STAGE_DETECT}, computes = {.kind = IR_STAGE_COMPUTE};
/* Something before it; the front, the bits; the product, what stands in for it, the dense branch; another list's. */
static ir_code_image codes[CODES] = {{.stage = &computes},
                                     {.stage = &makes, .front = &list},
                                     {.stage = &makes, .behind = &list},
                                     {.stage = &computes, .behind = &list},
                                     {.stage = &computes, .behind = &list, .stands_in = true},
                                     {.stage = &computes, .behind = &list},
                                     {.stage = &computes, .behind = &other}};
static rt_launch launches[CODES];

static void tell(bool taken) {
  ir_image image = {.cuda = true};
  image.codes.at = codes, image.codes.count = CODES;
  rt_plan plan = {.image = &image};
  rt_launch_fronts(&plan, launches, taken);
}

static void all_there(void) {
  for (int i = 0; i < CODES; i++) launches[i] = (rt_launch){.args = {.flags = NOT}, .empty = codes[i].stands_in};
}

static void expect(const unsigned *flags) {
  for (int i = 0; i < CODES; i++) cr_expect_eq(launches[i].args.flags, flags[i], "launch %d: flags %u, wanted %u", i, launches[i].args.flags, flags[i]);
}

TestSuite(runtime_fronts, .init = all_there);

Test(runtime_fronts, the_last_one_waits) {
  tell(true);
  expect((unsigned[]){NOT, NOT, BEHIND, BEHIND, BEHIND, LAST, NOT});
  cr_expect(!launches[1].spared);
}

Test(runtime_fronts, the_last_one_that_is_launched_waits) {
  launches[5].empty = true;
  tell(true);
  expect((unsigned[]){NOT, NOT, BEHIND, LAST, BEHIND, BEHIND, NOT});
  launches[3].empty = true, launches[4].empty = false; /* what stands in */
  tell(true);
  expect((unsigned[]){NOT, NOT, BEHIND, BEHIND, LAST, BEHIND, NOT});
}

Test(runtime_fronts, no_front_is_told_where_it_is_not_launched) {
  const unsigned none[] = {NOT, NOT, NOT, NOT, NOT, NOT, NOT};
  tell(true);
  launches[1].empty = true; /* its boxes do not fit */
  tell(true);
  expect(none);
  launches[1].empty = false;
  tell(false);
  expect(none);
  cr_expect(launches[1].spared);
  tell(true);
  cr_expect(!launches[1].spared);
}

Test(runtime_fronts, a_front_behind_which_nothing_computes_is_spared) {
  launches[3].empty = launches[5].empty = true;
  tell(true);
  expect((unsigned[]){NOT, NOT, NOT, NOT, NOT, NOT, NOT});
  cr_expect(launches[1].spared);
}

static float break_even(const rt_plan *plan, const ir_code_image *code) {
  spc_args args;
  rt_plan_weigh(plan, code, &args);
  cr_expect_eq(args.other_threshold, code->weighs_too ? args.threshold * 2 : 0); /* 0.5 and 0.25, or both out of reach: see below */
  return args.threshold;
}

/* Break-evens come with the launch (spc_args.threshold): those of the lists that it weighs, out of reach where a verdict is forced. */
Test(runtime_break_even, of_the_lists_that_the_launch_weighs) {
  ir_stage stages[] = {{.kind = IR_STAGE_COMPUTE, .when = {.list = &other, .threshold = 0.5}}, {.kind = IR_STAGE_COMPUTE, .when = {.list = &list, .threshold = 0.25}}};
  ir_stage *at[] = {&stages[0], &stages[1]};
  ir_kernel kernel = {0};
  kernel.stages.at = at, kernel.stages.count = 2;
  const ir_code_image weighs = {.weighs = &list}, weighs_both = {.weighs = &list, .weighs_too = &other}, weighs_none = {0};
  ir_image image = {.cuda = true, .kernel = &kernel};
  rt_plan plan = {.image = &image};
  cr_expect_eq(break_even(&plan, &weighs), 0.25f);
  cr_expect_eq(break_even(&plan, &weighs_none), 0);
  cr_expect_eq(break_even(&plan, &weighs_both), 0.25f);
  plan.options.force_guard = 1;
  cr_expect_eq(break_even(&plan, &weighs), INFINITY);
  plan.options.force_guard = 2;
  cr_expect_eq(break_even(&plan, &weighs), -1);
}
