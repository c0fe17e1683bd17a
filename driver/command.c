/* command.c - the command line's spine: one arena, one sink, one subcommand. */
#include <errno.h>
#include <setjmp.h>
#include <stdlib.h>
#include <unistd.h>

#include "driver/driver.h"

const drv_command_row drv_command_rows[] = {
#define SPC_COMMAND(LETTER, NAME, FUNCTION, ARGUMENTS, MEANING)                                    \
  {LETTER, NAME, FUNCTION, ARGUMENTS, MEANING},
#include "driver/commands.def"
#undef SPC_COMMAND
};
const int drv_command_count = IR_COUNT(drv_command_rows);

static const drv_command_row *command_named(const char *name) {
  for (int i = 0; i < drv_command_count; i++)
    if (!strcmp(drv_command_rows[i].name, name)) return &drv_command_rows[i];
  return NULL;
}

static int unknown_command(const char *name) {
  const char *known[16];
  for (int i = 0; i < drv_command_count; i++) known[i] = drv_command_rows[i].name;
  const char *near = ir_nearest(name, known, drv_command_count);
  if (near)
    fprintf(stderr, "spc: no command `%s`; did you mean `%s`?\n", name, near);
  else
    fprintf(stderr, "spc: no command `%s`; `spc help` lists them\n", name);
  return drv_exit_code(SPC_INVALID_ARGUMENT);
}

/* What a command printed must have arrived: a full disk is an error of the last write. */
static int flush_stdout(int code) {
  bool lost = ferror(stdout);
  if (!fflush(stdout) && !lost) return code;
  fprintf(stderr, "spc: cannot write to standard output: %s\n", strerror(errno));
  return drv_exit_code(SPC_IO);
}

static int print_version(int argc, char **argv) {
  bool json = argc > 2 && !strcmp(argv[2], "--json");
  if (argc > 2 && !json) {
    fprintf(stderr, "spc: --version takes only --json, not `%s`\n", argv[2]);
    return drv_exit_code(SPC_INVALID_ARGUMENT);
  }
  if (json)
    printf("{\"name\":\"spc\",\"version\":\"%s\",\"language\":1,\"cpu\":\"%s\",\"cuda\":\"%s\"}\n",
           SPC_VERSION, cg_cpu_version(), cg_nvrtc_version());
  else
    printf("spc %s\nlanguage: spx 1\nCPU: %s\nCUDA: %s\n", SPC_VERSION, cg_cpu_version(),
           cg_nvrtc_version());
  return flush_stdout(0);
}

/* The cache is noted where a jump out of memory finds it. */
static int run_command(ir_arena *arena, const drv_command_row *row, int argc, char **argv,
                       rt_cache *volatile *noted) {
  drv_session *s = IR_NEW(arena, drv_session);
  *s = (drv_session){.arena = arena,
                     .sink = ir_sink_new(arena),
                     .command = row->letter,
                     .command_name = row->name};
  if (drv_parse_options(s, argc, argv)) return drv_exit_code(SPC_INVALID_ARGUMENT);
  s->sink->werror = s->options.werror;
  s->cache = *noted = rt_cache_open();
  int code = row->run(s);
  drv_render(s);
  rt_cache_close(s->cache);
  return flush_stdout(code);
}

int spc_command(int argc, char **argv) {
  if (argc < 2) {
    fputs("spc: a command is needed: compile, run, check, explain, opt, fmt, show, doctor; `spc "
          "help` says more\n",
          stderr);
    return drv_exit_code(SPC_INVALID_ARGUMENT);
  }
  if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "version"))
    return print_version(argc, argv);
  const char *name = !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") ? "help" : argv[1];
  const drv_command_row *row = command_named(name);
  if (!row) return unknown_command(argv[1]);
  ir_arena *arena = ir_arena_new();
  if (!arena) return drv_exit_code(SPC_OUT_OF_MEMORY);
  jmp_buf out_of_memory;
  rt_cache *volatile cache = NULL;
  int code;
  if (setjmp(out_of_memory)) {
    fputs("spc: out of memory\n", stderr);
    ir_arena_guard(arena, NULL);
    rt_cache_close(cache);
    ir_arena_free(arena);
    return drv_exit_code(SPC_OUT_OF_MEMORY);
  }
  ir_arena_guard(arena, &out_of_memory);
  code = run_command(arena, row, argc - 2, argv + 2, &cache);
  ir_arena_free(arena);
  return code;
}
